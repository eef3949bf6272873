// Package diff compares two stored runs, such as a run and its fork. It
// reports which calls, values and artifacts differ.
package diff
