// Package retrylevel is the retry configuration of a run in the form in which it is stored
// with the run and shown: with its defaults, and without its functions.
//
// It is only shown. A run that is resumed uses the configuration of its program, whatever
// [Levels] were stored before.
package retrylevel
