// Package fulldisk runs out of disk space in the middle of a run, using limits
// of the operating system, and continues when there is space again.
package fulldisk
