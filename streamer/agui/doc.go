// Package agui serves threads to clients of AG-UI 1.0, such as HttpAgent of @ag-ui/client.
//
//	agent, err := agui.New(dash, agui.Options{Threads: threads, Control: control, Program: "assistant"})
//	http.Handle("/agui/", http.StripPrefix("/agui", agent))
//
// Package runner/service does this at /agui/{program}.
//
// # Paths
//
// Paths are relative to where the handler is mounted:
//
//	POST /                a RunAgentInput: a new message begins a turn, resume continues one; without either it attaches to the thread
//	POST /connect         a RunAgentInput: attaches to the thread
//	POST /{thread}/stop   ends the turn for good
//
// A client that attaches receives the messages of the thread as a MESSAGES_SNAPSHOT, then the last
// turn from its beginning, and then new events as they occur. A client that posts a message again
// after its turn has begun receives the same. Closing a connection does not stop a turn.
//
// # What is shown
//
// Text and thoughts are sent as the model writes them; its tool calls are sent when its answer
// is complete. If text is withdrawn because an attempt failed, the open events are ended, and a
// MESSAGES_SNAPSHOT has the messages without that text. A call that is retried is a CUSTOM
// event "retry", whose value has name, kind, attempt, max_attempts, seconds, at, error and
// over. It is sent when the wait begins, and again, with over set, when the wait has ended.
// Values that the run shows (see state.PutShown) are sent as the state of the protocol. What
// happens in agents that are used as tools is not shown, except for retries. The agent does not
// see state, context and forwardedProps of the request. Requests with frontend tools are
// refused.
//
// # Questions
//
// A run that waits for answers ends the response with a RUN_FINISHED whose outcome is an interrupt.
// Its reason is tool_call if the question is whether a call is approved, and input_required
// otherwise. The next request has the answers to all questions in resume. The payload that approves
// a call is {"approved": true}, or {"approved": true, "editedArgs": {…}} to change its arguments;
// cancelling an approval refuses the call. Cancelling any other question stops the turn. The ID of
// a question contains the ID of its run, so an answer counts only once.
//
// # Errors
//
// A request that cannot be served gets a RUN_ERROR. Examples are a message while the previous turn
// has not ended, an answer to no open question, and assistant messages that are not part of the
// thread. The server has the history: of the messages that a client posts, only the last one
// counts.
package agui
