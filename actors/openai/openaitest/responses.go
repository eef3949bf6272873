package openaitest

import (
	"encoding/json"
	"errors"
	"fmt"
)

type wireResponsesRequest struct {
	Model        string            `json:"model"`
	Instructions string            `json:"instructions"`
	Input        json.RawMessage   `json:"input"`
	Stream       bool              `json:"stream"`
	Tools        []json.RawMessage `json:"tools"`
}

type wireItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Input     string          `json:"input"` // of a custom tool
	Output    json.RawMessage `json:"output"`
}

// readResponses decodes a request to the Responses API into r. Items become messages: a call
// becomes a message of the assistant, and its output becomes a tool message.
func (r *Request) readResponses() error {
	var wire wireResponsesRequest
	if err := json.Unmarshal(r.Body, &wire); err != nil {
		return fmt.Errorf("malformed request: %w", err)
	}
	r.Model, r.Stream = wire.Model, wire.Stream
	if wire.Instructions != "" {
		r.Messages = append(r.Messages, Message{Role: "system", Content: wire.Instructions})
	}
	for i, raw := range wire.Tools {
		var tool struct {
			Type        string          `json:"type"`
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		}
		if err := json.Unmarshal(raw, &tool); err != nil {
			return fmt.Errorf("malformed request: tools[%d]: %w", i, err)
		}
		if tool.Type == "function" && tool.Name == "" {
			return fmt.Errorf("malformed request: tools[%d]: a function without a name", i)
		}
		r.Tools = append(r.Tools, Tool{tool.Name, tool.Description, tool.Parameters})
	}
	var text string
	if json.Unmarshal(wire.Input, &text) == nil {
		r.Messages = append(r.Messages, Message{Role: "user", Content: text})
		return r.check()
	}
	var items []wireItem
	if err := json.Unmarshal(wire.Input, &items); err != nil {
		return fmt.Errorf("malformed request: input: %w", err)
	}
	kinds := make(map[string]string) // types of the calls by ID
	for i, item := range items {
		switch kind, known := kinds[item.CallID]; item.Type {
		case "function_call", "custom_tool_call":
			kinds[item.CallID] = item.Type
		case "function_call_output", "custom_tool_call_output":
			if known && item.Type != kind+"_output" {
				return fmt.Errorf("malformed request: input[%d]: a %s for %q, which is a %s", i, item.Type, item.CallID, kind)
			}
		}
		if err := r.addItem(item); err != nil {
			return fmt.Errorf("malformed request: input[%d]: %w", i, err)
		}
	}
	return r.check()
}

func (r *Request) addItem(item wireItem) error {
	switch item.Type {
	case "", "message":
		msg, err := wireMessage{Role: item.Role, Content: item.Content}.message()
		if err != nil {
			return err
		}
		r.Messages = append(r.Messages, msg)
	case "function_call", "custom_tool_call":
		if item.CallID == "" || item.Name == "" {
			return errors.New("a function call without call_id or name")
		}
		call := ToolCall{item.CallID, item.Name, item.Arguments + item.Input}
		if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == "assistant" {
			r.Messages[n-1].ToolCalls = append(r.Messages[n-1].ToolCalls, call)
			return nil
		}
		r.Messages = append(r.Messages, Message{Role: "assistant", ToolCalls: []ToolCall{call}})
	case "function_call_output", "custom_tool_call_output":
		content, err := text(item.Output)
		if err != nil {
			return fmt.Errorf("output: %w", err)
		}
		r.Messages = append(r.Messages, Message{Role: "tool", ToolCallID: item.CallID, Content: content})
	}
	return nil // reasoning and other items are ignored
}

// response returns the reply of the Responses API. All calls must have IDs.
func (r reply) response(x *exchange, calls []ToolCall) map[string]any {
	status, incomplete := "completed", any(nil)
	switch r.finish {
	case "length", "max_output_tokens":
		status, incomplete = "incomplete", map[string]any{"reason": "max_output_tokens"}
	case "content_filter":
		status, incomplete = "incomplete", map[string]any{"reason": "content_filter"}
	}
	return map[string]any{
		"id": fmt.Sprintf("resp_%d", x.number), "object": "response", "created_at": x.req.At.Unix(), "model": x.req.Model,
		"status": status, "error": nil, "incomplete_details": incomplete, "output": r.items(x, calls),
		"usage": map[string]any{"input_tokens": r.prompt, "output_tokens": r.completion, "total_tokens": r.prompt + r.completion},
	}
}

func (r reply) items(x *exchange, calls []ToolCall) []any {
	items := []any{}
	if r.reasoning != "" {
		items = append(items, map[string]any{
			"type": "reasoning", "id": fmt.Sprintf("rs_%d", x.number), "encrypted_content": fmt.Sprintf("encrypted-%d", x.number),
			"summary": []any{map[string]any{"type": "summary_text", "text": r.reasoning}},
		})
	}
	content := []any{}
	if r.text != nil {
		content = append(content, map[string]any{"type": "output_text", "text": *r.text, "annotations": []any{}})
	}
	if r.refusal != "" {
		content = append(content, map[string]any{"type": "refusal", "refusal": r.refusal})
	}
	if len(content) > 0 {
		items = append(items, map[string]any{
			"type": "message", "id": fmt.Sprintf("msg_%d", x.number), "status": "completed", "role": "assistant", "content": content,
		})
	}
	for _, call := range calls {
		items = append(items, map[string]any{
			"type": "function_call", "id": "fc_" + call.ID, "status": "completed", "call_id": call.ID, "name": call.Name, "arguments": call.Arguments,
		})
	}
	return items
}

func (s *streamer) responses(calls []ToolCall) {
	x, r := s.x, s.r
	event := func(name string, fields map[string]any) map[string]any {
		fields["type"], fields["sequence_number"] = name, s.event
		s.event++
		return fields
	}
	whole := r.response(x, calls)
	s.send("response.created", event("response.created", map[string]any{"response": map[string]any{"id": whole["id"], "status": "in_progress", "output": []any{}}}))
	for i, item := range whole["output"].([]any) {
		fields := item.(map[string]any)
		s.send("response.output_item.added", event("response.output_item.added", map[string]any{
			"output_index": i, "item": map[string]any{"type": fields["type"], "id": fields["id"], "name": fields["name"], "call_id": fields["call_id"]},
		}))
		name, pieces := r.deltas(fields)
		for _, piece := range pieces {
			s.piece(event(name, map[string]any{"output_index": i, "item_id": fields["id"], "delta": piece}))
		}
		s.send("response.output_item.done", event("response.output_item.done", map[string]any{"output_index": i, "item": item}))
	}
	last := "response." + whole["status"].(string)
	s.piece(event(last, map[string]any{"response": whole}))
}

// deltas returns the deltas of an item and their event type.
func (r reply) deltas(item map[string]any) (event string, pieces []string) {
	switch item["type"] {
	case "reasoning":
		return "response.reasoning_summary_text.delta", words(r.reasoning)
	case "function_call":
		return "response.function_call_arguments.delta", halves(item["arguments"].(string))
	}
	if r.refusal != "" {
		return "response.refusal.delta", words(r.refusal)
	}
	return "response.output_text.delta", r.pieces()
}
