// Dashboard runs many agents and serves the page to watch them: support tickets that
// ask for approval of refunds, research with nested agents and parallel groups, and
// imports that exceed the rate limit of a model. In part of every minute the services
// fail often, and retries pile up.
//
//	go run ./examples/dashboard
//
// The program prints the address. On the page, questions can be answered and runs
// interrupted: a run whose question is answered continues from there. Ctrl-C stops the
// program.
package main
