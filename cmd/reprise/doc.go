// Command reprise inspects and changes stored runs. It can list, show, compare, fork, export,
// verify, repair and delete runs, answer their questions, and interrupt or cancel them. It can also
// serve the agents of a program, so that runs can be started over HTTP.
//
//	go install github.com/reprise-go/reprise/cmd/reprise@latest
//	reprise --dir ./reprise-data runs
//	reprise help
//
// The exit code is 0 on success, 1 if something failed, was damaged, or was lost in a repair, 2 for
// incorrect usage, and 130 if the command was interrupted.
package main
