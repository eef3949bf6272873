// Command service is a service with three agents: one that makes a report of
// several calls, with a flaky one among them; one that asks somebody before it
// refunds; and one that sleeps before it reminds. Start it, start runs with the
// lines that it prints, kill it in the middle, and start it again: all runs go
// on where they were.
//
//	go run ./examples/service
package main
