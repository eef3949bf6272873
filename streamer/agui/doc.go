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
//	POST /                a RunAgentInput: a new message begins a turn, and resume continues a turn; without both, the client attaches to the thread
//	POST /connect         a RunAgentInput: the client attaches to the thread
//	POST /{thread}/stop   ends the turn for good
//
// A client that attaches receives the thread's messages as a MESSAGES_SNAPSHOT, then the last turn
// from its beginning, and then new events as they occur. So does a client that posts a message
// again after the message's turn has begun. Closing a connection does not stop a turn.
//
// # What is shown
//
// Text and thoughts are sent as the model writes them; its tool calls are sent when its answer is
// complete. If text is withdrawn because an attempt failed, the open messages are ended, and a
// MESSAGES_SNAPSHOT contains the messages without that text. For a call that is retried, a CUSTOM
// event "retry" is sent when the wait begins, and another, with over set, when the wait has ended.
// Its value contains name, kind, attempt, max_attempts, seconds, at, error and over. Values that
// the run exposes (see state.PutShown) are sent as the protocol's state. What happens in agents
// that are used as tools is not shown, except for retries. The agent does not see the request's
// state, context and forwardedProps. Requests with frontend tools are refused.
//
// # Questions
//
// If a run waits for answers, the response ends with a RUN_FINISHED whose outcome is an interrupt.
// The reason is tool_call if the question asks for approval of a call, and input_required
// otherwise. The resume field of the next request must contain the answers to all questions. The
// payload that approves a call is {"approved": true}, or {"approved": true, "editedArgs": {…}} to
// change its arguments; cancelling an approval refuses the call. Cancelling any other question
// stops the turn. A question's ID contains the ID of its run, so an answer counts only once.
//
// # Errors
//
// The response to a request that cannot be served is a RUN_ERROR. Examples of such requests are a
// message sent before the previous turn has ended, an answer to a question that is not open, and
// assistant messages that are not part of the thread. The server keeps the history: of the messages
// that a client posts, only the last one counts.
//
// The stream of a turn that failed ends with a RUN_ERROR whose code is failed. If the run was set
// aside until someone resumes it, the code is the reason for the interrupt, such as divergence or
// crash_loop; see record.InterruptReason.
package agui
