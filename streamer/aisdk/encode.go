package aisdk

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/reprise-go/reprise/streamer/internal/turn"
)

// A chunk is a chunk of the UI message stream v1. Unset fields are omitted, because clients
// reject null.
type chunk struct {
	Type         string          `json:"type"`
	MessageID    string          `json:"messageId,omitempty"`
	ID           string          `json:"id,omitempty"`
	Delta        string          `json:"delta,omitempty"`
	ToolCallID   string          `json:"toolCallId,omitempty"`
	ToolName     string          `json:"toolName,omitempty"`
	Dynamic      bool            `json:"dynamic,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	Output       json.RawMessage `json:"output,omitempty"`
	ErrorText    string          `json:"errorText,omitempty"`
	ApprovalID   string          `json:"approvalId,omitempty"`
	Approved     *bool           `json:"approved,omitempty"`
	Reason       string          `json:"reason,omitempty"`
	FinishReason string          `json:"finishReason,omitempty"`
	Data         any             `json:"data,omitempty"` // in a data part: a *turn.Retry or JSON
	Transient    bool            `json:"transient,omitempty"`
}

// done is sent after the last chunk.
const done = "data: [DONE]\n\n"

func appendChunk(b []byte, c *chunk) []byte {
	data, err := json.Marshal(c)
	if err != nil { // the output is not valid JSON
		data, _ = json.Marshal(chunk{Type: "error", ErrorText: "a part of the answer cannot be encoded as JSON"})
	}
	return append(append(append(b, "data: "...), data...), "\n\n"...)
}

// questionTool is the name of the tool that represents a run's question, unless the question asks
// for approval. The page answers the question as if it were a call to one of the page's own tools.
const questionTool = "question"

// question is the input of questionTool.
type question struct {
	Text    string          `json:"text"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	Due     *time.Time      `json:"due,omitempty"`
	Refused string          `json:"refused,omitempty"`
}

// An encoder encodes a run's events as frames.
type encoder struct {
	runID     string
	parts     int    // number of parts begun so far; their numbers are their IDs
	text      string // the ID of the open part; empty if none is open
	reasoning string
	inStep    bool
	answered  bool           // the step has ended, except that results of its tool calls may follow
	asked     map[string]int // how many times each open question was asked; 0 once it is answered
	times     map[string]int // how many times each question was asked
}

func newEncoder(runID string) turn.Encoder {
	return &encoder{runID: runID, asked: make(map[string]int), times: make(map[string]int)}
}

// Encode implements [turn.Encoder].
func (c *encoder) Encode(e *turn.Event) turn.Frame {
	f := turn.Frame{Kind: e.Kind, Asked: e.Asked}
	for _, part := range c.chunks(e) {
		f.Data = appendChunk(f.Data, &part)
	}
	for _, part := range c.tail(e) {
		f.Tail = appendChunk(f.Tail, &part)
	}
	if f.Tail != nil {
		f.Tail = append(f.Tail, done...)
	}
	return f
}

func (c *encoder) chunks(e *turn.Event) []chunk {
	switch e.Kind {
	case turn.StepBegins:
		return c.beginStep()
	case turn.Text:
		return c.textChunks(&c.text, "text", e.Text)
	case turn.Reasoning:
		return c.textChunks(&c.reasoning, "reasoning", e.Text)
	case turn.StepEnds:
		c.answered = true
		return c.end()
	case turn.StepVoid:
		c.text, c.reasoning = "", ""
		return []chunk{{Type: "reset-step"}}
	case turn.TurnVoid: // later parts begin with their own step, for clients that begin there
		c.text, c.reasoning = "", ""
		return c.endStep([]chunk{{Type: "reset-step"}})
	case turn.ToolCalled:
		return []chunk{{Type: "tool-input-available", ToolCallID: e.Call, ToolName: e.Tool, Input: e.Data, Dynamic: true}}
	case turn.ToolResult:
		return []chunk{{Type: "tool-output-available", ToolCallID: e.Call, Output: e.Data}}
	case turn.ToolFailed:
		return []chunk{{Type: "tool-output-error", ToolCallID: e.Call, ErrorText: e.Text}}
	case turn.ToolDenied:
		return []chunk{{Type: "tool-output-denied", ToolCallID: e.Call}}
	case turn.RetryPlanned, turn.RetryOver:
		return []chunk{{Type: "data-retry", ID: e.Retry.ID, Data: e.Retry, Transient: true}}
	case turn.Values:
		return []chunk{{Type: "data-values", ID: "values", Data: e.Data, Transient: true}}
	case turn.Answered:
		return c.answer(&e.Asked[0], e.Data)
	case turn.Paused:
		return c.pause(e.Asked)
	case turn.Completed, turn.Failed, turn.Stopped:
		return c.endStep(c.end())
	}
	return nil
}

func (c *encoder) tail(e *turn.Event) []chunk {
	switch e.Kind {
	case turn.Completed:
		return []chunk{{Type: "finish", FinishReason: "stop"}}
	case turn.Paused:
		return []chunk{{Type: "finish", FinishReason: "tool-calls"}}
	case turn.Failed:
		return []chunk{{Type: "error", ErrorText: e.Text}}
	case turn.Stopped:
		return []chunk{{Type: "abort", Reason: e.Text}}
	}
	return nil
}

// beginStep begins a step, unless the current step continues because its model is being asked
// again.
func (c *encoder) beginStep() (all []chunk) {
	if c.inStep && !c.answered {
		return nil
	}
	all = c.endStep(nil)
	c.inStep = true
	return append(all, chunk{Type: "start-step"})
}

// endStep ends the current step, if there is one.
func (c *encoder) endStep(all []chunk) []chunk {
	if c.inStep {
		all = append(all, chunk{Type: "finish-step"})
	}
	c.inStep, c.answered = false, false
	return all
}

func (c *encoder) textChunks(open *string, kind, text string) (all []chunk) {
	if *open == "" {
		c.parts++
		*open = strconv.Itoa(c.parts)
		all = append(all, chunk{Type: kind + "-start", ID: *open})
	}
	return append(all, chunk{Type: kind + "-delta", ID: *open, Delta: text})
}

func (c *encoder) end() (all []chunk) {
	if c.reasoning != "" {
		all = append(all, chunk{Type: "reasoning-end", ID: c.reasoning})
	}
	if c.text != "" {
		all = append(all, chunk{Type: "text-end", ID: c.text})
	}
	c.text, c.reasoning = "", ""
	return all
}

// pause asks the questions that have not been asked yet. Questions that do not ask for approval are
// sent in their own step, so that a page knows when all of them are answered.
func (c *encoder) pause(asked []turn.Question) (all []chunk) {
	var questions []chunk
	for _, q := range asked {
		if c.asked[q.ID] > 0 && q.Refused == "" {
			continue
		}
		c.asked[q.ID]++
		c.times[q.ID]++
		if q.Approval {
			all = append(all, chunk{Type: "tool-approval-request", ApprovalID: q.ID, ToolCallID: q.Call})
			continue
		}
		questions = append(questions, chunk{
			Type: "tool-input-available", ToolCallID: c.callOf(q.ID), ToolName: questionTool, Dynamic: true, Input: inputOf(&q),
		})
	}
	all = append(c.end(), c.endStep(all)...)
	if len(questions) > 0 {
		all = append(all, chunk{Type: "start-step"})
		all = append(append(all, questions...), chunk{Type: "finish-step"})
	}
	return all
}

// callOf returns the ID of the call to questionTool that represents a question.
func (c *encoder) callOf(question string) string {
	if n := c.times[question]; n > 1 {
		return question + "~" + strconv.Itoa(n)
	}
	return question
}

func inputOf(q *turn.Question) json.RawMessage {
	in := question{Text: q.Text, Schema: q.Schema, Refused: q.Refused}
	if !q.Due.IsZero() {
		in.Due = &q.Due
	}
	data, err := json.Marshal(in)
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return data
}

// answer shows the answer to a question that was asked in this stream.
func (c *encoder) answer(q *turn.Question, value json.RawMessage) []chunk {
	if c.asked[q.ID] == 0 {
		return nil
	}
	delete(c.asked, q.ID)
	if !q.Approval {
		return []chunk{{Type: "tool-output-available", ToolCallID: c.callOf(q.ID), Output: value}}
	}
	var answer struct {
		Approved bool   `json:"approved"`
		Reason   string `json:"reason"`
	}
	if json.Unmarshal(value, &answer) != nil {
		return nil
	}
	return []chunk{{Type: "tool-approval-response", ApprovalID: q.ID, Approved: &answer.Approved, Reason: answer.Reason}}
}
