package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/reprise-go/reprise/actors"
)

// chatWire implements the chat completions API.
type chatWire struct {
	origin     string // identifies the source of opaque data
	tokenField string // max_tokens or max_completion_tokens
	host       string
	plain      bool // omit fields that go-openai does not support
}

type chatBody struct {
	Model             string          `json:"model"`
	Messages          []any           `json:"messages"`
	Tools             []chatTool      `json:"tools,omitempty"`
	ToolChoice        any             `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls,omitempty"`
	Temperature       *float64        `json:"temperature,omitempty"`
	TopP              *float64        `json:"top_p,omitempty"`
	Seed              *int64          `json:"seed,omitempty"`
	Stop              []string        `json:"stop,omitempty"`
	ReasoningEffort   string          `json:"reasoning_effort,omitempty"`
	ResponseFormat    json.RawMessage `json:"response_format,omitempty"`
	Stream            bool            `json:"stream,omitempty"`
	StreamOptions     json.RawMessage `json:"stream_options,omitempty"`
	MaxTokens         int             `json:"max_tokens,omitempty"`
	MaxCompletion     int             `json:"max_completion_tokens,omitempty"`
}

type chatMessage struct {
	Role       string         `json:"role"`
	Content    any            `json:"content,omitempty"` // string or list of parts
	ToolCalls  []chatToolCall `json:"tool_calls,omitempty"`
	ToolCallID string         `json:"tool_call_id,omitempty"`

	text string // Content may point to it
}

type chatToolCall struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Function     chatCallee      `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

type chatCallee struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function functionTool `json:"function"`
}

func (w chatWire) source() string { return w.origin }
func (w chatWire) path() string   { return chatPath }

func (w chatWire) body(model string, req actors.Request, stream bool) ([]byte, error) {
	o := req.Options
	out := chatBody{
		Model: model, Temperature: o.Temperature, TopP: o.TopP, Seed: o.Seed, Stop: o.Stop,
		ReasoningEffort: o.Effort, Stream: stream,
	}
	if stream {
		out.StreamOptions = json.RawMessage(`{"include_usage":true}`)
	}
	if w.tokenField == "max_tokens" {
		out.MaxTokens = o.MaxTokens
	} else {
		out.MaxCompletion = o.MaxTokens
	}
	messages, err := w.messages(req.Messages)
	if err != nil {
		return nil, err
	}
	out.Messages = messages
	for _, spec := range req.Tools {
		out.Tools = append(out.Tools, chatTool{"function", functionToolOf(spec)})
	}
	if hasTools(&req) {
		out.ToolChoice = toolChoice(o.ToolChoice, func(name string) any {
			return map[string]any{"type": "function", "function": map[string]string{"name": name}}
		})
		if o.SequentialTools {
			out.ParallelToolCalls = new(bool)
		}
	}
	if f := o.Format; f != nil {
		out.ResponseFormat = mustMarshal(map[string]any{"type": "json_schema", "json_schema": map[string]any{
			"name": f.Name, "schema": f.Schema, "strict": f.Strict,
		}})
	}
	return withExtra(out, o.ExtraBody)
}

// messages converts a conversation. The API accepts pictures only in user messages, so pictures
// returned by tools are put in a user message after the results.
func (w chatWire) messages(all []actors.Message) ([]any, error) {
	out := make([]any, 0, len(all))
	messages := make([]chatMessage, len(all))
	var pictures []any
	for i, msg := range all {
		if msg.Role != actors.RoleTool && pictures != nil {
			out, pictures = append(out, chatMessage{Role: "user", Content: pictures}), nil
		}
		sent, made := msg.Parts, []actors.Part(nil)
		if msg.Role == actors.RoleAssistant {
			sent, made = assistantParts(msg.Parts)
		}
		parts, err := convertParts(sent, w.host, chatPart)
		if err != nil {
			return nil, fmt.Errorf("openai: message %d: %w", i+1, err)
		}
		if msg.Role == actors.RoleTool && len(parts) > 0 {
			pictures = append(pictures, textPart("From the result of "+msg.ToolCallID+":"))
			pictures = append(pictures, parts...)
			parts = nil
		}
		message, err := w.message(&messages[i], msg, parts)
		if err != nil {
			return nil, fmt.Errorf("openai: message %d: %w", i+1, err)
		}
		out = append(out, message)
		if len(made) > 0 {
			parts, err := convertParts(made, w.host, chatPart)
			if err != nil {
				return nil, fmt.Errorf("openai: message %d: %w", i+1, err)
			}
			pictures = append(append(pictures, textPart("From your answer:")), parts...)
		}
	}
	if pictures != nil {
		out = append(out, chatMessage{Role: "user", Content: pictures})
	}
	return out, nil
}

// message converts one message. It uses out for the result unless extra fields are
// needed.
func (w chatWire) message(out *chatMessage, msg actors.Message, parts []any) (any, error) {
	*out = chatMessage{Role: string(msg.Role), ToolCallID: msg.ToolCallID, text: cmp.Or(errorText(msg), msg.Commentary)}
	opaque, err := w.opaque(msg.Opaque)
	if err != nil {
		return nil, err
	}
	for _, call := range msg.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, chatToolCall{
			ID: call.ID, Type: "function", Function: chatCallee{validName(call.Name), arguments(call.Arguments)},
			ExtraContent: w.sendable("extra_content", opaque.Calls[call.ID]),
		})
	}
	switch {
	case len(parts) > 0 && out.text != "":
		out.Content = append([]any{textPart(out.text)}, parts...)
	case len(parts) > 0:
		out.Content = parts
	case out.text != "":
		out.Content = &out.text
	case len(out.ToolCalls) == 0:
		out.Content = noText
	}
	return w.withFields(out, opaque.Message, extraFor(msg.Extra, w.host))
}

// opaque decodes opaque data of this wire. It ignores data of other wires.
func (w chatWire) opaque(o *actors.Opaque) (chatOpaque, error) {
	if o == nil || o.Wire != w.origin {
		return chatOpaque{}, nil
	}
	var opaque chatOpaque
	if err := json.Unmarshal(o.Data, &opaque); err != nil {
		return chatOpaque{}, fmt.Errorf("opaque data: %w", err)
	}
	return opaque, nil
}

// withFields returns a message with its opaque fields and the extra fields for the
// service.
func (w chatWire) withFields(msg *chatMessage, opaque map[string]json.RawMessage, given map[string]any) (any, error) {
	if len(opaque)+len(given) == 0 {
		return msg, nil
	}
	extra := make(map[string]any, len(opaque)+len(given))
	maps.Copy(extra, given)
	for field, value := range opaque {
		if value := w.sendable(field, value); value != nil {
			extra[field] = value
		}
	}
	if len(extra) == 0 {
		return msg, nil
	}
	data, err := withExtra(msg, extra)
	return json.RawMessage(data), err
}

// sendable returns value, or nil if the field cannot be sent.
func (w chatWire) sendable(field string, value json.RawMessage) json.RawMessage {
	if w.plain && field != "reasoning_content" {
		return nil
	}
	return value
}
