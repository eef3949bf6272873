package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// Runs gives access to the records of runs. A [streamer.Handler] implements it.
type Runs interface {
	RedactText(text string) string
	RecordOutput(ctx context.Context, rec *record.Record) ([]byte, error)
	RecordJSON(ctx context.Context, rec *record.Record) ([]byte, error)
}

// A Builder turns the records and deltas of a run into events, in their order.
type Builder struct {
	runs  Runs
	runID string

	Prompt string // what the user said; empty until it is known

	ledger  record.Ledger
	agent   record.Address // the outermost call
	step    *step          // the current step; nil if there is none
	steps   int
	calls   []*call           // requested by the model, in order
	retries map[string]*Retry // pending
	asked   map[string]Question
	done    map[record.Address]bool    // steps that have ended
	values  map[string]json.RawMessage // shown by the run
}

// A step is a call of the model by the agent.
type step struct {
	address record.Address
	number  int
	attempt int
	shown   [2]strings.Builder // the text and the reasoning shown so far
	any     bool               // something was shown
	over    bool               // the attempt has failed
	cut     bool               // its beginning is unknown, so nothing is shown before its end
}

// A call is a tool call that the model requested.
type call struct {
	id      string // ID on the wire
	given   string // ID given by the model
	name    string
	address record.Address // set once the call has a record
	over    bool
}

// NewBuilder returns a builder for a run.
func NewBuilder(runs Runs, runID string) *Builder {
	return &Builder{runs: runs, runID: runID, retries: make(map[string]*Retry), asked: make(map[string]Question), done: make(map[record.Address]bool), values: make(map[string]json.RawMessage)}
}

// Add returns the events that the next record or delta leads to.
func (b *Builder) Add(ctx context.Context, e streamer.FollowEvent) ([]Event, error) {
	switch {
	case e.Delta != nil:
		return b.delta(e.Delta), nil
	case e.Record != nil:
		return b.record(ctx, e.Record)
	}
	return nil, nil
}

func (b *Builder) delta(d *streamer.Delta) (out []Event) {
	if d.Part == live.PartBegin && d.Attempt > 0 && d.Address == b.agent {
		return b.void(out)
	}
	if !b.isStep(d.Address) || b.done[d.Address] || b.step != nil && b.step.over && b.step.address == d.Address && d.Attempt <= b.step.attempt {
		return nil
	}
	switch {
	case d.Part == live.PartBegin:
		return b.begin(out, d.Address, d.Attempt)
	case d.Part != live.PartText && d.Part != live.PartReasoning:
		return nil
	case b.step == nil || b.step.address != d.Address || b.step.attempt < d.Attempt:
		out = b.begin(out, d.Address, d.Attempt)
	case b.step.attempt > d.Attempt: // the attempt was abandoned
		return nil
	}
	if b.step.cut = b.step.cut || d.Cut; b.step.cut {
		return out
	}
	return b.show(out, d.Part, d.Text)
}

// isStep reports whether the call at the address is a model call made by the agent.
func (b *Builder) isStep(a record.Address) bool {
	return !b.agent.IsZero() && a.IsInside(b.agent) && a.Depth() == b.agent.Depth()+1
}

// begin begins a step, or an attempt of one, unless it has begun already.
func (b *Builder) begin(out []Event, a record.Address, attempt int) []Event {
	switch s := b.step; {
	case s != nil && s.address == a && s.attempt == attempt && !s.any:
		return out
	case s != nil && s.address == a:
		out = b.voidStep(out)
		*s = step{address: a, number: s.number, attempt: attempt}
	default:
		b.steps++
		b.step = &step{address: a, number: b.steps, attempt: attempt}
	}
	return append(out, Event{Kind: StepBegins, Step: b.stepName()})
}

// stepName returns a name that is different for each attempt.
func (b *Builder) stepName() string {
	return b.runID + "/" + strconv.Itoa(b.step.number) + "." + strconv.Itoa(b.step.attempt+1)
}

func (b *Builder) show(out []Event, part live.Part, text string) []Event {
	kind, of := Text, 0
	if part == live.PartReasoning {
		kind, of = Reasoning, 1
	}
	if text == "" {
		return out
	}
	b.step.any = true
	b.step.shown[of].WriteString(text)
	return append(out, Event{Kind: kind, Step: b.stepName(), Text: text})
}

func (b *Builder) voidStep(out []Event) []Event {
	if b.step == nil || !b.step.any {
		return out
	}
	out = append(out, Event{Kind: StepVoid, Step: b.stepName()})
	b.step.any, b.step.shown = false, [2]strings.Builder{}
	return out
}

// void withdraws all that the current attempt of the agent has shown.
func (b *Builder) void(out []Event) []Event {
	if b.step == nil && len(b.calls) == 0 {
		return out
	}
	b.step, b.calls = nil, nil
	return append(out, Event{Kind: TurnVoid})
}

func (b *Builder) record(ctx context.Context, r *record.Record) (out []Event, err error) {
	b.ledger.Add(r)
	switch {
	case r.Kind == record.KindRun:
		return b.ofRun(r), nil
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
	switch {
	case r.Address == b.agent && r.Status == record.StatusFailed && r.WillRetry:
		out = b.void(out)
	case b.isStep(r.Address) && r.Kind == record.KindLLM:
		return b.ofStep(ctx, out, r)
	case r.Detail != nil && r.Detail.ToolCall != "" && b.isStep(r.Address):
		return b.ofCall(ctx, out, r)
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

func (b *Builder) ofRun(r *record.Record) []Event {
	switch r.Status {
	case record.StatusRecorded:
		b.takePrompt(r)
	case record.StatusStarted:
		return b.voidStep(nil) // unfinished work of the previous process is repeated
	case record.StatusAwaiting:
		if asked := b.open(); len(asked) > 0 {
			return []Event{{Kind: Paused, Asked: asked}}
		}
	case record.StatusCompleted:
		return []Event{{Kind: Completed}}
	case record.StatusFailed:
		return []Event{{Kind: Failed, Text: b.errorText(r)}}
	case record.StatusCancelled:
		return append(b.voidStep(nil), Event{Kind: Stopped, Text: b.reason(r), Cancel: true})
	case record.StatusInterrupted:
		if e := r.Interrupt(); e != nil && e.Reason == record.InterruptUser {
			return append(b.voidStep(nil), Event{Kind: Stopped, Text: b.reason(r)})
		}
	}
	return nil
}

func (b *Builder) reason(r *record.Record) string {
	e := r.Interrupt()
	if e == nil || e.Message == "" {
		return "stopped"
	}
	return b.runs.RedactText(e.Message)
}

// errorText returns the text of a call's error, without the calls around it.
func (b *Builder) errorText(r *record.Record) string {
	if r.Err == nil {
		return "it failed"
	}
	return record.Truncate(b.runs.RedactText(fmt.Sprint(r.Err)), record.MessageLimit)
}

// retryOver reports that the wait for another attempt is over.
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

// retryPlanned reports that a call will be tried again.
func (b *Builder) retryPlanned(out []Event, r *record.Record) []Event {
	if r.Status != record.StatusFailed || !r.WillRetry {
		return out
	}
	id := r.Address.String()
	planned := &Retry{
		ID: id, Name: r.Name, Kind: r.Kind.String(), Attempt: r.Attempt + 2, Most: max(r.MaxAttempts, 0),
		Seconds: r.Delay.Seconds(), At: r.NextAttemptAt(), Error: b.errorText(r),
	}
	b.retries[id] = planned
	return append(out, Event{Kind: RetryPlanned, Retry: planned})
}

func (b *Builder) ofStep(ctx context.Context, out []Event, r *record.Record) ([]Event, error) {
	switch {
	case r.Status == record.StatusStarted:
		delete(b.done, r.Address)
		return b.begin(out, r.Address, r.Attempt), nil
	case r.Status == record.StatusFailed:
		if b.step != nil && b.step.address == r.Address {
			out = b.voidStep(out)
			b.step.over = true
		}
		return out, nil
	case r.Status != record.StatusCompleted:
		return out, nil
	}
	if b.step == nil || b.step.address != r.Address {
		out = b.begin(out, r.Address, r.Attempt)
	}
	resp, err := b.response(ctx, r)
	if err != nil {
		return out, err
	}
	return b.finish(out, &resp.Message), nil
}

// response returns the output of a model call, redacted.
func (b *Builder) response(ctx context.Context, r *record.Record) (resp actors.Response, err error) {
	encoded, err := b.runs.RecordOutput(ctx, r)
	if err == nil {
		err = record.Decode(encoded, &resp)
	}
	if err != nil {
		return resp, fmt.Errorf("the answer of the model at %s: %w", r.Address, err)
	}
	m := &resp.Message
	m.Text, m.Reasoning = b.runs.RedactText(m.Text), b.runs.RedactText(m.Reasoning)
	for i := range m.ToolCalls {
		m.ToolCalls[i].Arguments = b.runs.RedactText(m.ToolCalls[i].Arguments)
	}
	return resp, nil
}

// finish shows the parts of a message that no delta has shown, and ends the step. If other text
// was shown, the step is void.
func (b *Builder) finish(out []Event, m *actors.Message) []Event {
	text, hasText := strings.CutPrefix(m.Text, b.step.shown[0].String())
	thoughts, hasThoughts := strings.CutPrefix(m.Reasoning, b.step.shown[1].String())
	if !hasThoughts && m.Commentary != "" { // commentary is shown as thoughts, though it is not part of them
		thoughts, hasThoughts = "", true
	}
	if !hasText || !hasThoughts {
		out = b.voidStep(out)
		out = append(out, Event{Kind: StepBegins, Step: b.stepName()})
		text, thoughts = m.Text, m.Reasoning
	}
	out = b.show(out, live.PartReasoning, thoughts)
	out = b.show(out, live.PartText, text)
	name := b.stepName()
	out = append(out, Event{Kind: StepEnds, Step: name})
	for i, c := range m.ToolCalls {
		asked := &call{id: b.unique(c.ID, i), given: c.ID, name: c.Name}
		b.calls = append(b.calls, asked)
		out = append(out, Event{Kind: ToolCalled, Step: name, Call: asked.id, Tool: c.Name, Data: object(c.Arguments)})
	}
	b.done[b.step.address] = true
	b.step = nil
	return out
}

// valid returns data that redaction has made invalid JSON as a string.
func valid(data []byte) json.RawMessage {
	if json.Valid(data) {
		return data
	}
	quoted, _ := json.Marshal(string(data)) // a string can always be encoded
	return quoted
}

// object returns arguments as JSON, or as a string if they are not JSON.
func object(arguments string) json.RawMessage {
	if strings.TrimSpace(arguments) == "" {
		return json.RawMessage("{}")
	}
	return valid([]byte(arguments))
}

// unique returns the ID of a tool call on the wire. This is the model's ID, unless another call
// of the run has it: some services give no IDs, and some count from 0 in each answer.
func (b *Builder) unique(id string, index int) string {
	if id == "" {
		id = "call-" + strconv.Itoa(b.step.number) + "-" + strconv.Itoa(index+1)
	}
	taken := func(id string) bool {
		for _, c := range b.calls {
			if c.id == id {
				return true
			}
		}
		return false
	}
	unique := id
	for n := 2; taken(unique); n++ {
		unique = id + "-" + strconv.Itoa(n)
	}
	return unique
}

// find returns the call that a record is about, or nil if no step requested it.
func (b *Builder) find(r *record.Record) *call {
	for _, c := range b.calls {
		if c.address == r.Address {
			return c
		}
	}
	for i := len(b.calls) - 1; i >= 0; i-- { // search the latest step first; of two calls with the same ID, take the first
		c := b.calls[i]
		if c.given != r.Detail.ToolCall || !c.address.IsZero() {
			continue
		}
		for j := i - 1; j >= 0 && b.calls[j].address.IsZero(); j-- {
			if b.calls[j].given == c.given {
				c = b.calls[j]
			}
		}
		c.address = r.Address
		return c
	}
	return nil
}

func (b *Builder) ofCall(ctx context.Context, out []Event, r *record.Record) ([]Event, error) {
	c := b.find(r)
	if c == nil || !r.IsOutcome() || c.over {
		return out, nil
	}
	c.over = true
	e := Event{Call: c.id, Tool: c.name}
	switch {
	case r.Status == record.StatusCompleted:
		data, err := b.runs.RecordJSON(ctx, r)
		if err != nil {
			return out, fmt.Errorf("the output of %s: %w", r.Address, err)
		}
		e.Kind, e.Data = ToolResult, valid(data)
	case errors.Is(r.Err, actors.ErrNotApproved):
		e.Kind, e.Text = ToolDenied, b.errorText(r)
	default:
		e.Kind, e.Text = ToolFailed, b.errorText(r)
	}
	return append(out, e), nil
}

// WireID returns the ID of a question on the wire. An ID stays valid in later turns.
func WireID(runID, question string) string { return runID + ":" + question }

// QuestionID returns the run's ID for a question on the wire. It is not ok if the question
// belongs to another run.
func QuestionID(runID, wire string) (id string, ok bool) {
	id, ok = strings.CutPrefix(wire, runID+":")
	return id, ok && id != ""
}

func (b *Builder) ask(r *record.Record) {
	if !r.Asks().NeedsSomebody() {
		return
	}
	q := Question{ID: WireID(b.runID, r.Name), Text: b.runs.RedactText(r.Message()), Approval: isApproval(r)}
	if r.Delay > 0 {
		q.Due = r.Time.Add(r.Delay)
	}
	if r.Detail != nil && json.Valid(r.Detail.Schema) {
		q.Schema = r.Detail.Schema
	}
	if r.Err != nil {
		q.Refused = b.errorText(r)
	}
	for _, c := range b.calls {
		if !c.address.IsZero() && (c.address == r.Address || r.Address.IsInside(c.address)) {
			q.Call = c.id
			q.Approval = q.Approval && c.address == r.Address
		}
	}
	q.Approval = q.Approval && q.Call != ""
	b.asked[r.Name] = q
}

// isApproval reports whether the question asks for approval of a tool call. Such a question is
// asked by the call around the tool call, see actors.WithApproval.
func isApproval(r *record.Record) bool {
	path := r.Address.String()
	return strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], "approve_") && r.Asks() == record.AsksAnswer
}

// open returns the questions that wait for a person.
func (b *Builder) open() (asked []Question) {
	for _, q := range b.ledger.Questions(false) {
		if known, ok := b.asked[q.ID]; ok {
			asked = append(asked, known)
		}
	}
	return asked
}

func (b *Builder) answered(ctx context.Context, r *record.Record) ([]Event, error) {
	q, ok := b.asked[r.Name]
	if !ok {
		return nil, nil
	}
	delete(b.asked, r.Name)
	data, err := b.runs.RecordJSON(ctx, r)
	if err != nil {
		return nil, err
	}
	return []Event{{Kind: Answered, Call: q.Call, Data: valid(data), Asked: []Question{q}}}, nil
}

// shownMessage marks the record of a value that is shown, see state.Shown.
const shownMessage = "shown"

// value returns all shown values if the record's value is shown, or was.
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
