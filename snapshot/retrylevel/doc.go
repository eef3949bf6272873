// Package retrylevel is the retry configuration of a run as it is kept with the
// run and shown: with its defaults filled in, and without its functions.
//
// It is for people. A run that is resumed goes on with the configuration of its
// program, whatever [Levels] were kept before.
package retrylevel
