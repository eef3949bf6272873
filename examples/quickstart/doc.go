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
package main
