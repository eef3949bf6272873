package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
)

// chatWire is the chat completions API.
type chatWire struct {
	origin     string // of opaque data: where it came from and goes back to
	tokenField string // max_tokens or max_completion_tokens
	plain      bool   // fields that go-openai does not know are not sent back
}

// noText stands for an empty text: some services refuse a message without
// content.
const noText = "(empty)"

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
	Content    any            `json:"content,omitempty"` // a text, or parts
	ToolCalls  []chatToolCall `json:"tool_calls,omitempty"`
	ToolCallID string         `json:"tool_call_id,omitempty"`
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

// functionTool describes a function on either wire.
type functionTool struct {
	Type        string          `json:"type,omitempty"` // on the Responses wire
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict,omitempty"`
}

func functionToolOf(spec actors.FunctionSpec) functionTool {
	parameters := spec.Parameters
	if len(parameters) == 0 {
		parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return functionTool{Name: spec.Name, Description: spec.Description, Parameters: parameters}
}

func (w chatWire) from() string { return w.origin }

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
	if len(out.Tools) > 0 {
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
	return withExtra(out, o.Extra)
}

// toolChoice is that of the options in the service's form; nil leaves it to
// the service.
func toolChoice(choice string, named func(string) any) any {
	switch choice {
	case "":
		return nil
	case "auto", "none", "required":
		return choice
	}
	return named(choice)
}

// withExtra marshals a body with more fields in it. A field that is nil is
// taken out.
func withExtra(body any, extra map[string]any) ([]byte, error) {
	data, err := json.Marshal(body)
	if err != nil || len(extra) == 0 {
		return data, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	for key, value := range extra {
		if value == nil {
			delete(fields, key)
			continue
		}
		if fields[key], err = json.Marshal(value); err != nil {
			return nil, fmt.Errorf("openai: Options.Extra[%q]: %w", key, err)
		}
	}
	return json.Marshal(fields)
}

// messages translates a conversation. The API takes pictures of users alone:
// those that tools returned follow their results as a message of the user.
func (w chatWire) messages(all []actors.Message) ([]any, error) {
	out := make([]any, 0, len(all))
	var pictures []any
	for i, msg := range all {
		if msg.Role != actors.RoleTool && pictures != nil {
			out, pictures = append(out, chatMessage{Role: "user", Content: pictures}), nil
		}
		parts, err := chatParts(msg.Parts)
		if err != nil {
			return nil, fmt.Errorf("openai: message %d: %w", i+1, err)
		}
		if msg.Role == actors.RoleTool && len(parts) > 0 {
			pictures = append(pictures, textPart("Of the result of "+msg.ToolCallID+":"))
			pictures = append(pictures, parts...)
			parts = nil
		}
		message, err := w.message(msg, parts)
		if err != nil {
			return nil, fmt.Errorf("openai: message %d: %w", i+1, err)
		}
		out = append(out, message)
	}
	if pictures != nil {
		out = append(out, chatMessage{Role: "user", Content: pictures})
	}
	return out, nil
}

func (w chatWire) message(msg actors.Message, parts []any) (any, error) {
	out := chatMessage{Role: string(msg.Role), ToolCallID: msg.ToolCallID}
	var opaque chatOpaque
	if o := msg.Opaque; o != nil && o.Wire == w.origin {
		if err := json.Unmarshal(o.Data, &opaque); err != nil {
			return nil, fmt.Errorf("opaque data: %w", err)
		}
	}
	for _, call := range msg.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, chatToolCall{
			ID: call.ID, Type: "function", Function: chatCallee{call.Name, arguments(call.Arguments)},
			ExtraContent: w.sendable("extra_content", opaque.Calls[call.ID]),
		})
	}
	switch text := errorText(msg); {
	case len(parts) > 0 && text != "":
		out.Content = append([]any{textPart(text)}, parts...)
	case len(parts) > 0:
		out.Content = parts
	case text != "":
		out.Content = text
	case len(out.ToolCalls) == 0:
		out.Content = noText
	}
	return w.withOpaque(out, opaque.Message)
}

func (w chatWire) withOpaque(msg chatMessage, fields map[string]json.RawMessage) (any, error) {
	extra := make(map[string]any, len(fields))
	for field, value := range fields {
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

// sendable is nil for a field that cannot be sent.
func (w chatWire) sendable(field string, value json.RawMessage) json.RawMessage {
	if w.plain && field != "reasoning_content" {
		return nil
	}
	return value
}

// errorText is the text of a message. The APIs have no other mark for the
// error of a tool.
func errorText(msg actors.Message) string {
	if msg.IsError && !strings.HasPrefix(msg.Text, "error: ") {
		return "error: " + msg.Text
	}
	return msg.Text
}

// arguments is what goes back of a call's arguments: services refuse what is
// not an object.
func arguments(text string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &object) != nil || object == nil {
		return "{}"
	}
	return text
}

type chatReply struct {
	ID      lenientText     `json:"id"`
	Model   lenientText     `json:"model"`
	Choices []chatChoice    `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type chatChoice struct {
	Index        lenientInt      `json:"index"`
	Message      *chatAnswer     `json:"message"`
	Delta        *chatAnswer     `json:"delta"`
	FinishReason lenientText     `json:"finish_reason"`
	Usage        *usage          `json:"usage"`
	Error        json.RawMessage `json:"error"`
}

type chatAnswer struct {
	Content          content         `json:"content"`
	Refusal          lenientText     `json:"refusal"`
	ReasoningContent *string         `json:"reasoning_content"`
	Reasoning        *content        `json:"reasoning"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
	ExtraContent     json.RawMessage `json:"extra_content"`
	ToolCalls        []chatCall      `json:"tool_calls"`
	FunctionCall     *chatFunction   `json:"function_call"`
}

type chatCall struct {
	Index    *lenientInt  `json:"index"`
	ID       lenientText  `json:"id"`
	Function chatFunction `json:"function"`
	Custom   *struct {
		Name  string           `json:"name"`
		Input lenientArguments `json:"input"`
	} `json:"custom"`
	ExtraContent json.RawMessage `json:"extra_content"`
}

type chatFunction struct {
	Name      lenientText      `json:"name"`
	Arguments lenientArguments `json:"arguments"`
}

type usage struct {
	Input         lenientInt `json:"prompt_tokens"`
	Output        lenientInt `json:"completion_tokens"`
	InputDetails  *usageTail `json:"prompt_tokens_details"`
	OutputDetails *usageTail `json:"completion_tokens_details"`
	CacheHit      lenientInt `json:"prompt_cache_hit_tokens"`
	Cached        lenientInt `json:"cached_tokens"`
	Cost          *float64   `json:"cost"`
}

type usageTail struct {
	Cached     lenientInt `json:"cached_tokens"`
	CacheWrite lenientInt `json:"cache_write_tokens"`
	Reasoning  lenientInt `json:"reasoning_tokens"`
}

func (u *usage) core() core.Usage {
	out := core.Usage{
		InputTokens: int(u.Input), OutputTokens: int(u.Output),
		CachedInputTokens: int(max(u.CacheHit, u.Cached)),
	}
	if d := u.InputDetails; d != nil {
		out.CachedInputTokens = max(out.CachedInputTokens, int(d.Cached))
		out.CacheWriteTokens = int(d.CacheWrite)
	}
	if d := u.OutputDetails; d != nil {
		out.ReasoningTokens = int(d.Reasoning)
	}
	if u.Cost != nil {
		out.Cost = *u.Cost
	}
	return out
}

// read takes a whole reply.
func (w chatWire) read(a *answer, data []byte) (complete bool, err error) {
	var reply chatReply
	if err := json.Unmarshal(data, &reply); err != nil {
		return false, malformed(err)
	}
	a.takeHead(&reply)
	if err := errorIn(reply.Error); err != nil {
		return false, err
	}
	if len(reply.Choices) == 0 {
		return false, errNoChoices
	}
	return true, a.takeChoice(&reply.Choices[0], reply.Choices[0].Message)
}

// event takes one event of a stream.
func (w chatWire) event(a *answer, data []byte) (complete bool, err error) {
	if isDone(data) {
		return !a.isEmpty() || a.finish != "", errDone
	}
	var reply chatReply
	if err := json.Unmarshal(data, &reply); err != nil {
		return false, malformed(err)
	}
	a.takeHead(&reply)
	if err := errorIn(reply.Error); err != nil {
		return false, err
	}
	for i := range reply.Choices {
		choice := &reply.Choices[i]
		if choice.Index != 0 {
			continue // one answer is used
		}
		piece := choice.Delta
		if piece == nil {
			piece = choice.Message
		}
		if err := a.takeChoice(choice, piece); err != nil {
			return false, err
		}
	}
	return a.finish != "", nil
}

func (a *answer) takeHead(reply *chatReply) {
	if reply.ID != "" {
		a.id = string(reply.ID)
	}
	if reply.Model != "" {
		a.model = string(reply.Model)
	}
	if reply.Usage != nil {
		a.usage = reply.Usage.core()
	}
}

func (a *answer) takeChoice(choice *chatChoice, piece *chatAnswer) error {
	if choice.Usage != nil {
		a.usage = choice.Usage.core()
	}
	if err := errorIn(choice.Error); err != nil {
		return err
	}
	if choice.FinishReason != "" {
		a.finish = string(choice.FinishReason)
	}
	if a.finish == "error" {
		return &Error{Message: "the service broke the answer off and did not say why"}
	}
	if piece != nil {
		a.takePiece(piece, choice.Message == piece)
	}
	return nil
}

// takePiece adds what a message says, which is whole or a part of one.
func (a *answer) takePiece(m *chatAnswer, whole bool) {
	if m.Content.reasoning != "" {
		a.think(m.Content.reasoning)
	}
	if m.ReasoningContent != nil && *m.ReasoningContent != "" {
		a.think(*m.ReasoningContent)
	} else if m.Reasoning != nil && m.Reasoning.text != "" {
		a.think(m.Reasoning.text)
	}
	a.keepReasoning("reasoning_content", m.ReasoningContent != nil)
	a.keepReasoning("reasoning", m.ReasoningContent == nil && m.Reasoning != nil)
	if m.Content.text != "" {
		a.say(m.Content.text)
	}
	if refusal := string(m.Refusal) + m.Content.refusal; refusal != "" {
		a.refuse(refusal)
	}
	if isSet(m.ExtraContent) {
		a.keep("extra_content", m.ExtraContent)
	}
	a.takeDetails(m.ReasoningDetails, whole)
	for i := range m.ToolCalls {
		a.takeCall(&m.ToolCalls[i], whole)
	}
	if m.FunctionCall != nil {
		a.takeCall(&chatCall{Function: *m.FunctionCall}, false)
	}
}

func (a *answer) keep(field string, value json.RawMessage) {
	o := chatOpaque{Message: a.message}
	o.keep(field, value)
	a.message = o.Message
}

// keepReasoning marks a field that goes back with all that was thought; its
// value is made at the end.
func (a *answer) keepReasoning(field string, there bool) {
	if there && a.reasoning.Len() > 0 {
		a.keep(field, nil)
	}
}

// finishMessage fills the fields that were marked.
func (a *answer) finishMessage() {
	for _, field := range [...]string{"reasoning_content", "reasoning"} {
		if value, marked := a.message[field]; marked && value == nil {
			a.message[field] = mustMarshal(a.reasoning.String())
		}
	}
}

func (a *answer) takeDetails(details json.RawMessage, whole bool) {
	if !isSet(details) {
		return
	}
	var pieces []json.RawMessage
	if whole || json.Unmarshal(details, &pieces) != nil {
		a.keep("reasoning_details", details)
		return
	}
	a.details = append(a.details, pieces...)
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// takeCall adds a tool call, or a piece of one. Pieces belong together by
// their index; some services leave it out, or send the same for all.
func (a *answer) takeCall(c *chatCall, whole bool) {
	if c.Custom != nil {
		c.Function = chatFunction{lenientText(c.Custom.Name), c.Custom.Input}
	}
	id, index := string(c.ID), ""
	if c.Index != nil {
		index = fmt.Sprint(int(*c.Index))
	}
	at := -1
	if !whole {
		at = a.openCall(id, index)
	}
	if at < 0 {
		at = len(a.calls)
		a.calls = append(a.calls, &callParts{index: index, id: id})
	}
	call := a.calls[at]
	name := ""
	if call.name == "" {
		name = string(c.Function.Name)
		call.name = name
	}
	call.arguments.WriteString(string(c.Function.Arguments))
	if isSet(c.ExtraContent) {
		call.extra = c.ExtraContent
	}
	a.show(core.PartToolCall, at, name, string(c.Function.Arguments))
}

// openCall finds the call that a piece belongs to, -1 for a new one.
func (a *answer) openCall(id, index string) int {
	for i := len(a.calls) - 1; i >= 0; i-- {
		call := a.calls[i]
		switch {
		case id != "" && call.id != "" && id != call.id:
			continue
		case index != "" && call.index != "" && index != call.index:
			continue
		case id == "" && index == "" || id != "" && id == call.id || index != "" && index == call.index:
			return i
		}
	}
	return -1
}
