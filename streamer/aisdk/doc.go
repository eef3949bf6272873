// Package aisdk serves threads to useChat of the AI SDK: it speaks the UI message stream v1, of
// version 7 of the package "ai" from npm.
//
//	chat, err := aisdk.New(dash, aisdk.Options{Threads: threads, Control: control, Program: "assistant"})
//	http.Handle("/chat/", http.StripPrefix("/chat", chat))
//
// Package runner/service does so at /chat/{program}. The page has
//
//	useChat({ id, messages, resume: true, transport: new DefaultChatTransport({ api: "/chat/assistant" }),
//	  sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses })
//
// # Paths
//
// They are relative to where the handler is mounted:
//
//	POST /                what useChat posts: a new message begins a turn, or joins the turn that it has begun before
//	GET  /{chat}/stream   the last turn, from its beginning; status 204 if there is none
//	GET  /{chat}          the messages of the thread, for a page that is loaded: {"id": …, "messages": […]}
//	POST /{chat}/stop     ends the turn for good
//
// The ID of the chat is that of the thread, and the ID of the assistant's message that of the run.
// Closing a connection does not stop a turn.
//
// # What is shown
//
// Each call of the model is a step, with text and thoughts as they come, and its calls of tools when it has
// answered, as dynamic tools. The text of an attempt that fails is withdrawn at once, with
// "reset-step". A call that is tried again is a transient part "data-retry", whose data has
// name, kind, attempt, max_attempts, seconds, at, error and over: it is sent when the wait
// begins, and again, with over, when it has ended. What happens in agents that are tools is not shown, but for
// retries. Values that the run shows are a transient part "data-values".
//
// An agent that is retried itself begins anew: only its last step is withdrawn, since the protocol
// cannot withdraw those before.
//
// # Questions
//
// The stream ends when the run waits for an answer, and continues after the next POST with what is new. Whether a call is
// approved is a "tool-approval-request", whose answer is addToolApprovalResponse. Any other question is a
// call of the tool "question", whose input has text, schema, due and refused: the page answers with
// addToolOutput. The ID of a question has that of its run, so that an answer counts once.
//
// # Errors
//
// What cannot be served is an "error" of the stream: a message while the turn before has not ended,
// an answer to no question, messages of an assistant that are not of the thread. The server has the history: of the messages
// that a client posts only the last one counts.
package aisdk
