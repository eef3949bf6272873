package streamer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer/internal/wire"
)

// The statuses of a run in a [RunState] and a [RunInfo].
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
	Current   *CallState      `json:"current,omitempty"`    // the innermost call that runs, the latest of them
	Around    []CallState     `json:"around,omitempty"`     // the calls around Current, the outermost first
	Waiting   []CallState     `json:"waiting,omitempty"`    // calls that wait for another attempt, the next first; at most 50
	LastError *CallError      `json:"last_error,omitempty"` // of the newest attempt that failed
	Questions []QuestionState `json:"questions,omitempty"`  // without a recorded answer, in the order of asking
	Partial   bool            `json:"partial,omitempty"`    // not all of its records were read: calls and errors of the others are not known
}

// Calls counts calls and attempts. Groups and branches are not counted, only the calls
// in them.
type Calls struct {
	Started   int `json:"started"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`   // for good
	Active    int `json:"active"`   // started and not ended: running, waiting, or in a question
	Waiting   int `json:"waiting"`  // for another attempt
	Attempts  int `json:"attempts"` // of all calls
	Retries   int `json:"retries"`  // attempts after the first
	Restored  int `json:"restored"` // recalled from the records of an earlier opening of the run
}

// CallState is a call that has begun and not ended.
type CallState struct {
	Address       record.Address `json:"address"`
	Name          string         `json:"name"`
	Kind          record.Kind    `json:"event_type"`
	Status        record.Status  `json:"execution_status"` // started, failed, retrying or awaiting
	Attempt       int            `json:"retry_attempt"`    // from 0
	MaxAttempts   int            `json:"max_attempts"`     // below 0 for no limit
	Since         time.Time      `json:"since"`            // of this status
	RetryDelay    float64        `json:"retry_delay,omitempty"`
	DelaySource   string         `json:"delay_source,omitempty"`
	NextAttemptAt *time.Time     `json:"next_attempt_at,omitempty"`
	Error         string         `json:"original_error,omitempty"` // of the previous attempt
	ErrorClass    string         `json:"error_class,omitempty"`
}

// CallError is why an attempt of a call failed.
type CallError struct {
	Address record.Address `json:"address"`
	Name    string         `json:"name"`
	Class   string         `json:"error_class"`
	Message string         `json:"original_error"`
	Reason  string         `json:"reason,omitempty"` // why there will be no other attempt
	Attempt int            `json:"retry_attempt"`
	Retried bool           `json:"will_retry"`
	Time    time.Time      `json:"time"`
}

// QuestionState is an open question of a run.
type QuestionState struct {
	ID      string         `json:"id"`
	Asks    record.Asks    `json:"asks,omitempty"` // answer or doubt
	Text    string         `json:"message"`
	Address record.Address `json:"address"`
	Asked   time.Time      `json:"asked_at"`
	Refused string         `json:"refused,omitempty"` // why the answer before did not fit

	// Answered is set if there is an answer, which waits until the run is opened.
	Answered bool `json:"answered,omitempty"`

	// Schema is the JSON schema of the answer; for a question about a call in doubt,
	// the schema of the call's output.
	Schema  json.RawMessage     `json:"schema,omitempty"`
	InDoubt *record.CallInDoubt `json:"in_doubt,omitempty"`
}

// maxText is how long the text of an error in a RunState may be.
const maxText = 4 << 10

// maxWaiting is how many waiting calls a RunState lists.
const maxWaiting = 50

// view follows a run from record to record.
type view struct {
	RunInfo
	calls     Calls
	usage     record.Usage
	active    map[record.Address]*record.Record // the newest record of each call that has not ended
	stopped   map[record.Address]bool           // calls that stopped with the run, or were interrupted, and go on when it does
	lastError *record.Record
	questions []QuestionState
	firstSeq  uint64 // of the oldest record it knows
	first     uint64 // the generation of that
	last      cursor // of the newest record it knows
	holes     bool   // records between them were not published
}

func newView(runID string) view {
	return view{
		RunInfo: RunInfo{RunID: runID, Status: statusRunning},
		active:  make(map[record.Address]*record.Record),
		stopped: make(map[record.Address]bool),
	}
}

// whole reports whether no record is missing before the newest.
func (v *view) whole() bool { return v.firstSeq == 1 && !v.holes }

// take adds the next record of the run, and keeps a pointer to it.
func (v *view) take(r *record.Record) {
	if r.Status == record.StatusRecovered && !r.Kind.IsParallel() {
		v.calls.Restored++
	}
	if r.Replayed || r.Seq == 0 {
		return
	}
	if v.firstSeq == 0 {
		v.firstSeq, v.first, v.Created = r.Seq, r.Generation, r.Time
	}
	v.holes = v.holes || v.LastSeq > 0 && r.Seq != v.LastSeq+1
	v.last = cursorOf(r)
	v.LastSeq, v.Updated = r.Seq, r.Time
	switch {
	case r.Kind == record.KindRun:
		v.run(r)
	case r.Kind.IsCall():
		v.call(r)
	case r.Kind == record.KindQuestion:
		v.ask(r)
	case r.Kind == record.KindAnswer:
		v.questions = slices.DeleteFunc(v.questions, func(q QuestionState) bool { return q.ID == r.Name })
	}
}

// ask adds a question. A question that is asked again has the reason.
func (v *view) ask(r *record.Record) {
	if !r.Asks().NeedsSomebody() {
		return // nobody is to answer it
	}
	q := QuestionState{ID: r.Name, Asks: r.Asks(), Text: r.Message(), Address: r.Address, Asked: r.Time}
	if d := r.Detail; d != nil {
		q.InDoubt = d.InDoubt
		if json.Valid(d.Schema) { // a store may have anything
			q.Schema = d.Schema
		}
	}
	if r.Err != nil {
		q.Refused = wire.CutText(fmt.Sprint(r.Err), maxText)
	}
	v.questions = slices.DeleteFunc(v.questions, func(open QuestionState) bool { return open.ID == q.ID })
	v.questions = append(v.questions, q)
}

// run adds the beginning or the end of the run. In both cases no call is active
// afterwards: calls start again when the run continues.
func (v *view) run(r *record.Record) {
	for a := range v.active {
		v.stopped[a] = true
	}
	clear(v.active)
	v.calls.Active, v.calls.Waiting = 0, 0
	v.Stop = stopOf(r)
	switch r.Status {
	case record.StatusStarted:
		v.Status, v.Pipeline = statusRunning, cmp.Or(r.Name, v.Pipeline)
		v.Description = cmp.Or(r.Message(), v.Description)
	case record.StatusCompleted:
		v.Status = statusCompleted
	case record.StatusFailed:
		v.Status = statusFailed
	case record.StatusAwaiting:
		v.Status = statusPaused
	case record.StatusInterrupted:
		v.Status = statusInterrupted
	case record.StatusCancelled:
		v.Status, v.questions = statusCancelled, nil // nobody waits for an answer any more
	}
}

// stopOf returns why r stops its run, nil if r has no reason.
func stopOf(r *record.Record) *Stop {
	e := r.Interrupt()
	if e == nil || r.Status == record.StatusAwaiting {
		return nil
	}
	stop := &Stop{Reason: string(e.Reason), By: e.By, Message: e.Message}
	if d := (*core.DivergenceError)(nil); errors.As(e.Cause, &d) {
		stop.Message = d.Difference()
	}
	return stop
}

func (v *view) call(r *record.Record) {
	if r.Detail != nil {
		u := r.Detail.Usage
		if math.IsNaN(u.Cost) || math.IsInf(u.Cost, 0) {
			u.Cost = 0 // JSON has no word for it, and nothing can be added to it
		}
		v.usage = v.usage.Plus(u)
	}
	before := v.active[r.Address]
	if !r.Kind.IsParallel() {
		v.calls.count(r, before, v.stopped[r.Address])
	}
	switch r.Status {
	case record.StatusStarted:
		delete(v.stopped, r.Address)
	case record.StatusFailed:
		v.lastError = r
	case record.StatusInterrupted:
		v.stopped[r.Address] = true
	}
	if r.IsOutcome() { // its questions were answered, even if no record says so
		v.questions = slices.DeleteFunc(v.questions, func(q QuestionState) bool { return q.Address == r.Address })
	}
	if endsCall(r) {
		delete(v.active, r.Address)
	} else {
		v.active[r.Address] = r
	}
}

// endsCall reports whether the call of r is not active after it.
func endsCall(r *record.Record) bool { return r.IsOutcome() || r.Status == record.StatusInterrupted }

// count adds the next record of a call. Before is the previous record while the call is
// active. A call that stopped with the run continues.
func (c *Calls) count(r, before *record.Record, stopped bool) {
	if before != nil && before.Status == record.StatusRetrying {
		c.Waiting--
	}
	if before != nil {
		c.Active--
	}
	if !endsCall(r) {
		c.Active++
	}
	switch r.Status {
	case record.StatusStarted:
		c.Attempts++
		if r.IsRetry() {
			c.Retries++
		} else if before == nil && !stopped {
			c.Started++
		}
	case record.StatusRetrying:
		c.Waiting++
	case record.StatusCompleted:
		c.Completed++
	case record.StatusFailed:
		if !r.WillRetry {
			c.Failed++
		}
	}
}

// clone returns a copy that can be changed independently.
func (v *view) clone() view {
	s := *v
	s.active, s.stopped, s.questions = maps.Clone(v.active), maps.Clone(v.stopped), slices.Clone(v.questions)
	return s
}

// snapshot returns a copy that does not change, for state.
func (v *view) snapshot() view {
	s := v.clone()
	s.stopped = nil
	return s
}

// state returns the view in the form in which it is sent.
func (v *view) state() RunState {
	s := RunState{
		RunInfo: v.RunInfo, Calls: v.calls, Usage: v.usage,
		Questions: v.questions, Partial: v.firstSeq > 0 && !v.whole(),
	}
	if v.lastError != nil {
		s.LastError = errorOf(v.lastError)
	}
	var current *record.Record
	var waiting []*record.Record
	for _, r := range v.active {
		switch {
		case r.Status == record.StatusRetrying:
			waiting = append(waiting, r)
		case current == nil || isInner(r, current):
			current = r
		}
	}
	if current != nil {
		c := callOf(current)
		s.Current, s.Around = &c, v.around(current.Address)
	}
	slices.SortFunc(waiting, func(a, b *record.Record) int {
		return cmp.Or(a.NextAttemptAt().Compare(b.NextAttemptAt()), cmp.Compare(a.Seq, b.Seq))
	})
	for _, r := range waiting[:min(len(waiting), maxWaiting)] {
		s.Waiting = append(s.Waiting, callOf(r))
	}
	return s
}

// around returns the active calls around a call, the outermost first.
func (v *view) around(inner record.Address) (calls []CallState) {
	for address, r := range v.active {
		rest, ok := strings.CutPrefix(inner.Scope(), address.String())
		if ok && (rest == "" || rest[0] == '/' || rest[0] == '@') { // with the attempt that made it
			calls = append(calls, callOf(r))
		}
	}
	slices.SortFunc(calls, func(a, b CallState) int { return cmp.Compare(a.Address.Depth(), b.Address.Depth()) })
	return calls
}

// isInner reports whether a is deeper than b, or the later of two as deep.
func isInner(a, b *record.Record) bool {
	if d := cmp.Compare(a.Address.Depth(), b.Address.Depth()); d != 0 {
		return d > 0
	}
	return a.Seq > b.Seq
}

func callOf(r *record.Record) CallState {
	c := CallState{
		Address: r.Address, Name: r.Name, Kind: r.Kind, Status: r.Status,
		Attempt: r.Attempt, MaxAttempts: r.MaxAttempts, Since: r.Time,
	}
	if at := r.NextAttemptAt(); !at.IsZero() {
		c.NextAttemptAt, c.RetryDelay, c.DelaySource = &at, r.Delay.Seconds(), r.DelaySource.String()
	}
	if r.Err != nil {
		c.Error, c.ErrorClass = wire.CutText(fmt.Sprint(r.Err), maxText), r.Class.String()
	}
	return c
}

func errorOf(r *record.Record) *CallError {
	return &CallError{
		Address: r.Address, Name: r.Name, Class: r.Class.String(), Message: wire.CutText(fmt.Sprint(r.Err), maxText),
		Reason: r.Reason.String(), Attempt: r.Attempt, Retried: r.WillRetry, Time: r.Time,
	}
}
