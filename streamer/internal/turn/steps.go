package turn

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// A step is a call that the agent makes to the model, as the protocols for web pages use the term.
// It is unrelated to core.Step.
type step struct {
	address  record.Address
	number   int
	attempt  int
	shown    [2]strings.Builder // the text and the reasoning shown so far
	hasShown bool               // something was shown
	over     bool               // the attempt has failed
	cut      bool               // the beginning of the text is not known, so nothing is shown until the step ends
}

func (b *Builder) delta(d *streamer.Delta) (out []Event) {
	if d.Part == live.PartBegin {
		delete(b.hidden, d.Address)
	}
	switch {
	case b.agent.IsZero() || b.closed:
		b.keep(d)
		return nil
	case d.Address == b.agent && d.Part == live.PartBegin && d.Attempt > b.attempt: // arrives before its record
		b.attempt = d.Attempt
		return b.void(out)
	}
	if !b.isStep(d.Address) || b.done[d.Address] || b.hidden[d.Address] || b.step != nil && b.step.over && b.step.address == d.Address && d.Attempt <= b.step.attempt {
		return nil
	}
	switch {
	case d.Part == live.PartBegin && (b.step == nil || b.step.address != d.Address):
		return nil // it may be the call of a tool; a step begins with its record or its first text
	case d.Part == live.PartBegin:
		return b.begin(out, d.Address, d.Attempt)
	case d.Part != live.PartText && d.Part != live.PartReasoning:
		return nil
	case b.step == nil || b.step.address != d.Address || b.step.attempt < d.Attempt:
		out = b.begin(out, d.Address, d.Attempt)
	case b.step.attempt > d.Attempt: // from an abandoned attempt
		return nil
	}
	if b.step.cut = b.step.cut || d.Cut; b.step.cut {
		return out
	}
	return b.show(out, d.Part, d.Text)
}

// isStep reports whether the call at the given address is a model call made by the agent.
func (b *Builder) isStep(a record.Address) bool {
	return !b.agent.IsZero() && a.IsInside(b.agent) && a.Depth() == b.agent.Depth()+1
}

// begin begins a step, or another attempt of the current step, unless that attempt has already
// begun.
func (b *Builder) begin(out []Event, a record.Address, attempt int) []Event {
	switch s := b.step; {
	case s != nil && s.address == a && s.attempt == attempt && !s.hasShown:
		return out
	case s != nil && s.address == a:
		out = b.voidStep(out)
		*s = step{address: a, number: s.number, attempt: attempt}
	default:
		if s != nil { // deltas can arrive before the record that ends the step before
			b.hidden[s.address] = true
			out = b.voidStep(out)
		}
		b.steps++
		b.step = &step{address: a, number: b.steps, attempt: attempt}
	}
	return append(out, Event{Kind: StepBegins, Step: b.stepName()})
}

// stepName returns the current step's name, which is different for each attempt.
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
	b.step.hasShown = true
	b.step.shown[of].WriteString(text)
	return append(out, Event{Kind: kind, Step: b.stepName(), Text: text})
}

func (b *Builder) voidStep(out []Event) []Event {
	if b.step == nil || !b.step.hasShown {
		return out
	}
	out = append(out, Event{Kind: StepVoid, Step: b.stepName()})
	b.step.hasShown, b.step.shown = false, [2]strings.Builder{}
	return out
}

// hide hides what deltas will add to the current step's text, because its beginning is void.
func (b *Builder) hide() {
	if b.step != nil && b.step.hasShown {
		b.hidden[b.step.address] = true
	}
}

// void withdraws everything shown by the agent's current attempt.
func (b *Builder) void(out []Event) []Event {
	if b.steps == b.voided {
		return out
	}
	b.hide()
	b.step, b.calls, b.voided = nil, nil, b.steps
	return append(out, Event{Kind: TurnVoid})
}

func (b *Builder) stepEvents(ctx context.Context, out []Event, r *record.Record) ([]Event, error) {
	switch {
	case r.Status == record.StatusStarted:
		delete(b.done, r.Address)
		if b.step != nil && b.step.address == r.Address && b.step.attempt == r.Attempt {
			return out, nil // the step may have text, as deltas can arrive before the record
		}
		return b.begin(out, r.Address, r.Attempt), nil
	case r.Status == record.StatusFailed:
		if b.step != nil && b.step.address == r.Address && b.step.attempt <= r.Attempt {
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

// response returns a model call's output after redaction.
func (b *Builder) response(ctx context.Context, r *record.Record) (resp actors.Response, err error) {
	encoded, err := b.runs.RecordOutput(ctx, r)
	if err == nil {
		err = record.Decode(encoded, &resp)
	}
	if err != nil {
		return resp, fmt.Errorf("reading the model's answer at %s: %w", r.Address, err)
	}
	m := &resp.Message
	m.Text, m.Reasoning = b.runs.RedactText(m.Text), b.runs.RedactText(m.Reasoning)
	for i := range m.ToolCalls {
		m.ToolCalls[i].Arguments = b.runs.RedactText(m.ToolCalls[i].Arguments)
	}
	return resp, nil
}

// finish shows those parts of a message that no delta has shown, and ends the step. If the deltas
// showed different text, finish withdraws it and shows the message from the beginning.
func (b *Builder) finish(out []Event, m *actors.Message) []Event {
	text, hasText := strings.CutPrefix(m.Text, b.step.shown[0].String())
	thoughts, hasThoughts := strings.CutPrefix(m.Reasoning, b.step.shown[1].String())
	if !hasThoughts && m.Commentary != "" { // commentary is shown as thoughts, although it is not part of them
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
		asked := &call{id: b.unique(c.ID, i), modelID: c.ID, name: c.Name}
		b.calls = append(b.calls, asked)
		out = append(out, Event{Kind: ToolCalled, Step: name, Call: asked.id, Tool: c.Name, Data: argumentsJSON(c.Arguments)})
	}
	b.done[b.step.address] = true
	b.step = nil
	return out
}
