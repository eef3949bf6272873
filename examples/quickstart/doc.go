// Quickstart runs an agent whose tools fail and recover, and prints every attempt. A model asks for
// a file with the names of cities, and then for the weather in each city. The weather comes from a
// service that is overloaded at first.
//
//	go run ./examples/quickstart
//
// This needs no key and no network: the model is a script and the weather service is local; both
// are real HTTP servers on the loopback interface. If OPENAI_API_KEY is set (and OPENAI_BASE_URL
// for a service other than OpenAI), the same agent uses that service. Ctrl-C interrupts the agent
// at any time.
//
// On a terminal, running calls are shown live, with a countdown of their waits. Elsewhere, and with
// -plain, each attempt is printed as it happens. With -compact, each call is printed when it ends.
package main
