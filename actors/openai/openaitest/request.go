package openaitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A Request is a request received by the server. API fields that have no field here are available
// only in Body. Copies of a Request share memory, so a Request must not be modified.
type Request struct {
	Model    string
	Messages []Message
	Tools    []Tool
	Stream   bool

	Method string
	Path   string
	Header http.Header
	Body   []byte
	At     time.Time // time of arrival
	Step   int       // number of the step that answers it, starting at 1; 0 if it was refused before it was assigned a step

	responses bool // the request was sent to the Responses API
}

// A Message is one message of the conversation.
type Message struct {
	Role       string
	Name       string
	Content    string // The text, or the text parts joined together.
	ToolCalls  []ToolCall
	ToolCallID string
}

// A Tool is a tool offered to the model.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema; nil if there is none
}

// A ToolResult is the content of a tool message.
type ToolResult struct {
	CallID  string
	Name    string // name of the tool, from the call
	Content string
}

// LastMessage returns the last message of the conversation, or the zero Message if
// there is none.
func (r Request) LastMessage() Message {
	if len(r.Messages) == 0 {
		return Message{}
	}
	return r.Messages[len(r.Messages)-1]
}

// ToolResults returns the results of all tool calls, in order.
func (r Request) ToolResults() []ToolResult {
	names := map[string]string{}
	var results []ToolResult
	for _, m := range r.Messages {
		for _, call := range m.ToolCalls {
			names[call.ID] = call.Name
		}
		if m.Role == "tool" {
			results = append(results, ToolResult{m.ToolCallID, names[m.ToolCallID], m.Content})
		}
	}
	return results
}

// read decodes the body into r. It returns an error if the request is invalid.
func (r *Request) read() error {
	var known bool
	if r.responses, known = apiOf(r.Path); !known {
		return fmt.Errorf("path %s: only %s, %s and the corresponding paths of Azure are served", r.Path, chatPath, responsesPath)
	}
	if r.Method != http.MethodPost {
		return fmt.Errorf("method %s: only POST is served", r.Method)
	}
	if r.responses {
		return r.readResponses()
	}
	var wire wireRequest
	if err := json.Unmarshal(r.Body, &wire); err != nil {
		return fmt.Errorf("malformed request: %w", err)
	}
	r.Model, r.Stream = wire.Model, wire.Stream
	for i, m := range wire.Messages {
		msg, err := m.message()
		if err != nil {
			return fmt.Errorf("malformed request: messages[%d]: %w", i, err)
		}
		r.Messages = append(r.Messages, msg)
	}
	for i, tool := range wire.Tools {
		if tool.Type == "function" && tool.Function.Name == "" {
			return fmt.Errorf("malformed request: tools[%d]: a function without a name", i)
		}
		r.Tools = append(r.Tools, Tool(tool.Function))
	}
	return r.check()
}

func (r *Request) check() error {
	switch {
	case r.Model == "":
		return errors.New("malformed request: no model")
	case len(r.Messages) == 0:
		return errors.New("malformed request: no messages")
	}
	return r.pairTools()
}

// pairTools returns an error if a tool call has no result or a result has no call. The real API
// also refuses such conversations.
func (r *Request) pairTools() error {
	var open []ToolCall
	for i, m := range r.Messages {
		if m.Role == "tool" {
			rest := without(open, m.ToolCallID)
			if len(rest) == len(open) {
				return fmt.Errorf("messages[%d] is the result of %q, which is not an open tool call of an earlier message", i, m.ToolCallID)
			}
			open = rest
			continue
		}
		if len(open) > 0 {
			return missingResult(open)
		}
		open = m.ToolCalls
	}
	if len(open) > 0 {
		return missingResult(open)
	}
	return nil
}

func missingResult(open []ToolCall) error {
	missing := make([]string, len(open))
	for i, call := range open {
		missing[i] = fmt.Sprintf("%s (%s)", call.ID, call.Name)
	}
	return fmt.Errorf("missing tool result: %s", strings.Join(missing, ", "))
}

func without(calls []ToolCall, id string) []ToolCall {
	var rest []ToolCall
	for _, call := range calls {
		if call.ID != id {
			rest = append(rest, call)
		}
	}
	return rest
}

// summary describes the request in a few words.
func (r Request) summary() string {
	if len(r.Messages) == 0 {
		return fmt.Sprintf("the request: %s %s %q", r.Method, r.Path, short(string(r.Body)))
	}
	last := r.LastMessage()
	return fmt.Sprintf("the request: model %q, %d messages, the last from %s: %q",
		r.Model, len(r.Messages), last.Role, short(last.Content))
}

// short truncates text for reports.
func short(text string) string {
	const most = 120
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

type wireRequest struct {
	Model    string        `json:"model"`
	Messages []wireMessage `json:"messages"`
	Stream   bool          `json:"stream"`
	Tools    []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

type wireMessage struct {
	Role       string          `json:"role"`
	Name       string          `json:"name"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []wireCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

func (m wireMessage) message() (Message, error) {
	switch m.Role {
	case "system", "developer", "user", "assistant":
	case "tool":
		if m.ToolCallID == "" {
			return Message{}, errors.New("a tool message without tool_call_id")
		}
	default:
		return Message{}, fmt.Errorf("unknown role %q", m.Role)
	}
	content, err := text(m.Content)
	if err != nil {
		return Message{}, fmt.Errorf("content: %w", err)
	}
	msg := Message{Role: m.Role, Name: m.Name, Content: content, ToolCallID: m.ToolCallID}
	for _, call := range m.ToolCalls {
		if call.ID == "" || call.Function.Name == "" {
			return Message{}, errors.New("a tool call without id or function name")
		}
		msg.ToolCalls = append(msg.ToolCalls, ToolCall{call.ID, call.Function.Name, call.Function.Arguments})
	}
	return msg, nil
}

// text decodes content that is a string, a list of parts, or null.
func text(content json.RawMessage) (string, error) {
	if !bytes.HasPrefix(content, []byte("[")) {
		var s string
		if len(content) == 0 {
			return "", nil
		}
		err := json.Unmarshal(content, &s)
		return s, err
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(part.Text)
	}
	return b.String(), nil
}
