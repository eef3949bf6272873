// Package aisdk serves threads to useChat of the AI SDK: it speaks the UI message stream v1, as in
// version 7 of the npm package "ai".
//
//	chat, err := aisdk.New(dash, aisdk.Options{Threads: threads, Control: control, Program: "assistant"})
//	http.Handle("/chat/", http.StripPrefix("/chat", chat))
//
// Package runner/service does this at /chat/{program}. The page calls:
//
//	useChat({ id, messages, resume: true, transport: new DefaultChatTransport({ api: "/chat/assistant" }),
//	  sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses })
//
// # Paths
//
// Paths are relative to where the handler is mounted:
//
//	POST /                what useChat posts: a new message begins a turn, or joins the turn that it began earlier
//	GET  /{chat}/stream   the last turn, from its beginning; status 204 if there is none
//	GET  /{chat}          the messages of the thread, for a page that loads: {"id": …, "messages": […]}
//	POST /{chat}/stop     ends the turn for good
//
// The chat ID is the ID of the thread, and the ID of the assistant's message is the ID of the run.
// Closing a connection does not stop a turn.
//
// # What is shown
//
// Each call of the model is a step, with text and thoughts as the model writes them. Tool calls
// are dynamic tools; they are sent when the model's answer is complete. The text of a failed
// attempt is withdrawn at once, with "reset-step". A call that is retried is a transient part
// "data-retry", whose data has name, kind, attempt, max_attempts, seconds, at, error and over.
// It is sent when the wait begins, and again, with over set, when the wait has ended. What
// happens in agents that are used as tools is not shown, except for retries. Values that the
// run shows are sent in a transient part "data-values".
//
// If the agent itself is retried, it starts over. Only its last step is withdrawn, because the
// protocol cannot withdraw earlier ones.
//
// # Questions
//
// The stream ends when the run waits for an answer, and the next POST continues with what follows.
// A question whether a call is approved is a "tool-approval-request"; the page answers it with
// addToolApprovalResponse. Any other question is a call of the tool "question", whose input has
// text, schema, due and refused; the page answers it with addToolOutput. The ID of a question
// contains the ID of its run, so an answer counts only once.
//
// # Errors
//
// A request that cannot be served gets an "error" part in the stream. Examples are a message while
// the previous turn has not ended, an answer to no open question, and assistant messages that are
// not part of the thread. The server has the history: of the messages that a client posts, only the
// last one counts.
package aisdk
