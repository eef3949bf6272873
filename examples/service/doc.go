// Command service is a service with four agents: one writes a report with several calls, some of
// which fail at first; one asks for approval of a refund; one sleeps before it sends a reminder;
// and one chats on a page of 50 lines, which streams its answers. Start the service, start runs
// with the commands that it prints, kill it at any time, and start it again: all runs continue
// where they stopped.
//
//	go run ./examples/service
package main
