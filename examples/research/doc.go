// Research has an agent write a report: it searches in parallel, has a
// sub-agent read what it found, and publishes the report if somebody approves.
//
//	go run ./examples/research
//
// needs no key and no network: the model is scripted, behind a real HTTP server
// on loopback. With OPENAI_API_KEY set (and OPENAI_BASE_URL, for another
// service than OpenAI's), the same agents talk to that service.
//
// Kill it at any time, as by Ctrl-\ or kill -9, and run it again: it goes on
// where it was, in the directory research-data (-dir names another). What the
// model has answered is not asked again, and what was approved is published
// once. It asks on the terminal whether to publish: y approves, n refuses, a
// JSON document approves with other arguments, and any other text refuses
// with that reason, which the model gets to see. -answer gives the answer
// beforehand.
package main
