package streamer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer/internal/wire"
)

// These are the values of RunInfo.Status other than "queued".
const (
	statusRunning     = "running"
	statusPaused      = "paused"
	statusInterrupted = "interrupted"
	statusCompleted   = "completed"
	statusFailed      = "failed"
	statusCancelled   = "cancelled"
)

// RunState is the state of a run after the record with the number LastSeq.
type RunState struct {
	RunInfo

	Calls     Calls           `json:"calls"`
	Usage     record.Usage    `json:"usage"`
	Current   *CallState      `json:"current,omitempty"`    // the innermost running call; if there are several, the latest
	Around    []CallState     `json:"around,omitempty"`     // the calls around Current, the outermost first
	Waiting   []CallState     `json:"waiting,omitempty"`    // calls that wait for a time, the next due first; at most 50
	Others    []CallState     `json:"others,omitempty"`     // other calls that have not ended, the latest first; at most 50
	LastError *CallError      `json:"last_error,omitempty"` // error of the newest failed attempt, unless its call has completed since or is made again
	Questions []QuestionState `json:"questions,omitempty"`  // questions that can still be answered, in the order in which they were asked
	Partial   bool            `json:"partial,omitempty"`    // some records were not read: calls and errors in them are not known
}

// Calls sums up the [record.Counts] of a run over all kinds of calls. It counts the calls in groups
// and branches, but not the groups and branches themselves.
type Calls struct {
	Started   int `json:"started"`   // all calls, each once: the sum of Active, Asking, Stopped, Completed and Failed
	Active    int `json:"active"`    // calls that are running, or waiting for a time
	Waiting   int `json:"waiting"`   // Active calls that wait for a time, such as that of their next attempt
	Asking    int `json:"asking"`    // calls that are suspended until somebody answers
	Stopped   int `json:"stopped"`   // calls that were interrupted, or cut off by the end of the run or a crash
	Completed int `json:"completed"` // calls that completed with an output
	Failed    int `json:"failed"`    // calls that failed for good
	Attempts  int `json:"attempts"`  // attempts of all calls
	Retries   int `json:"retries"`   // attempts that followed a failed attempt
	Repeats   int `json:"repeats"`   // attempts that repeat one that was interrupted or lost, or whose outcome was replaced
	Restored  int `json:"restored"`  // calls whose outcome was recalled because they ended before the run was last opened
}

func callsOf(c *record.Counts) Calls {
	all := c.All()
	return Calls{
		Started: all.Calls() - all.Restored, Active: all.Running + all.Waiting, Waiting: all.Waiting, Asking: all.Asking,
		Stopped: all.Stopped, Completed: all.Completed, Failed: all.Failed,
		Attempts: c.Attempts, Retries: c.Retries, Repeats: c.Repeats, Restored: c.Recalled,
	}
}

// CallState is a call that has begun and not ended.
type CallState struct {
	Address       record.Address `json:"address"`
	Name          string         `json:"name"`
	Kind          record.Kind    `json:"event_type"`
	State         record.State   `json:"state"`            // running, waiting, asking or stopped
	Status        record.Status  `json:"execution_status"` // the status of the call's latest record
	Seq           uint64         `json:"seq"`              // the number of that record
	Attempt       int            `json:"retry_attempt"`    // number of the attempt, from 0
	MaxAttempts   int            `json:"max_attempts"`     // negative if there is no limit
	Attempts      int            `json:"attempts"`         // how many attempts began, according to the highest attempt number
	Since         time.Time      `json:"since"`            // the time of the latest record
	RetryDelay    float64        `json:"retry_delay,omitempty"`
	DelaySource   string         `json:"delay_source,omitempty"`
	NextAttemptAt *time.Time     `json:"next_attempt_at,omitempty"`
	Error         string         `json:"original_error,omitempty"` // the previous attempt's error; for a suspended call, what it waits for
	ErrorClass    string         `json:"error_class,omitempty"`    // empty for a suspended call, which has not failed
}

// CallError describes why an attempt failed.
type CallError struct {
	Address record.Address `json:"address"`
	Name    string         `json:"name"`
	Class   string         `json:"error_class"`
	Message string         `json:"original_error"`
	Reason  string         `json:"reason,omitempty"` // why there will be no further attempt
	Attempt int            `json:"retry_attempt"`
	Retried bool           `json:"will_retry"`
	Time    time.Time      `json:"time"`
}

// QuestionState is an open question of a run.
type QuestionState struct {
	ID       string           `json:"id"`
	Awaits   record.AwaitKind `json:"awaits,omitempty"` // answer or decision
	Text     string           `json:"message"`
	Redacted bool             `json:"redacted,omitempty"` // whether Text differs from the original
	Address  record.Address   `json:"address"`
	Seq      uint64           `json:"seq,omitempty"` // number of the question's record; 0 if the record was not read
	Asked    time.Time        `json:"asked_at"`
	Due      time.Time        `json:"due_at,omitzero"`   // when the default becomes the answer; zero without a default
	Refused  string           `json:"refused,omitempty"` // why the previous answer was refused

	// Answered reports whether an answer is stored, which the run takes when it is next opened.
	Answered bool `json:"answered,omitempty"`

	Schema  json.RawMessage     `json:"schema,omitempty"` // of the answer
	InDoubt *record.CallInDoubt `json:"in_doubt,omitempty"`
}

// maxText is the maximum length of the text of an error in a RunState.
const maxText = 4 << 10

// maxListed is the maximum length of RunState.Waiting and of RunState.Others.
const maxListed = 50

// view builds the state of a run from its records.
type view struct {
	RunInfo
	ledger    record.Ledger
	lastError *record.Record
	first     uint64 // the generation of the oldest known record
	last      cursor // position of the newest known record
}

func newView(runID string) view { return view{RunInfo: RunInfo{RunID: runID, Status: statusRunning}} }

// isWhole reports whether the view contains every record up to the newest.
func (v *view) isWhole() bool { return v.ledger.First == 1 && !v.ledger.Gaps }

// take adds the next record of the run, and keeps a pointer to it.
func (v *view) take(r *record.Record) {
	if r.Status == record.StatusRecovered {
		v.ledger.Add(r)
	}
	if r.Replayed || r.Seq == 0 {
		return
	}
	if v.ledger.First == 0 {
		v.first = r.Generation
	}
	v.ledger.Add(r)
	v.last = cursorOf(r)
	v.LastSeq, v.Created, v.Updated = r.Seq, v.ledger.Created, r.Time
	switch {
	case r.Kind == record.KindRun:
		v.Description, v.Pipeline = cmp.Or(v.ledger.Description, v.Description), cmp.Or(v.ledger.Name, v.Pipeline)
		v.Status, v.Stop = cmp.Or(statusesOfRuns[r.Status], v.Status), stopOf(v.ledger.Stop)
	case r.Kind.IsCall() && r.Status == record.StatusFailed:
		v.lastError = r
	}
	if _, failed := v.ledger.LastError(); !failed {
		v.lastError = nil
	}
}

var statusesOfRuns = map[record.Status]string{
	record.StatusStarted: statusRunning, record.StatusCompleted: statusCompleted, record.StatusFailed: statusFailed,
	record.StatusAwaiting: statusPaused, record.StatusInterrupted: statusInterrupted, record.StatusCancelled: statusCancelled,
}

// stopOf returns why a run has stopped, or nil if no reason is known.
func stopOf(e *record.InterruptedError) *Stop {
	if e == nil {
		return nil
	}
	stop := &Stop{Reason: string(e.Reason), By: e.By, Message: e.Message}
	if d := (*core.DivergenceError)(nil); errors.As(e.Cause, &d) {
		stop.Message = d.Difference()
	}
	return stop
}

// clone returns a copy that can be changed independently.
func (v *view) clone() view {
	s := *v
	s.ledger = v.ledger.Clone()
	return s
}

// state returns the view as a RunState, in the form in which it is sent.
func (v *view) state() RunState {
	counts := v.ledger.Counts()
	s := RunState{
		RunInfo: v.RunInfo, Calls: callsOf(&counts), Usage: counts.Usage, Partial: v.ledger.First > 0 && !v.isWhole(),
	}
	for _, q := range v.ledger.Questions(false) {
		s.Questions = append(s.Questions, stateOfQuestion(q))
	}
	if v.lastError != nil {
		s.LastError = errorOf(v.lastError)
	}
	var current *record.Call
	var waiting, others []*record.Call
	for call := range v.ledger.Open() {
		switch {
		case call.State == record.StateWaiting:
			waiting = append(waiting, call)
		case call.State == record.StateRunning && (current == nil || isInner(call, current)):
			current = call
		}
	}
	for call := range v.ledger.Open() {
		switch {
		case call == current || call.State == record.StateWaiting:
		case current != nil && isAround(call, current):
			s.Around = append(s.Around, callOf(call))
		default:
			others = append(others, call)
		}
	}
	if current != nil {
		c := callOf(current)
		s.Current = &c
	}
	slices.SortFunc(s.Around, func(a, b CallState) int { return cmp.Compare(a.Address.Depth(), b.Address.Depth()) })
	slices.SortFunc(waiting, func(a, b *record.Call) int {
		return cmp.Or(compareDue(a.NextAttemptAt(), b.NextAttemptAt()), cmp.Compare(a.Last, b.Last))
	})
	slices.SortFunc(others, func(a, b *record.Call) int { return cmp.Compare(b.Last, a.Last) })
	s.Waiting, s.Others = callStates(waiting), callStates(others)
	return s
}

// compareDue compares two times at which something is due. The zero Time comes after
// all others.
func compareDue(a, b time.Time) int {
	switch {
	case a.IsZero() == b.IsZero():
		return a.Compare(b)
	case a.IsZero():
		return 1
	}
	return -1
}

// callStates returns the CallStates of the first calls, at most maxListed of them.
func callStates(calls []*record.Call) (states []CallState) {
	for _, call := range calls[:min(len(calls), maxListed)] {
		states = append(states, callOf(call))
	}
	return states
}

// isAround reports whether inner was made inside call, directly or indirectly.
func isAround(call, inner *record.Call) bool {
	rest, ok := strings.CutPrefix(inner.Address.Scope(), call.Address.String())
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '@') // '@' precedes the attempt that made the call
}

// isInner reports whether a is nested deeper than b, or equally deep with a later record.
func isInner(a, b *record.Call) bool {
	if d := cmp.Compare(a.Address.Depth(), b.Address.Depth()); d != 0 {
		return d > 0
	}
	return a.Last > b.Last
}

func callOf(call *record.Call) CallState {
	c := CallState{
		Address: call.Address, Name: call.Name, Kind: call.Kind, State: call.State, Status: call.Status, Seq: call.Last,
		Attempt: int(call.LastAttempt), MaxAttempts: int(call.MaxAttempts), Attempts: int(call.Highest), Since: call.At,
	}
	if at := call.NextAttemptAt(); !at.IsZero() && call.State == record.StateWaiting {
		c.NextAttemptAt, c.RetryDelay, c.DelaySource = &at, at.Sub(call.At).Seconds(), call.DelaySource.String()
	}
	if call.Cause != nil {
		c.Error = wire.CutText(fmt.Sprint(call.Cause), maxText)
	}
	if call.Cause != nil && call.Status != record.StatusAwaiting { // a suspended call has not failed
		c.ErrorClass = call.Class.String()
	}
	return c
}

func stateOfQuestion(q *record.Question) QuestionState {
	s := QuestionState{ID: q.ID, Awaits: q.Awaits, Text: q.Text, Redacted: q.Redacted, Address: q.Address, Seq: q.Seq, Asked: q.Asked, Due: q.Due, InDoubt: q.InDoubt}
	if json.Valid(q.Schema) { // a store can contain anything
		s.Schema = q.Schema
	}
	if q.Refused != nil {
		s.Refused = wire.CutText(fmt.Sprint(q.Refused), maxText)
	}
	return s
}

func errorOf(r *record.Record) *CallError {
	return &CallError{
		Address: r.Address, Name: r.Name, Class: r.Class.String(), Message: wire.CutText(fmt.Sprint(r.Err), maxText),
		Reason: r.Reason.String(), Attempt: r.Attempt, Retried: r.WillRetry, Time: r.Time,
	}
}
