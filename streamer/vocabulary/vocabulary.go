package vocabulary

import (
	"encoding/json"

	"github.com/reprise-go/reprise/record"
)

// A Vocabulary returns the events of another system for a record, in order. If the system has no
// event for the record, it returns none. It must be safe for concurrent use.
type Vocabulary func(record.Record) []Event

// An Event is an event with the name and the encoding that another system uses.
type Event struct {
	Name   string         // such as "step_retry"
	Fields map[string]any // values must be encodable as JSON
}

// MarshalJSON encodes the fields as an object, in which "event_type" is the name.
func (e Event) MarshalJSON() ([]byte, error) {
	all := make(map[string]any, len(e.Fields)+1)
	for name, value := range e.Fields {
		all[name] = value
	}
	all["event_type"] = e.Name
	return json.Marshal(all)
}

// With returns a vocabulary in which extend edits the events of each record. extend may add events,
// change them, or leave them out.
func (v Vocabulary) With(extend func(r record.Record, events []Event) []Event) Vocabulary {
	return func(r record.Record) []Event { return extend(r, v(r)) }
}

// Subscriber returns a function to pass to Subscribe of a bus. The function calls f with each of a
// record's events, in order.
func (v Vocabulary) Subscriber(f func(Event)) func(record.Record) {
	return func(r record.Record) {
		for _, e := range v(r) {
			f(e)
		}
	}
}

// isStep reports whether a record belongs to what other systems call a step or a work item: a call
// of a tool, an LLM or an agent, or a compensation. It returns false for a replayed record.
func isStep(r *record.Record) bool {
	switch r.Kind {
	case record.KindTool, record.KindLLM, record.KindAgent, record.KindCompensation:
		return !r.Replayed
	}
	return false
}

// isCached reports whether a cache answered the call.
func isCached(r *record.Record) bool { return r.Detail != nil && r.Detail.Cached }

// breakerEvent returns the event for a record that reports a change in the state of a circuit
// breaker. The caller adds the vocabulary's own fields for the run and the call.
func breakerEvent(r *record.Record) (Event, bool) {
	if r.Kind != record.KindLog || r.Replayed || r.Detail == nil {
		return Event{}, false
	}
	breaker, ok := r.Detail.Metadata["breaker"]
	if !ok {
		return Event{}, false
	}
	var name string
	switch r.Detail.Metadata["state"] {
	case "open":
		name = "breaker_opened"
	case "half_open":
		name = "breaker_half_opened"
	case "closed":
		name = "breaker_closed"
	default:
		return Event{}, false
	}
	return Event{name, map[string]any{"breaker": breaker, "message": r.Message()}}, true
}

func errorText(r *record.Record) any {
	if r.Err == nil {
		return nil
	}
	return r.Err.Error()
}
