// Resume shows that a killed run goes on where it stopped: a first process is
// killed in the middle of a backoff, a second one resumes the run, and what
// the tools did to the outside is counted.
//
//	go run ./examples/resume
//
// The run is kept in a directory of its own, which the end of the output
// names; `reprise show` reads it.
package main
