// Dashboard runs many agents and serves a page that shows them: support tickets that ask for
// approval of refunds, research with nested agents and parallel groups, and imports that exceed a
// model's rate limit. During part of every minute, the services fail often, and retries pile up.
//
//	go run ./examples/dashboard
//
// The program prints the page's address. On the page, you can answer questions and interrupt runs.
// A run continues when its question is answered. Ctrl-C stops the program.
package main
