// Command service is a service with four agents: one that makes a report of
// several calls, with a flaky one among them; one that asks somebody before it
// refunds; one that sleeps before it reminds; and one that chats, on a page of 50
// lines that streams its answers. Start it, start runs with the
// lines that it prints, kill it in the middle, and start it again: all runs go
// on where they were.
//
//	go run ./examples/service
package main
