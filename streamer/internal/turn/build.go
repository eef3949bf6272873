package turn

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// Runs provides the records of runs. A [streamer.Handler] implements it.
type Runs interface {
	RedactText(text string) string
	RecordOutput(ctx context.Context, rec *record.Record) ([]byte, error)
	RecordJSON(ctx context.Context, rec *record.Record) ([]byte, error)
}

// A Builder converts a run's records and deltas into events, in order.
type Builder struct {
	runs  Runs
	runID string

	Prompt string // what the user said; empty until known

	ledger  record.Ledger
	agent   record.Address // the outermost call
	attempt int            // the agent's newest known attempt, from 0
	closed  bool           // the run has ended or stopped, and has not been opened again
	early   early          // texts that cannot be shown yet
	step    *step          // the current step; nil if there is none
	steps   int
	voided  int               // the value of steps when the turn was last void
	calls   []*call           // calls requested by the model, in order
	retries map[string]*Retry // pending
	asked   map[string]Question
	done    map[record.Address]bool    // steps that have ended
	hidden  map[record.Address]bool    // calls whose text has lost its beginning; the record of the end shows all of it
	values  map[string]json.RawMessage // values that the run exposes
	stopped bool                       // an event has reported that the run was interrupted
}

// NewBuilder returns a builder for a run.
func NewBuilder(runs Runs, runID string) *Builder {
	return &Builder{runs: runs, runID: runID, retries: make(map[string]*Retry), asked: make(map[string]Question), done: make(map[record.Address]bool), hidden: make(map[record.Address]bool), values: make(map[string]json.RawMessage)}
}

// Add returns the events that result from the next record or delta.
func (b *Builder) Add(ctx context.Context, e streamer.FollowEvent) ([]Event, error) {
	switch {
	case e.Delta != nil:
		return b.delta(e.Delta), nil
	case e.Record != nil:
		out, err := b.record(ctx, e.Record)
		return b.showEarly(out), err
	case e.Stop != nil:
		b.setClosed(true)
		return b.interrupted(&record.InterruptedError{Reason: record.InterruptReason(e.Stop.Reason), By: e.Stop.By, Message: e.Stop.Message}), nil
	}
	return nil, nil
}

func (b *Builder) record(ctx context.Context, r *record.Record) (out []Event, err error) {
	b.ledger.Add(r)
	switch {
	case r.Kind == record.KindRun:
		return b.runEvents(r), nil
	case r.Kind == record.KindQuestion:
		b.ask(r)
		return nil, nil
	case r.Kind == record.KindAnswer:
		return b.answered(ctx, r)
	case r.Kind == record.KindValue && r.Stage != record.StagePrecondition:
		return b.value(ctx, r)
	case !r.Kind.IsCall():
		return nil, nil
	}
	if b.agent.IsZero() && r.Kind == record.KindAgent && r.Address.Scope() == "" {
		b.agent = r.Address
		b.takePrompt(r)
	}
	out, err = b.call(ctx, b.retryOver(nil, r), r)
	return b.retryPlanned(out, r), err
}

func (b *Builder) call(ctx context.Context, out []Event, r *record.Record) ([]Event, error) {
	if r.Address == b.agent {
		b.attempt = max(b.attempt, r.Attempt)
	}
	switch {
	case r.Address == b.agent && r.Status == record.StatusFailed && r.WillRetry && r.Attempt == b.attempt:
		out = b.void(out)
	case b.isStep(r.Address) && r.Kind == record.KindLLM:
		return b.stepEvents(ctx, out, r)
	case r.Detail != nil && r.Detail.ToolCall != "" && b.isStep(r.Address):
		return b.callEvents(ctx, out, r)
	}
	return out, nil
}

func (b *Builder) takePrompt(r *record.Record) {
	if b.Prompt != "" || r.Detail == nil || len(r.Detail.Input) == 0 {
		return
	}
	var prompt actors.Prompt
	if record.Decode(r.Detail.Input, &prompt) == nil {
		b.Prompt = b.runs.RedactText(prompt.Text)
	}
}

// runEvents returns the events for a record of the run itself.
func (b *Builder) runEvents(r *record.Record) []Event {
	b.stopped = false
	if r.Status != record.StatusRecorded {
		b.setClosed(r.Status != record.StatusStarted)
	}
	switch r.Status {
	case record.StatusRecorded:
		b.takePrompt(r)
	case record.StatusStarted:
		return b.voidStep(nil) // the work that the previous process left unfinished is repeated
	case record.StatusAwaiting:
		if asked := b.open(); len(asked) > 0 {
			return []Event{{Kind: Paused, Asked: asked}}
		}
	case record.StatusCompleted:
		return []Event{{Kind: Completed}}
	case record.StatusFailed:
		return []Event{{Kind: Failed, Text: b.errorText(r)}}
	case record.StatusCancelled:
		return append(b.voidStep(nil), Event{Kind: Stopped, Text: b.reason(r.Interrupt()), Cancel: true})
	case record.StatusInterrupted:
		return b.interrupted(r.Interrupt())
	}
	return nil
}

// setClosed notes that the run was closed or opened. The text of the current step ends with that.
func (b *Builder) setClosed(closed bool) {
	if !b.closed {
		b.hide()
	}
	b.closed = closed
}

// interrupted returns the events for a run that was interrupted. There are none if the run is about
// to continue or if these events were already returned.
func (b *Builder) interrupted(e *record.InterruptedError) []Event {
	switch {
	case b.stopped || e == nil || e.Reason.ContinuesByItself():
		return nil
	case e.Reason == record.InterruptFork || e.Reason == record.InterruptRetry: // the run was not opened yet
		return nil
	}
	b.stopped = true
	end := Event{Kind: Failed, Text: b.shortened(e), Reason: string(e.Reason)}
	if e.Reason == record.InterruptUser {
		end = Event{Kind: Stopped, Text: b.reason(e)}
	}
	return append(b.voidStep(nil), end)
}

func (b *Builder) reason(e *record.InterruptedError) string {
	if e == nil || e.Message == "" {
		return "stopped"
	}
	return b.runs.RedactText(e.Message)
}

// errorText returns the text of a record's error, redacted and truncated.
func (b *Builder) errorText(r *record.Record) string {
	if r.Err == nil {
		return "it failed"
	}
	return b.shortened(r.Err)
}

func (b *Builder) shortened(err error) string {
	return record.Truncate(b.runs.RedactText(fmt.Sprint(err)), record.MessageLimit)
}

// retryOver appends an event if the record ends a call's wait for its next attempt.
func (b *Builder) retryOver(out []Event, r *record.Record) []Event {
	id := r.Address.String()
	if planned := b.retries[id]; planned != nil && (r.Status == record.StatusStarted || r.IsOutcome()) {
		delete(b.retries, id)
		over := *planned
		over.Over = true
		out = append(out, Event{Kind: RetryOver, Retry: &over})
	}
	return out
}

// retryPlanned appends an event if the record reports that a call will be tried again.
func (b *Builder) retryPlanned(out []Event, r *record.Record) []Event {
	if r.Status != record.StatusFailed || !r.WillRetry {
		return out
	}
	id := r.Address.String()
	planned := &Retry{
		ID: id, Name: r.Name, Kind: r.Kind.String(), Attempt: r.Attempt + 2, MaxAttempts: max(r.MaxAttempts, 0),
		Seconds: r.Delay.Seconds(), At: r.NextAttemptAt(), Error: b.errorText(r),
	}
	b.retries[id] = planned
	return append(out, Event{Kind: RetryPlanned, Retry: planned})
}

// shownMessage is the message in the record of a value that the run exposes; see state.PutShown.
const shownMessage = "shown"

// value returns an event with all values that the run exposes, if the record changes one of them.
func (b *Builder) value(ctx context.Context, r *record.Record) ([]Event, error) {
	_, was := b.values[r.Name]
	delete(b.values, r.Name)
	if r.Message() == shownMessage {
		data, err := b.runs.RecordJSON(ctx, r)
		if err != nil {
			return nil, err
		}
		b.values[r.Name] = valid(data)
	} else if !was {
		return nil, nil
	}
	all, err := json.Marshal(b.values)
	return []Event{{Kind: Values, Data: all}}, err
}
