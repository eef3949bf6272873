// Resume shows that a killed run continues from where it stopped: a first process is
// killed during a backoff, a second one resumes the run, and the external effects of
// the tools are counted.
//
//	go run ./examples/resume
//
// The run is stored in a directory whose name is printed at the end; `reprise show`
// shows it.
package main
