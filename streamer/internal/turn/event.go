package turn

import (
	"encoding/json"
	"time"
)

// A Kind says what an [Event] is.
type Kind uint8

// The kinds of events.
const (
	StepBegins   Kind = iota + 1 // the model is called; what follows belongs to this step
	Text                         // more text of the answer
	Reasoning                    // more text of the model's thoughts
	StepEnds                     // the model has answered
	StepVoid                     // what the step has shown is void; it may begin again
	TurnVoid                     // the agent starts over: all that was shown is void
	ToolCalled                   // the model has requested a tool call
	ToolResult                   // the tool call has completed
	ToolFailed                   // the tool call has failed for good, or was refused
	ToolDenied                   // the tool call was not approved
	RetryPlanned                 // a call has failed and is tried again
	RetryOver                    // the wait is over
	Answered                     // a question was answered
	Values                       // the run has set a value that is shown
	Paused                       // the run waits for answers
	Completed                    // the run has completed
	Failed                       // the run has failed
	Stopped                      // the run was stopped, for good or until it is resumed
)

// An Event is something that happens in a turn. Fields that its kind does not use are
// empty.
type Event struct {
	Kind Kind

	// Step is the name of the step. It contains the ID of the run, the number of the
	// model call and its attempt, and is unique.
	Step string

	Text   string          // new text; the text of a failure; the reason of a refusal
	Call   string          // the ID of the tool call, unique in the run
	Tool   string          // the name of the tool
	Data   json.RawMessage // the arguments, the output, or the answer; of Values, all shown values
	Retry  *Retry
	Asked  []Question // of Paused, the open questions; of Answered, the answered one
	Cancel bool       // of Stopped: the run cannot be resumed
}

// A Retry is a planned attempt of a call.
type Retry struct {
	ID          string    `json:"id"`      // ID of the call
	Name        string    `json:"name"`    // name of the actor
	Kind        string    `json:"kind"`    // llm_call, tool_call or agent_call
	Attempt     int       `json:"attempt"` // the number of the planned attempt, from 2
	MaxAttempts int       `json:"max_attempts,omitempty"`
	Seconds     float64   `json:"seconds"` // from the failure to that attempt
	At          time.Time `json:"at"`
	Error       string    `json:"error"`
	Over        bool      `json:"over"` // the attempt has begun, or will not be made
}

// A Question waits for an answer.
type Question struct {
	ID       string          // ID on the wire, which contains the run's ID
	Call     string          // the ID of the tool call that asks, or that needs approval; empty if there is none
	Text     string          // what is asked
	Schema   json.RawMessage // JSON schema of the answer; nil if unknown
	Due      time.Time       // when its default answers it; zero for never
	Approval bool            // the question asks for approval of a call
	Refused  string          // why the previous answer was refused
}

// IsEnd reports whether no event follows until the run is answered or resumed.
func (k Kind) IsEnd() bool { return k >= Paused }
