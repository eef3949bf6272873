// Webchat is a chat on a page that uses useChat from the AI SDK. It shows answers word by word,
// retries of model calls, and calls that need approval. Kill the program in the middle of an answer
// and start it again: the page continues where it stopped.
//
//	go run ./examples/webchat
//
// This needs no key and no network: the model is a script behind a real HTTP server on the loopback
// interface. Say "busy" for a model that has reached a rate limit, "refund" for a tool that needs
// approval, and anything else for a long answer. The flag -h lists the flags.
//
// The page is page/main.jsx. The server serves dist/main.js, which is in the repository so that the
// example needs only Go. To rebuild dist/main.js, run npm ci && npm run build in page.
package main
