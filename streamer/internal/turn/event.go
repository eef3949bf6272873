package turn

import (
	"encoding/json"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/codec"
)

// A Kind specifies what an [Event] reports.
type Kind uint8

// The kinds of events.
const (
	StepBegins   Kind = iota + 1 // the model is called; the events that follow belong to this step
	Text                         // more of the answer's text
	Reasoning                    // more of the model's thoughts
	StepEnds                     // the model has answered
	StepVoid                     // what the step has shown is void; the step may begin again
	TurnVoid                     // the agent starts over: everything that the turn has shown is void
	ToolCalled                   // the model has requested a tool call
	ToolResult                   // the tool call has completed
	ToolFailed                   // the tool call has failed for good or was refused
	ToolDenied                   // the tool call was not approved
	RetryPlanned                 // a call has failed and will be tried again
	RetryOver                    // the wait before the next attempt has ended
	Answered                     // a question was answered
	Values                       // the values that the run exposes have changed
	Paused                       // the run waits for answers
	Completed                    // the run has completed
	Failed                       // the run has failed, or was set aside until someone resumes it
	Stopped                      // the run was stopped, for good or until it is resumed
)

// An Event reports something that happens in a turn. Fields that its kind does not use are
// empty.
type Event struct {
	Kind Kind

	// Step is the step's name. It is unique, and contains the run's ID, the number of the model
	// call and its attempt.
	Step string

	Text   string          // new text; an error message; why a call was not approved; or why the run was stopped
	Call   string          // the tool call's ID, unique in the run
	Tool   string          // the tool's name
	Data   json.RawMessage // the arguments, the output or the answer; for Values, all values that the run exposes
	Retry  *Retry
	Asked  []Question // for Paused, the open questions; for Answered, the question that was answered
	Reason string     // for Failed: why the run was set aside, such as divergence; empty if it failed for good
	Cancel bool       // for Stopped: the run cannot be resumed
}

// A Retry is an attempt of a call that is planned after a failure.
type Retry struct {
	ID          string    `json:"id"`      // the call's ID
	Name        string    `json:"name"`    // the actor's name
	Kind        string    `json:"kind"`    // llm_call, tool_call or agent_call
	Attempt     int       `json:"attempt"` // number of the planned attempt, from 2
	MaxAttempts int       `json:"max_attempts,omitempty"`
	Seconds     float64   `json:"seconds"` // time from the failure to the planned attempt
	At          time.Time `json:"at"`      // when the planned attempt begins
	Error       string    `json:"error"`
	Over        bool      `json:"over"` // the attempt has begun or will not be made
}

// A Question is a question that waits for an answer.
type Question struct {
	ID       string          // ID on the wire, which contains the run's ID
	Call     string          // ID of the tool call that asks or needs approval; empty if there is none
	Text     string          // what is asked
	Schema   json.RawMessage // the answer's JSON schema; nil if unknown
	Due      time.Time       // when the default becomes the answer; zero if there is no default
	Approval bool            // the question asks for approval of a call
	Refused  string          // why the previous answer was refused

	asked core.Question // the question as the run asked it, for check
}

// check returns an error if a JSON value cannot be the answer.
func (q *Question) check(value []byte) error {
	v, err := codec.FromJSON(value)
	if err == nil {
		_, err = q.asked.Encode(v)
	}
	return err
}

// IsEnd reports whether no more events follow until the run is answered or resumed.
func (k Kind) IsEnd() bool { return k >= Paused }
