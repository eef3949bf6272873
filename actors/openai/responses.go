package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
)

// responsesWire is the Responses API. Nothing is stored at the service: what
// it must know comes with each request.
type responsesWire struct {
	origin    string // of opaque data: where it came from and goes back to
	encrypted bool   // reasoning comes back encrypted, and is sent again
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

func (w responsesWire) from() string { return w.origin }

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
		tool.Type, tool.Strict = "function", new(bool) // strict is the default of this API alone
		out.Tools = append(out.Tools, tool)
	}
	if len(out.Tools) > 0 {
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
	for i, msg := range req.Messages {
		items, err := w.items(msg)
		if err != nil {
			return nil, fmt.Errorf("openai: message %d: %w", i+1, err)
		}
		out.Input = append(out.Input, items...)
	}
	return withExtra(out, o.Extra)
}

func cannotCarry(option string) error {
	return fmt.Errorf("openai: the Responses API has no Options.%s; leave it out, or set Model.API to openai.Chat where the model allows it", option)
}

type inputMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"` // a text, or parts
}

type inputCall struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type inputCallOutput struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output any    `json:"output"` // a text, or parts
}

// items translates one message.
func (w responsesWire) items(msg actors.Message) ([]any, error) {
	parts, err := responsesParts(msg.Parts)
	if err != nil {
		return nil, err
	}
	var said any = errorText(msg)
	switch {
	case len(parts) > 0 && said != "":
		said = append([]any{map[string]any{"type": "input_text", "text": said}}, parts...)
	case len(parts) > 0:
		said = parts
	case said == "":
		said = noText
	}
	switch {
	case msg.Role == actors.RoleTool:
		return []any{inputCallOutput{"function_call_output", msg.ToolCallID, said}}, nil
	case msg.Role != actors.RoleAssistant:
		return []any{inputMessage{string(msg.Role), said}}, nil
	case msg.Opaque != nil && msg.Opaque.Wire == w.origin:
		return w.opaqueItems(msg)
	}
	var items []any
	if msg.Text != "" || len(parts) > 0 || len(msg.ToolCalls) == 0 {
		items = append(items, inputMessage{"assistant", said})
	}
	for _, call := range msg.ToolCalls {
		items = append(items, inputCall{"function_call", call.ID, call.Name, arguments(call.Arguments)})
	}
	return items, nil
}

// opaqueItems are the items that the service sent, in their order. Of a call,
// the message knows better: its ID may be another, and torn arguments are
// gone. The service knows no item by its ID, since it stores none.
func (w responsesWire) opaqueItems(msg actors.Message) ([]any, error) {
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
			if len(calls) > 0 && calls[0].Name == string(head.Name) {
				items = append(items, inputCall{"function_call", calls[0].ID, calls[0].Name, arguments(calls[0].Arguments)})
				calls = calls[1:]
			}
		case "reasoning":
			if head.EncryptedContent != "" {
				items = append(items, item)
			}
		case "message":
			var a answer
			a.takeItem(&head, nil)
			text := a.text.String() + a.refusal.String()
			if text == "" {
				text = noText
			}
			items = append(items, inputMessage{"assistant", text})
		default:
			items = append(items, item)
		}
	}
	return items, nil
}

type responsesReply struct {
	ID         lenientText       `json:"id"`
	Model      lenientText       `json:"model"`
	Status     lenientText       `json:"status"`
	Output     []json.RawMessage `json:"output"`
	Usage      *responsesUsage   `json:"usage"`
	Error      json.RawMessage   `json:"error"`
	Incomplete *struct {
		Reason lenientText `json:"reason"`
	} `json:"incomplete_details"`
}

type responsesUsage struct {
	Input         lenientInt `json:"input_tokens"`
	Output        lenientInt `json:"output_tokens"`
	InputDetails  *usageTail `json:"input_tokens_details"`
	OutputDetails *usageTail `json:"output_tokens_details"`
	Cost          *float64   `json:"cost"`
}

type outputItem struct {
	Type    string `json:"type"`
	Content []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
	CallID           lenientText      `json:"call_id"`
	Name             lenientText      `json:"name"`
	Arguments        lenientArguments `json:"arguments"`
	Input            lenientArguments `json:"input"` // of a custom tool
	EncryptedContent string           `json:"encrypted_content"`
}

// read takes a whole response.
func (w responsesWire) read(a *answer, data []byte) (complete bool, err error) {
	var reply responsesReply
	if err := json.Unmarshal(data, &reply); err != nil {
		return false, malformed(err)
	}
	return w.take(a, &reply)
}

func (w responsesWire) take(a *answer, reply *responsesReply) (complete bool, err error) {
	a.id, a.model = string(reply.ID), string(reply.Model)
	if u := reply.Usage; u != nil {
		a.usage = (&usage{Input: u.Input, Output: u.Output, InputDetails: u.InputDetails, OutputDetails: u.OutputDetails, Cost: u.Cost}).core()
	}
	if err := errorIn(reply.Error); err != nil {
		return false, err
	}
	switch reply.Status {
	case "completed", "":
		a.finish = "completed"
	case "incomplete":
		a.finish = "incomplete"
		if reply.Incomplete != nil && reply.Incomplete.Reason != "" {
			a.finish = string(reply.Incomplete.Reason)
		}
	default:
		return false, &Error{Message: fmt.Sprintf("the response has the status %q", reply.Status)}
	}
	for _, raw := range reply.Output {
		var item outputItem
		if err := json.Unmarshal(raw, &item); err != nil {
			return false, malformed(err)
		}
		a.takeItem(&item, raw)
	}
	if len(reply.Output) == 0 && reply.Status != "incomplete" {
		return false, errNoChoices
	}
	return true, nil
}

// takeItem adds what an item of the output says, and keeps the item.
func (a *answer) takeItem(item *outputItem, raw json.RawMessage) {
	if raw != nil {
		a.items = append(a.items, raw)
	}
	switch item.Type {
	default:
		a.mustGoBack = true
	case "message":
		for _, part := range item.Content {
			a.text.WriteString(part.Text)
			a.refusal.WriteString(part.Refusal)
		}
	case "reasoning":
		a.mustGoBack = a.mustGoBack || item.EncryptedContent != ""
		for _, part := range item.Summary {
			a.reasoning.WriteString(part.Text)
		}
		for _, part := range item.Content {
			a.reasoning.WriteString(part.Text)
		}
	case "function_call", "custom_tool_call":
		call := &callParts{id: string(item.CallID), name: string(item.Name)}
		call.arguments.WriteString(string(item.Arguments) + string(item.Input))
		a.calls = append(a.calls, call)
	}
}

type responsesEvent struct {
	Type        string           `json:"type"`
	Delta       lenientArguments `json:"delta"`
	OutputIndex lenientInt       `json:"output_index"`
	Item        json.RawMessage  `json:"item"`
	Response    json.RawMessage  `json:"response"`
	Error       json.RawMessage  `json:"error"`
	Code        lenientText      `json:"code"`
	Message     lenientText      `json:"message"`
}

// event takes one event of a stream. What is said in pieces is shown; the
// answer is that of the last event, which has all of it.
func (w responsesWire) event(a *answer, data []byte) (complete bool, err error) {
	if isDone(data) {
		return a.finish != "", errDone
	}
	var e responsesEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return false, malformed(err)
	}
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		a.show(core.PartText, 0, "", string(e.Delta))
		a.said += len(e.Delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		a.show(core.PartReasoning, 0, "", string(e.Delta))
		a.said += len(e.Delta)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		a.show(core.PartToolCall, int(e.OutputIndex), "", string(e.Delta))
		a.said += len(e.Delta)
	case "response.output_item.added":
		var item outputItem
		if json.Unmarshal(e.Item, &item) == nil && strings.HasSuffix(item.Type, "_call") {
			a.show(core.PartToolCall, int(e.OutputIndex), string(item.Name), "")
		}
	case "response.output_item.done":
		a.doneItems = append(a.doneItems, e.Item)
	case "response.completed", "response.incomplete", "response.failed":
		return w.last(a, e.Response)
	default:
		if e.Type == "error" && !isSet(e.Error) {
			return false, errorOf(wireError{Code: e.Code, Message: e.Message})
		}
		return false, errorIn(e.Error)
	}
	return false, nil
}

// last takes the response at the end of a stream. Some services leave the
// output out there, and have sent it item by item.
func (w responsesWire) last(a *answer, data []byte) (complete bool, err error) {
	var reply responsesReply
	if err := json.Unmarshal(data, &reply); err != nil {
		return false, malformed(err)
	}
	if len(reply.Output) == 0 {
		reply.Output = a.doneItems
	}
	complete, err = w.take(a, &reply)
	if complete {
		err = errDone
	}
	return complete, err
}
