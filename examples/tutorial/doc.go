// Tutorial is the program in docs/first-agent.md: an agent that reserves a table and confirms it by
// mail. The mail service is down until the file mail-is-up exists. Kill the program while it waits,
// create the file, and run the program again.
//
//	go run ./examples/tutorial
package main
