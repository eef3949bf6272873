package vocabulary

import (
	"encoding/json"

	"github.com/reprise-go/reprise/record"
)

// A Vocabulary returns the events of a system for a record, in order, or none if the
// system has no event for the record. It must be safe for concurrent use.
type Vocabulary func(record.Record) []Event

// An Event is an event in the terms of another system.
type Event struct {
	Name   string         // such as "step_retry"
	Fields map[string]any // values that can be encoded as JSON
}

// MarshalJSON writes the fields as an object, with the name as "event_type".
func (e Event) MarshalJSON() ([]byte, error) {
	all := make(map[string]any, len(e.Fields)+1)
	for name, value := range e.Fields {
		all[name] = value
	}
	all["event_type"] = e.Name
	return json.Marshal(all)
}

// With returns a vocabulary in which extend edits the events of each record: it may add events,
// change them or leave them out.
func (v Vocabulary) With(extend func(r record.Record, events []Event) []Event) Vocabulary {
	return func(r record.Record) []Event { return extend(r, v(r)) }
}

// Subscriber returns a function for bus.Subscribe, which calls f with each event
// of each record, in their order.
func (v Vocabulary) Subscriber(f func(Event)) func(record.Record) {
	return func(r record.Record) {
		for _, e := range v(r) {
			f(e)
		}
	}
}

// isStep reports whether a record is about what other systems call a step or a
// work item: the call of a tool, an LLM or an agent, or a compensation, made now.
func isStep(r *record.Record) bool {
	switch r.Kind {
	case record.KindTool, record.KindLLM, record.KindAgent, record.KindCompensation:
		return !r.Replayed
	}
	return false
}

// isCached reports whether a cache answered the call.
func isCached(r *record.Record) bool { return r.Detail != nil && r.Detail.Cached }

// breakerEvent is the event for a record of a circuit breaker that changed its
// state. The vocabulary adds its fields for the run and the call.
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
