// Package diff compares two stored runs, such as a run and its fork, and reports which calls,
// values and artifacts differ.
package diff
