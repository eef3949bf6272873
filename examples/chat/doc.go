// Chat is a conversation in the terminal. Answers are shown word by word as the model generates
// them, and the conversation is remembered across restarts.
//
//	go run ./examples/chat
//
// This needs no key and no network: the model is a script behind a real, streaming HTTP server on
// the loopback interface. Tell it your name, stop the program with Ctrl-C or Ctrl-D, start it
// again, and ask for your name. Ask the model for the time, which it looks up with a tool. If
// OPENAI_API_KEY is set (and OPENAI_BASE_URL for a service other than OpenAI), the same program
// uses that service.
//
// Each turn is a run in the directory chat-data. The flag -dir selects another directory, and -id
// selects another conversation. A turn that was interrupted continues at the next start, without
// repeating model calls that were completed.
package main
