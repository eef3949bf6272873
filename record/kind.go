package record

import "github.com/reprise-go/reprise/internal/enum"

// Kind says what a [Record] is about. Each kind of call has its own defaults for retries.
type Kind uint8

// The kinds of records. Tools, LLMs, agents, steps, groups, branches and
// compensations are calls.
const (
	KindTool         Kind = iota + 1 // a call to a tool
	KindLLM                          // a call to a language model
	KindAgent                        // a call to an agent
	KindRun                          // the beginning or the end of a run
	KindLog                          // a line of the log
	KindValue                        // a value stored by key
	KindStep                         // a step: code in a handler whose result is recorded
	KindQuestion                     // a question to a person or a program outside the run
	KindAnswer                       // the answer to a question
	KindGroup                        // a group: calls that run in parallel
	KindBranch                       // one branch of a group: a function
	KindVersion                      // the version of the code that an attempt executes
	KindCompensation                 // a call that undoes what another call did
	kindEnd
)

var kindNames = [kindEnd]string{
	KindTool: "tool_call", KindLLM: "llm_call", KindAgent: "agent_call", KindRun: "run",
	KindLog: "log", KindValue: "value", KindStep: "step",
	KindQuestion: "question", KindAnswer: "answer", KindGroup: "group", KindBranch: "branch",
	KindVersion: "version", KindCompensation: "compensation",
}

// String returns the wire name, such as "tool_call".
func (k Kind) String() string { return enum.Name(kindNames[:], uint8(k), "kind") }

// IsCall reports whether records of this kind are about a call.
func (k Kind) IsCall() bool {
	switch k {
	case KindTool, KindLLM, KindAgent, KindStep, KindGroup, KindBranch, KindCompensation:
		return true
	}
	return false
}

// IsParallel reports whether records of this kind are about a group or a branch of one. They are
// not counted as calls, since they only contain calls.
func (k Kind) IsParallel() bool { return k == KindGroup || k == KindBranch }

// IsEntered reports whether k is the kind of agents, groups or branches. Their handlers only make
// other calls, so when a run is resumed, a handler runs again up to the point where it stopped.
func (k Kind) IsEntered() bool { return k == KindAgent || k.IsParallel() }

// MarshalText returns the name of k that is used on the wire.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a name that MarshalText wrote.
func (k *Kind) UnmarshalText(text []byte) error {
	return enum.Parse(kindNames[:], text, "kind", (*uint8)(k))
}

// Status is the state of a call, or of a run, when a [Record] was made.
type Status uint8

// The statuses. Completed is an outcome, and so is failed if no retry follows. Interrupted and
// awaiting are suspensions: the call continues when the run is resumed.
const (
	StatusStarted     Status = iota + 1 // an attempt began
	StatusCompleted                     // the call returned its output
	StatusFailed                        // an attempt failed; Record.WillRetry reports whether another follows
	StatusRetrying                      // the call began to wait for its next attempt
	StatusRecovered                     // an outcome was recalled from restored history
	StatusInterrupted                   // the call stopped without an outcome
	StatusAwaiting                      // the call waits for an answer from outside
	StatusRecorded                      // a fact that does not change, such as a log line or a value
	StatusCancelled                     // the run was ended for good and will not be resumed
	statusEnd
)

var statusNames = [statusEnd]string{
	StatusStarted: "started", StatusCompleted: "completed", StatusFailed: "failed",
	StatusRetrying: "retrying", StatusRecovered: "recovered", StatusInterrupted: "interrupted",
	StatusAwaiting: "awaiting", StatusRecorded: "recorded", StatusCancelled: "cancelled",
}

// String returns the wire name, such as "retrying".
func (s Status) String() string { return enum.Name(statusNames[:], uint8(s), "status") }

// MarshalText returns the wire name.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name that MarshalText wrote.
func (s *Status) UnmarshalText(text []byte) error {
	return enum.Parse(statusNames[:], text, "status", (*uint8)(s))
}

// Stage is the part of a call in which the call failed or stopped.
type Stage uint8

// The stages of a call, in order.
const (
	StageNone          Stage = iota
	StageDefinition          // the call could not be set up: its retry configuration is invalid
	StageEntry               // before the call began
	StagePrecondition        // a condition of Require
	StageHandler             // the user's function
	StagePostcondition       // a condition of Ensure
	StageEncode              // encoding the output
	StageArtifact            // storing a large output
	StageRecord              // appending a record of the call
	StageWait                // between two attempts
	StageIntercept           // an attempt whose handler an interceptor did not let run
	stageEnd
)

var stageNames = [stageEnd]string{
	StageNone: "", StageDefinition: "definition", StageEntry: "entry", StagePrecondition: "precondition",
	StageHandler: "handler", StagePostcondition: "postcondition", StageEncode: "encode",
	StageArtifact: "artifact", StageRecord: "record", StageWait: "wait", StageIntercept: "intercept",
}

// String returns the stage as one word, or an empty string for StageNone.
func (s Stage) String() string { return enum.Name(stageNames[:], uint8(s), "stage") }
