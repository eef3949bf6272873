// Package crash repeatedly kills real processes in the middle of a run, and checks that the run
// finishes without losing or repeating anything.
package crash
