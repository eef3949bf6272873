// R3labs shows how a program that already serves events with github.com/r3labs/sse/v2, in this case
// events about orders, adds the events of its agents: one stream for each run, and one for all
// runs. A client from the same library prints the events.
//
//	go run ./examples/r3labs
//
// Two runs fetch prices from a service that is down at first. The program ends when both runs have
// ended.
package main
