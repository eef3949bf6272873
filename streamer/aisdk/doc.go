// Package aisdk serves threads to useChat of the AI SDK. It uses the UI message stream v1, as does
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
//	POST /                what useChat posts: a new message begins a turn, or joins the turn that the same message has begun
//	GET  /{chat}/stream   the last turn, from its beginning; status 204 if there is none
//	GET  /{chat}          the messages of the thread, for a page that loads: {"id": …, "messages": […]}
//	POST /{chat}/stop     ends the turn for good
//
// The chat's ID is the thread's ID, and the ID of the assistant's message is the run's ID. Closing
// a connection does not stop a turn.
//
// # What is shown
//
// Each call to the model is a step, whose text and thoughts are sent as the model writes them. Tool
// calls are dynamic tools; they are sent when the model's answer is complete. The text of a failed
// attempt is withdrawn at once, with "reset-step". For a call that is retried, a transient part
// "data-retry" is sent when the wait begins, and another, with over set, when the wait has ended.
// Its data contains name, kind, attempt, max_attempts, seconds, at, error and over. What happens in
// agents that are used as tools is not shown, except for retries. Values that the run exposes (see
// state.PutShown) are sent in a transient part "data-values".
//
// If the agent itself is retried, it starts over. Only its last step is withdrawn, because the
// protocol cannot withdraw earlier steps.
//
// # Questions
//
// The stream ends when the run waits for an answer; the response to the next POST continues from
// there. A question that asks for approval of a call is a "tool-approval-request"; the page answers
// it with addToolApprovalResponse. Any other question is a call to the tool "question", whose input
// contains text, schema, due and refused; the page answers it with addToolOutput. A question's ID
// contains the ID of its run, so an answer counts only once.
//
// # Errors
//
// The response to a request that cannot be served is a stream with an "error" part. Examples of
// such requests are a message sent before the previous turn has ended, an answer to a question that
// is not open, and assistant messages that are not part of the thread. The server keeps the
// history: of the messages that a client posts, only the last one counts.
//
// The stream of a turn that failed, or that was set aside until someone resumes it, also ends with
// an "error" part.
package aisdk
