// Chat is a conversation on the terminal: the answers are shown word by word
// as the model gives them, and what was said is remembered over restarts.
//
//	go run ./examples/chat
//
// needs no key and no network: the model is scripted, behind a real HTTP
// server on loopback that streams. Tell it your name, end it with Ctrl-C or
// Ctrl-D, start it again and ask for your name; ask it for the time, which it
// looks up with a tool. With OPENAI_API_KEY set (and OPENAI_BASE_URL, for
// another service than OpenAI's), the same program talks to that service.
//
// Each turn is a run in the directory chat-data; -dir names another, and -id
// another conversation in it. A turn that was ended in the middle goes on at
// the next start, and the words that were already paid for are not asked for
// again.
package main
