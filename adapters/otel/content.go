package otel

import (
	"encoding/json"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// showInput adds the input of a model or tool to the call's span as attributes. If the input cannot
// be decoded, it is left out.
func (t *Telemetry) showInput(span trace.Span, info *core.CallInfo) {
	defer recoverPanic()
	if info.Kind != record.KindLLM && info.Kind != record.KindTool {
		return
	}
	encoded, err := info.Input()
	if err != nil {
		return
	}
	if info.Kind == record.KindTool {
		t.showPayload(span, semconv.GenAIToolCallArgumentsKey, encoded)
		return
	}
	var req actors.Request
	if err := record.Decode(encoded, &req); err != nil {
		return
	}
	t.show(span, semconv.GenAIInputMessagesKey, messagesOf(req.Messages))
	if len(req.Tools) > 0 {
		definitions := make([]definition, len(req.Tools))
		for i, tool := range req.Tools {
			definitions[i] = definition{Type: "function", Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters}
		}
		t.show(span, semconv.GenAIToolDefinitionsKey, definitions)
	}
}

// showOutput adds the output of a model or tool to the call's span as attributes. The output of an
// actor with NoStore is left out.
func (t *Telemetry) showOutput(span trace.Span, info *core.CallInfo) {
	defer recoverPanic()
	if info.Kind != record.KindLLM && info.Kind != record.KindTool || !span.IsRecording() {
		return
	}
	encoded, err := info.Output()
	if err != nil {
		return
	}
	if info.Kind == record.KindTool {
		t.showPayload(span, semconv.GenAIToolCallResultKey, encoded)
		return
	}
	var resp actors.Response
	if err := record.Decode(encoded, &resp); err != nil {
		return
	}
	m := messageOf(&resp.Message)
	m.FinishReason = finishReason(&resp)
	t.show(span, semconv.GenAIOutputMessagesKey, []chatMessage{m})
}

func (t *Telemetry) showPayload(span trace.Span, key attribute.Key, encoded []byte) {
	if document, err := record.JSON(encoded, nil); err == nil {
		t.showText(span, key, document)
	}
}

func (t *Telemetry) show(span trace.Span, key attribute.Key, v any) {
	if document, err := json.Marshal(v); err == nil {
		t.showText(span, key, string(document))
	}
}

func (t *Telemetry) showText(span trace.Span, key attribute.Key, document string) {
	if t.options.Redact != nil {
		document = t.options.Redact(document)
	}
	span.SetAttributes(key.String(utf8Of(document)))
}

// A chatMessage is a message in the form that the conventions define.
type chatMessage struct {
	Role         string `json:"role"`
	Parts        []part `json:"parts"`
	FinishReason string `json:"finish_reason,omitempty"`
}

type part struct {
	Type      string          `json:"type"`
	Content   *string         `json:"content,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  *string         `json:"response,omitempty"`
	MIMEType  string          `json:"mime_type,omitempty"`
	Modality  string          `json:"modality,omitempty"`
	URI       string          `json:"uri,omitempty"`
}

type definition struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

func messagesOf(messages []actors.Message) []chatMessage {
	converted := make([]chatMessage, len(messages))
	for i := range messages {
		converted[i] = messageOf(&messages[i])
	}
	return converted
}

// finishReason returns why the model stopped. If the conventions define a term for the reason, it
// returns that term.
func finishReason(resp *actors.Response) string {
	switch finish := resp.Finish; {
	case finish == actors.FinishToolCalls, finish == "" && len(resp.Message.ToolCalls) > 0:
		return "tool_call"
	case finish == actors.FinishFilter:
		return "content_filter"
	case finish == "":
		return "stop"
	default:
		return string(finish)
	}
}

// messageOf converts a message. Of binary data, it shows only the type.
func messageOf(m *actors.Message) chatMessage {
	parts := []part{}
	if m.Reasoning != "" {
		parts = append(parts, part{Type: "reasoning", Content: &m.Reasoning})
	}
	if m.Role == actors.RoleTool {
		parts = append(parts, part{Type: "tool_call_response", ID: m.ToolCallID, Response: &m.Text})
	} else if m.Text != "" {
		parts = append(parts, part{Type: "text", Content: &m.Text})
	}
	for i := range m.Parts {
		parts = append(parts, partOf(&m.Parts[i]))
	}
	for _, c := range m.ToolCalls {
		arguments := json.RawMessage(c.Arguments)
		if !json.Valid(arguments) { // the model wrote invalid JSON
			arguments, _ = json.Marshal(c.Arguments)
		}
		parts = append(parts, part{Type: "tool_call", ID: c.ID, Name: c.Name, Arguments: arguments})
	}
	return chatMessage{Role: string(m.Role), Parts: parts}
}

func partOf(p *actors.Part) part {
	modality, _, _ := strings.Cut(p.MIME, "/")
	switch {
	case p.Text != "":
		return part{Type: "text", Content: &p.Text}
	case p.URL != "":
		return part{Type: "uri", URI: p.URL, MIMEType: p.MIME, Modality: modality}
	}
	return part{Type: "blob", MIMEType: p.MIME, Modality: modality, Content: new(string)}
}
