package turn

import (
	"encoding/json"
	"time"
)

// A Kind says what an [Event] is.
type Kind uint8

// The kinds of events.
const (
	StepBegins   Kind = iota + 1 // the model is asked: what follows is of this step
	Text                         // the next words of the answer
	Reasoning                    // the next words of the model's thoughts
	StepEnds                     // the model has answered
	StepVoid                     // what was shown of the step is void; it may begin again
	TurnVoid                     // the agent begins again: all that was shown is void
	ToolCalled                   // the model has asked for a tool
	ToolResult                   // the call of the tool has completed
	ToolFailed                   // it has failed for good, or was refused
	ToolDenied                   // somebody did not approve it
	RetryPlanned                 // a call has failed and is tried again
	RetryOver                    // the wait is over
	Answered                     // a question was answered
	Values                       // the run has set a value that it shows
	Paused                       // the run waits for answers
	Completed                    // the run has completed
	Failed                       // it has failed
	Stopped                      // somebody has stopped it, for good or until it is resumed
)

// An Event is what happens in a turn. A field that is of no use for its kind is empty.
type Event struct {
	Kind Kind

	// Step names the step: of the run, with the number of the call of the model and its
	// attempt, so that no two have the same name.
	Step string

	Text   string          // the words; of a failure, its text; of a refusal, the reason
	Call   string          // the ID of the call of a tool; no two of a run have the same
	Tool   string          // its name
	Data   json.RawMessage // the arguments, the output, or the answer; of Values, all that are shown
	Retry  *Retry
	Asked  []Question // of Paused: the open questions; of Answered, the one
	Cancel bool       // of Stopped: it cannot be resumed
}

// A Retry is a planned attempt of a call.
type Retry struct {
	ID      string    `json:"id"`      // of the call
	Name    string    `json:"name"`    // of the actor
	Kind    string    `json:"kind"`    // llm_call, tool_call or agent_call
	Attempt int       `json:"attempt"` // that is planned, from 2
	Most    int       `json:"max_attempts,omitempty"`
	Seconds float64   `json:"seconds"` // from the failure until it
	At      time.Time `json:"at"`
	Error   string    `json:"error"`
	Over    bool      `json:"over"` // it has begun, or is not made
}

// A Question waits for an answer.
type Question struct {
	ID       string          // on the wire: with that of the run
	Call     string          // the ID of the call of the tool that asks, or asks for approval; empty if it is not one
	Text     string          // what is asked
	Schema   json.RawMessage // of the answer; nil if it is not known
	Due      time.Time       // when its default answers it; zero for never
	Approval bool            // whether a call is approved is asked
	Refused  string          // why the answer before did not fit
}

// IsEnd reports whether nothing follows the event until somebody does something.
func (k Kind) IsEnd() bool { return k >= Paused }
