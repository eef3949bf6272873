// R3labs is a program that already sends events with a server of
// github.com/r3labs/sse/v2, about orders here, and has the retries of its agents
// among them: in a stream for each run, and in one for all. A client of the same
// library prints what comes.
//
//	go run ./examples/r3labs
//
// Two runs fetch prices from a service that is down at first. The program ends
// when both have ended.
package main
