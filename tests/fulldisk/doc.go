// Package fulldisk tests that a run that stops because the disk is full continues when there is
// space again. It uses limits of the operating system.
package fulldisk
