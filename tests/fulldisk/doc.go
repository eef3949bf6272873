// Package fulldisk runs out of disk in the middle of a run, with limits of the
// operating system, and goes on when there is room again.
package fulldisk
