package openai

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/reprise-go/reprise/actors"
)

// responsesWire implements the Responses API. By default, the service stores nothing: each request
// contains the whole conversation.
type responsesWire struct {
	origin    string // identifies the source of opaque data
	host      string
	encrypted bool // request encrypted reasoning and send it back
}

type responsesBody struct {
	Model             string          `json:"model"`
	Input             []any           `json:"input"`
	Tools             []functionTool  `json:"tools,omitempty"`
	ToolChoice        any             `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls,omitempty"`
	Temperature       *float64        `json:"temperature,omitempty"`
	TopP              *float64        `json:"top_p,omitempty"`
	MaxOutputTokens   int             `json:"max_output_tokens,omitempty"`
	Reasoning         json.RawMessage `json:"reasoning,omitempty"`
	Text              json.RawMessage `json:"text,omitempty"`
	Include           []string        `json:"include,omitempty"`
	Store             bool            `json:"store"`
	Stream            bool            `json:"stream,omitempty"`
}

func (w responsesWire) source() string { return w.origin }
func (w responsesWire) path() string   { return responsesPath }

func (w responsesWire) body(model string, req actors.Request, stream bool) ([]byte, error) {
	o := req.Options
	if o.Seed != nil {
		return nil, cannotCarry("Seed")
	}
	if o.Stop != nil {
		return nil, cannotCarry("Stop")
	}
	out := responsesBody{
		Model: model, Temperature: o.Temperature, TopP: o.TopP, MaxOutputTokens: o.MaxTokens, Stream: stream,
	}
	if w.encrypted {
		out.Include = []string{"reasoning.encrypted_content"}
	}
	if o.Effort != "" {
		out.Reasoning = mustMarshal(map[string]string{"effort": o.Effort})
	}
	for _, spec := range req.Tools {
		tool := functionToolOf(spec)
		tool.Type, tool.Strict = "function", &spec.Strict // in this API, strict is the default
		out.Tools = append(out.Tools, tool)
	}
	if hasTools(&req) {
		out.ToolChoice = toolChoice(o.ToolChoice, func(name string) any {
			return map[string]string{"type": "function", "name": name}
		})
		if o.SequentialTools {
			out.ParallelToolCalls = new(bool)
		}
	}
	if f := o.Format; f != nil {
		out.Text = mustMarshal(map[string]any{"format": map[string]any{
			"type": "json_schema", "name": f.Name, "schema": f.Schema, "strict": f.Strict,
		}})
	}
	custom := make(map[string]bool)
	for i, msg := range req.Messages {
		items, err := w.items(msg, custom)
		if err != nil {
			return nil, fmt.Errorf("openai: message %d: %w", i+1, err)
		}
		out.Input = append(out.Input, items...)
	}
	return withExtra(out, o.ExtraBody)
}

func cannotCarry(option string) error {
	return fmt.Errorf("openai: the Responses API does not support Options.%s; leave it out, or set Model.API to openai.Chat if the model allows it", option)
}

type inputMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"` // string or list of parts
	Phase   string `json:"phase,omitempty"`
}

type inputCall struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// An inputCustomCall is a call to a custom tool, whose input is text.
type inputCustomCall struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Name   string `json:"name"`
	Input  string `json:"input"`
}

type inputCallOutput struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output any    `json:"output"` // string or list of parts
}

// items converts one message. custom holds the IDs of the calls to custom tools in the assistant's
// latest message.
func (w responsesWire) items(msg actors.Message, custom map[string]bool) ([]any, error) {
	if msg.Role == actors.RoleAssistant {
		clear(custom)
		if msg.Opaque != nil && msg.Opaque.Wire == w.origin {
			return w.opaqueItems(msg, custom)
		}
	}
	sent := msg.Parts
	if msg.Role == actors.RoleAssistant {
		sent, _ = assistantParts(msg.Parts)
	}
	parts, err := convertParts(sent, w.host, responsesPart)
	if err != nil {
		return nil, err
	}
	var content any = errorText(msg)
	switch {
	case len(parts) > 0 && content != "":
		content = append([]any{map[string]any{"type": "input_text", "text": content}}, parts...)
	case len(parts) > 0:
		content = parts
	case content == "":
		content = noText
	}
	switch {
	case msg.Role == actors.RoleTool && custom[msg.ToolCallID]:
		return []any{inputCallOutput{"custom_tool_call_output", msg.ToolCallID, content}}, nil
	case msg.Role == actors.RoleTool:
		return []any{inputCallOutput{"function_call_output", msg.ToolCallID, content}}, nil
	case msg.Role != actors.RoleAssistant:
		item, err := w.withExtra(inputMessage{Role: string(msg.Role), Content: content}, msg.Extra)
		return []any{item}, err
	}
	var items []any
	if msg.Text != "" || len(parts) > 0 || len(msg.ToolCalls) == 0 {
		item, err := w.withExtra(inputMessage{Role: "assistant", Content: content}, msg.Extra)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	for _, call := range msg.ToolCalls {
		items = append(items, inputCall{"function_call", call.ID, validName(call.Name), arguments(call.Arguments)})
	}
	return items, nil
}

func (w responsesWire) withExtra(item inputMessage, extra actors.Extra) (any, error) {
	fields := extraFor(extra, w.host)
	if len(fields) == 0 {
		return item, nil
	}
	data, err := withExtra(item, fields)
	return json.RawMessage(data), err
}

// opaqueItems returns the items that the service sent, in order. For calls, it uses the IDs and
// arguments in the message, since IDs may have been replaced and malformed arguments removed. The
// input of a custom tool is text and is sent unchanged. Items are sent without their IDs, since the
// service does not store them. The IDs of calls to custom tools are added to custom.
func (w responsesWire) opaqueItems(msg actors.Message, custom map[string]bool) ([]any, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(msg.Opaque.Data, &raw); err != nil {
		return nil, fmt.Errorf("opaque data: %w", err)
	}
	var items []any
	calls := msg.ToolCalls
	for _, item := range raw {
		var head outputItem
		if err := json.Unmarshal(item, &head); err != nil {
			return nil, fmt.Errorf("opaque data: %w", err)
		}
		switch head.Type {
		case "function_call":
			switch {
			case len(calls) > 0 && calls[0].Name == string(head.Name):
				items = append(items, inputCall{"function_call", calls[0].ID, validName(calls[0].Name), arguments(calls[0].Arguments)})
				calls = calls[1:]
			case msg.Text != "" && msg.Text == string(head.Arguments): // withoutFormatTool made the call the answer
				items = append(items, inputMessage{Role: "assistant", Content: msg.Text})
			}
		case "custom_tool_call":
			if len(calls) > 0 && calls[0].Name == string(head.Name) {
				items = append(items, inputCustomCall{"custom_tool_call", calls[0].ID, calls[0].Name, string(head.Input)})
				custom[calls[0].ID] = true
				calls = calls[1:]
			}
		case "reasoning":
			if head.EncryptedContent != "" {
				items = append(items, item)
			}
		case "message":
			var a answer
			a.addItem(&head, nil)
			text := cmp.Or(a.text.String()+a.commentary.String()+a.refusal.String(), noText)
			items = append(items, inputMessage{"assistant", text, head.Phase})
		default:
			items = append(items, item)
		}
	}
	return items, nil
}
