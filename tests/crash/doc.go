// Package crash kills real processes in the middle of a run, again and again,
// and checks that the run comes to its end with nothing lost or repeated.
package crash
