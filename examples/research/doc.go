// Research runs an agent that writes a report: it searches in parallel, lets another agent read the
// pages that it found, and publishes the report after approval.
//
//	go run ./examples/research
//
// This needs no key and no network: the model is a script behind a real HTTP server on the loopback
// interface. If OPENAI_API_KEY is set (and OPENAI_BASE_URL for a service other than OpenAI), the
// same agents use that service.
//
// Kill the program at any time, for example with Ctrl-\ or kill -9, and run it again: it continues
// where it stopped, in the directory research-data (-dir selects another one). Completed model
// calls are not repeated, and an approved report is published once. The program asks on the
// terminal whether to publish: y approves, n refuses, a JSON document approves with different
// arguments, and any other text refuses with that text as the reason, which is passed to the model.
// The flag -answer gives the answer in advance.
package main
