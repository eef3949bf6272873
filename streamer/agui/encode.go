package agui

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/streamer/internal/turn"
)

// An event is an AG-UI 1.0 event. Unset fields are omitted, because clients reject null.
type event struct {
	Type            string          `json:"type"`
	ThreadID        string          `json:"threadId,omitempty"`
	RunID           string          `json:"runId,omitempty"`
	ProtocolVersion string          `json:"protocolVersion,omitempty"`
	MessageID       string          `json:"messageId,omitempty"`
	ParentMessageID string          `json:"parentMessageId,omitempty"`
	Role            string          `json:"role,omitempty"`
	Delta           string          `json:"delta,omitempty"`
	ToolCallID      string          `json:"toolCallId,omitempty"`
	ToolCallName    string          `json:"toolCallName,omitempty"`
	Content         *string         `json:"content,omitempty"`
	Name            string          `json:"name,omitempty"`
	Value           *turn.Retry     `json:"value,omitempty"`
	Snapshot        json.RawMessage `json:"snapshot,omitempty"`
	Outcome         *outcome        `json:"outcome,omitempty"`
	Message         string          `json:"message,omitempty"`
	Code            string          `json:"code,omitempty"`
}

// An outcome tells how a run, in the protocol's sense, finished.
type outcome struct {
	Type       string      `json:"type"` // success, interrupt or cancelled
	Interrupts []interrupt `json:"interrupts,omitempty"`
}

// An interrupt is the protocol's form of a question.
type interrupt struct {
	ID             string          `json:"id"`
	Reason         string          `json:"reason"`
	Message        string          `json:"message,omitempty"`
	ToolCallID     string          `json:"toolCallId,omitempty"`
	ResponseSchema json.RawMessage `json:"responseSchema,omitempty"`
	Metadata       map[string]any  `json:"metadata,omitempty"`
}

func appendEvent(b []byte, e *event) []byte {
	data, err := json.Marshal(e)
	if err != nil { // one of the values is not valid JSON
		data, _ = json.Marshal(event{Type: "RUN_ERROR", Message: "a part of the answer cannot be encoded as JSON", Code: "encoding"})
	}
	return append(append(append(b, "data: "...), data...), "\n\n"...)
}

// A snapshotMessage is a message in a snapshot.
type snapshotMessage struct {
	ID         string     `json:"id"`
	Role       string     `json:"role"`
	Content    *string    `json:"content,omitempty"`
	ToolCalls  []toolCall `json:"toolCalls,omitempty"`
	ToolCallID string     `json:"toolCallId,omitempty"`

	text strings.Builder
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// An encoder encodes a run's events as frames.
type encoder struct {
	runID     string
	messages  []*snapshotMessage
	text      string // ID of the open message; empty if none is open
	reasoning string
	began     int // the number of messages when the step began
}

func newEncoder(runID string) turn.Encoder { return &encoder{runID: runID} }

// Encode implements [turn.Encoder].
func (c *encoder) Encode(e *turn.Event) turn.Frame {
	f := turn.Frame{Kind: e.Kind, Asked: e.Asked}
	for _, one := range c.events(e) {
		f.Data = appendEvent(f.Data, &one)
	}
	switch e.Kind {
	case turn.StepVoid, turn.TurnVoid, turn.Paused:
		f.Snapshot = true
	}
	if f.Snapshot || e.Kind.IsEnd() {
		f.Messages = c.snapshot(f.Snapshot)
	}
	if e.Kind.IsEnd() {
		f.Tail = appendEvent(nil, c.tail(e))
	}
	return f
}

func (c *encoder) events(e *turn.Event) []event {
	switch e.Kind {
	case turn.StepBegins:
		c.began = len(c.messages)
	case turn.Text:
		return c.textEvents(e.Step, e.Text)
	case turn.Reasoning:
		return c.reasoningEvents(e.Step, e.Text)
	case turn.StepVoid:
		all := c.end()
		c.withdraw(c.began)
		if m := c.find(reasoningID(e.Step)); m != nil {
			m.text.Reset()
		}
		return all
	case turn.TurnVoid:
		all := c.end()
		c.withdraw(0)
		return all
	case turn.ToolCalled:
		return c.call(e)
	case turn.ToolResult:
		return c.result(e, text(e.Data))
	case turn.ToolFailed, turn.ToolDenied:
		return c.result(e, "error: "+e.Text)
	case turn.RetryPlanned, turn.RetryOver:
		return []event{{Type: "CUSTOM", Name: "retry", Value: e.Retry}}
	case turn.Values:
		return []event{{Type: "STATE_SNAPSHOT", Snapshot: e.Data}}
	case turn.StepEnds, turn.Paused, turn.Completed, turn.Failed, turn.Stopped:
		return c.end()
	}
	return nil
}

// tail returns the last event of a response. The reader adds the IDs of its thread and run.
func (c *encoder) tail(e *turn.Event) *event {
	switch e.Kind {
	case turn.Failed:
		return &event{Type: "RUN_ERROR", Message: e.Text, Code: cmp.Or(e.Reason, "failed")}
	case turn.Stopped:
		return &event{Type: "RUN_FINISHED", Outcome: &outcome{Type: "cancelled"}}
	case turn.Paused:
		o := &outcome{Type: "interrupt"}
		for i := range e.Asked {
			o.Interrupts = append(o.Interrupts, c.interrupt(&e.Asked[i]))
		}
		return &event{Type: "RUN_FINISHED", Outcome: o}
	}
	return &event{Type: "RUN_FINISHED", Outcome: &outcome{Type: "success"}}
}

// callID returns a tool call's ID in the thread. It contains the run's ID, because a model may
// reuse an ID in another turn, and clients merge calls with the same ID.
func (c *encoder) callID(id string) string { return c.runID + "/" + id }

// interrupt returns a question as an interrupt. It does not set expiresAt, because a client would
// refuse to answer after that time, even though the question stays open until a person or its
// default answers it.
func (c *encoder) interrupt(q *turn.Question) interrupt {
	in := interrupt{ID: q.ID, Reason: "input_required", Message: q.Text, ResponseSchema: q.Schema}
	if q.Call != "" {
		in.ToolCallID = c.callID(q.Call)
	}
	if q.Approval {
		in.Reason = "tool_call"
	}
	metadata := make(map[string]any)
	if !q.Due.IsZero() {
		metadata["due"] = q.Due.UTC().Format(time.RFC3339)
	}
	if q.Refused != "" {
		metadata["refused"] = q.Refused
	}
	if len(metadata) > 0 {
		in.Metadata = metadata
	}
	return in
}

func (c *encoder) textEvents(id, text string) (all []event) {
	if c.text != id {
		all = c.end()
		c.text = id
		c.messages = append(c.messages, &snapshotMessage{ID: id, Role: "assistant"})
		all = append(all, event{Type: "TEXT_MESSAGE_START", MessageID: id, Role: "assistant"})
	}
	c.find(id).text.WriteString(text)
	return append(all, event{Type: "TEXT_MESSAGE_CONTENT", MessageID: id, Delta: text})
}

// reasoningID returns the message ID for a step's thoughts. All attempts have the same ID,
// because clients keep thoughts that a snapshot omits.
func reasoningID(step string) string { return step[:strings.LastIndexByte(step, '.')] + "/thoughts" }

func (c *encoder) reasoningEvents(step, text string) (all []event) {
	id := reasoningID(step)
	if c.reasoning != id {
		all = c.end()
		c.reasoning = id
		if c.find(id) == nil {
			c.messages = append(c.messages, &snapshotMessage{ID: id, Role: "reasoning"})
		}
		all = append(all, event{Type: "REASONING_START", MessageID: id}, event{Type: "REASONING_MESSAGE_START", MessageID: id, Role: "reasoning"})
	}
	c.find(id).text.WriteString(text)
	return append(all, event{Type: "REASONING_MESSAGE_CONTENT", MessageID: id, Delta: text})
}

func (c *encoder) find(id string) *snapshotMessage {
	for i := len(c.messages) - 1; i >= 0; i-- {
		if c.messages[i].ID == id {
			return c.messages[i]
		}
	}
	return nil
}

func (c *encoder) end() (all []event) {
	if c.reasoning != "" {
		all = append(all, event{Type: "REASONING_MESSAGE_END", MessageID: c.reasoning}, event{Type: "REASONING_END", MessageID: c.reasoning})
	}
	if c.text != "" {
		all = append(all, event{Type: "TEXT_MESSAGE_END", MessageID: c.text})
	}
	c.text, c.reasoning = "", ""
	return all
}

// withdraw removes the messages from the given index on. Withdrawn thoughts stay in the snapshot,
// but without text. If they were omitted, clients would keep them with their text.
func (c *encoder) withdraw(from int) {
	kept := c.messages[:from:from]
	for _, m := range c.messages[from:] {
		if m.Role == "reasoning" {
			kept = append(kept, &snapshotMessage{ID: m.ID, Role: m.Role})
		}
	}
	c.messages = kept
}

func (c *encoder) call(e *turn.Event) []event {
	m := c.find(e.Step)
	if m == nil { // the model's answer contains no text
		m = &snapshotMessage{ID: e.Step, Role: "assistant"}
		c.messages = append(c.messages, m)
	}
	id := c.callID(e.Call)
	call := toolCall{ID: id, Type: "function"}
	call.Function.Name, call.Function.Arguments = e.Tool, string(e.Data)
	m.ToolCalls = append(m.ToolCalls, call)
	return []event{
		{Type: "TOOL_CALL_START", ToolCallID: id, ToolCallName: e.Tool, ParentMessageID: e.Step},
		{Type: "TOOL_CALL_ARGS", ToolCallID: id, Delta: string(e.Data)},
		{Type: "TOOL_CALL_END", ToolCallID: id},
	}
}

func (c *encoder) result(e *turn.Event, content string) []event {
	id := c.callID(e.Call)
	m := &snapshotMessage{ID: id, Role: "tool", ToolCallID: id}
	m.text.WriteString(content)
	c.messages = append(c.messages, m)
	return []event{{Type: "TOOL_CALL_RESULT", MessageID: id, ToolCallID: id, Content: &content, Role: "tool"}}
}

// text returns an output as the text of a message: strings are returned unchanged, and anything
// else as JSON.
func text(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	return string(data)
}

// snapshot returns the turn's messages as JSON, separated by commas. If withdrawn is true, it
// includes withdrawn thoughts, for clients that have already received them.
func (c *encoder) snapshot(withdrawn bool) []byte {
	var b bytes.Buffer
	for _, m := range c.messages {
		if m.Role == "reasoning" && m.text.Len() == 0 && !withdrawn {
			continue
		}
		one := snapshotMessage{ID: m.ID, Role: m.Role, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID}
		if content := m.text.String(); content != "" || m.Role != "assistant" {
			one.Content = &content
		}
		data, err := json.Marshal(&one)
		if err != nil {
			data = []byte(`{"id":` + strconv.Quote(m.ID) + `,"role":"assistant"}`)
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.Write(data)
	}
	return b.Bytes()
}
