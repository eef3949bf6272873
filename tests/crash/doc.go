// Package crash repeatedly kills real processes in the middle of a run, and
// checks that the run finishes with nothing lost or repeated.
package crash
