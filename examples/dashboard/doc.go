// Dashboard runs a lively set of agents and serves the page to watch them on:
// support tickets that ask a human before they refund, research with nested
// agents and parallel groups, imports that run into the rate limit of a model.
// Every minute the services have a bad time, and retries pile up.
//
//	go run ./examples/dashboard
//
// prints the address. The page can answer the questions and interrupt runs:
// an answered run goes on from where it asked. Ctrl-C ends everything.
package main
