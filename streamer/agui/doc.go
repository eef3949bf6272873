// Package agui serves threads to clients of AG-UI 1.0, such as HttpAgent of @ag-ui/client.
//
//	agent, err := agui.New(dash, agui.Options{Threads: threads, Control: control, Program: "assistant"})
//	http.Handle("/agui/", http.StripPrefix("/agui", agent))
//
// Package runner/service does so at /agui/{program}.
//
// # Paths
//
// They are relative to where the handler is mounted:
//
//	POST /                a RunAgentInput: a new message begins a turn, resume continues one, and without either the thread is attached to
//	POST /connect         a RunAgentInput: attaches to the thread
//	POST /{thread}/stop   ends the turn for good
//
// A client that attaches is sent the messages of the thread as a MESSAGES_SNAPSHOT, then the last turn from its beginning, and what
// comes. So does one that posts the message of a turn that was begun before. Closing a connection does not stop a turn.
//
// # What is shown
//
// Text and thoughts come as the model writes them, and its calls of tools when it has answered.
// When text is withdrawn, since an attempt has failed, what is open ends, and a MESSAGES_SNAPSHOT
// has the messages without it. A call that is tried again is a CUSTOM event "retry", whose
// value has name, kind, attempt, max_attempts, seconds, at, error and over: it is sent when the
// wait begins, and again, with over, when it has ended. Values that the run shows, see state.Shown,
// are the state. What happens in agents that are tools is not shown, but for retries. State, context and forwardedProps of the request do not reach
// the agent, and tools of the page are refused.
//
// # Questions
//
// A run that waits for answers is a RUN_FINISHED whose outcome is an interrupt: with the reason tool_call if
// a call has to be approved, and otherwise input_required. The next request has answers to all of them as resume. The payload for an approval is such as
// {"approved": true}, or {"approved": true, "editedArgs": {…}}; one that is cancelled refuses. To cancel another question stops the turn. The ID of a question has
// that of its run, so that an answer counts once.
//
// # Errors
//
// What cannot be served is a RUN_ERROR: a message while the turn before has not ended, an answer to
// no question, messages of an assistant that are not of the thread. The server has the history: of the messages that a client posts only the last one counts.
package agui
