package openai

import (
	"encoding/json"

	"github.com/reprise-go/reprise/actors"
)

// chatOpaque is the opaque data of a message in the chat completions API.
type chatOpaque struct {
	Message map[string]json.RawMessage `json:"message,omitempty"`
	Calls   map[string]json.RawMessage `json:"calls,omitempty"` // extra_content by call ID
}

func (o *chatOpaque) keepField(field string, value json.RawMessage) {
	if o.Message == nil {
		o.Message = make(map[string]json.RawMessage)
	}
	o.Message[field] = value
}

func (a *answer) keepField(field string, value json.RawMessage) {
	o := chatOpaque{Message: a.message}
	o.keepField(field, value)
	a.message = o.Message
}

// markReasoning marks a field in which the complete reasoning must be sent back. finishMessage sets
// its value.
func (a *answer) markReasoning(field string, there bool) {
	if there && a.reasoning.Len() > 0 {
		a.keepField(field, nil)
	}
}

// finishMessage sets the values of marked fields.
func (a *answer) finishMessage() {
	for _, field := range [...]string{"reasoning_content", "reasoning"} {
		if value, marked := a.message[field]; marked && value == nil {
			a.message[field] = mustMarshal(a.reasoning.String())
		}
	}
}

func (a *answer) addDetails(details json.RawMessage, whole bool) {
	if !isSet(details) {
		return
	}
	var pieces []json.RawMessage
	if whole || json.Unmarshal(details, &pieces) != nil {
		a.keepField("reasoning_details", details)
		return
	}
	a.details = append(a.details, pieces...)
}

// joinDetails joins the pieces of reasoning details from a stream. Text that arrived in several
// pieces is sent back as one piece.
func joinDetails(pieces []json.RawMessage) json.RawMessage {
	var joined []map[string]any
	for _, piece := range pieces {
		var detail map[string]any
		if json.Unmarshal(piece, &detail) != nil {
			return mustMarshal(pieces)
		}
		if n := len(joined); n > 0 && detail["index"] != nil && detail["index"] == joined[n-1]["index"] && detail["type"] == joined[n-1]["type"] {
			extend(joined[n-1], detail)
			continue
		}
		joined = append(joined, detail)
	}
	return mustMarshal(joined)
}

func extend(detail, piece map[string]any) {
	for key, value := range piece {
		before, isText := detail[key].(string)
		more, moreText := value.(string)
		switch {
		case isText && moreText && (key == "text" || key == "summary" || key == "data"):
			detail[key] = before + more
		case value != nil:
			detail[key] = value
		}
	}
}

func (a *answer) opaque(wire string, calls []actors.ToolCall) *actors.Opaque {
	if a.needsItems {
		return &actors.Opaque{Wire: wire, Data: mustMarshal(a.items)}
	}
	a.finishMessage()
	o := chatOpaque{Message: a.message}
	if len(a.details) > 0 {
		o.keepField("reasoning_details", joinDetails(a.details))
	}
	for i, call := range a.calls {
		if len(call.extra) == 0 {
			continue
		}
		if o.Calls == nil {
			o.Calls = make(map[string]json.RawMessage)
		}
		o.Calls[calls[i].ID] = call.extra
	}
	if len(o.Message) == 0 && len(o.Calls) == 0 {
		return nil
	}
	return &actors.Opaque{Wire: wire, Data: mustMarshal(o)}
}
