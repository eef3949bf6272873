package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/record"
)

// A call is a tool call that the model requested.
type call struct {
	id      string // ID on the wire
	modelID string // ID from the model
	name    string
	address record.Address // set once the call has a record
	over    bool
}

// valid returns data, or a JSON string that contains data if redaction has made it invalid JSON.
func valid(data []byte) json.RawMessage {
	if json.Valid(data) {
		return data
	}
	quoted, _ := json.Marshal(string(data)) // a string can always be encoded
	return quoted
}

// argumentsJSON returns arguments as JSON: {} if they are empty, and a JSON string if they are not
// valid JSON.
func argumentsJSON(arguments string) json.RawMessage {
	if strings.TrimSpace(arguments) == "" {
		return json.RawMessage("{}")
	}
	return valid([]byte(arguments))
}

// unique returns a tool call's ID on the wire. This is the model's ID, unless that ID is empty or
// is also used by another call in the run, because some services count from 0 in each answer.
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
	for i := len(b.calls) - 1; i >= 0; i-- { // search the latest step first; if two of its calls have the same ID, take the first
		c := b.calls[i]
		if c.modelID != r.Detail.ToolCall || !c.address.IsZero() {
			continue
		}
		for j := i - 1; j >= 0 && b.calls[j].address.IsZero(); j-- {
			if b.calls[j].modelID == c.modelID {
				c = b.calls[j]
			}
		}
		c.address = r.Address
		return c
	}
	return nil
}

func (b *Builder) callEvents(ctx context.Context, out []Event, r *record.Record) ([]Event, error) {
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
			return out, fmt.Errorf("reading the output of %s: %w", r.Address, err)
		}
		e.Kind, e.Data = ToolResult, valid(data)
	case errors.Is(r.Err, actors.ErrNotApproved):
		e.Kind, e.Text = ToolDenied, b.errorText(r)
	default:
		e.Kind, e.Text = ToolFailed, b.errorText(r)
	}
	return append(out, e), nil
}
