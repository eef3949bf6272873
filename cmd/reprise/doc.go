// Command reprise looks at stored runs and works on them: it lists them, shows
// them as they happened, compares, forks, exports, verifies, repairs and
// deletes them, answers the questions that they wait for, interrupts those that
// run, and cancels any. It serves the agents of a program, so that runs can be
// started over HTTP.
//
//	go install github.com/reprise-go/reprise/cmd/reprise@latest
//	reprise --dir ./reprise-data runs
//	reprise help
//
// It exits with 0, with 1 if something failed, was found damaged, or was lost in
// a repair, with 2 if it was used wrongly, and with 130 if it was interrupted.
package main
