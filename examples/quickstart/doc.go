// Quickstart runs an agent whose tools fail and recover, and prints every
// attempt: a model asks to read a file and to fetch the weather of each city
// in it from a service that is overloaded at first.
//
//	go run ./examples/quickstart
//
// needs no key and no network: the model is scripted and the service local,
// both real HTTP servers on loopback. With OPENAI_API_KEY set (and
// OPENAI_BASE_URL, for another service than OpenAI's), the same agent talks to
// that endpoint. Ctrl-C interrupts it at any time.
//
// On a terminal the calls that go on are shown live, with the waits counting
// down; with -compact and everywhere else, lines are written: -plain has each
// attempt as it happens, -compact each call when it is known how it ends.
package main
