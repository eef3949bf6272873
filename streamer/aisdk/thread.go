package aisdk

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/internal/turn"
)

// thread sends a thread's messages in the form in which a page keeps them.
func (h *Handler) thread(w http.ResponseWriter, req *http.Request, t *turn.Thread) {
	messages, err := h.messages(req.Context(), t)
	if err != nil {
		refuse(w, err)
		return
	}
	body, err := json.Marshal(struct {
		ID       string      `json:"id"`
		Messages []uiMessage `json:"messages"`
	}{t.ID, messages})
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n'))
}

// A uiMessage is a message in the client's form.
type uiMessage struct {
	ID    string   `json:"id"`
	Role  string   `json:"role"`
	Parts []uiPart `json:"parts"`
}

// A uiPart is a part of a message.
type uiPart struct {
	Type       string          `json:"type"`
	Text       *string         `json:"text,omitempty"`
	State      string          `json:"state,omitempty"`
	ToolName   string          `json:"toolName,omitempty"`
	ToolCallID string          `json:"toolCallId,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	ErrorText  string          `json:"errorText,omitempty"`
	Approval   *uiApproval     `json:"approval,omitempty"`

	id string // ID of the text, for chunks that continue it
}

type uiApproval struct {
	ID       string `json:"id"`
	Approved *bool  `json:"approved,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

func (h *Handler) messages(ctx context.Context, t *turn.Thread) (all []uiMessage, err error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	turns, err := t.Threads.Turns(ctx, t.ID, h.options.Turns)
	if err != nil {
		return nil, err
	}
	for i := range turns {
		of, err := h.messagesOf(ctx, &turns[i])
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}

// messagesOf returns a turn's user message and, unless it is empty, its assistant message.
func (h *Handler) messagesOf(ctx context.Context, of *streamer.ThreadTurn) ([]uiMessage, error) {
	l, release, err := h.hub.Open(ctx, of.RunID)
	if err != nil {
		return nil, err
	}
	defer release()
	frames, _, err := l.Frames(l.Begin())
	if err != nil {
		return nil, err
	}
	text, id := h.dash.RedactText(of.Text), of.ID
	if id == "" {
		id = of.RunID + "/user"
	}
	messages := []uiMessage{{id, "user", []uiPart{{Type: "text", Text: &text}}}}
	if parts := assemble(frames); len(parts) > 0 {
		messages = append(messages, uiMessage{of.RunID, "assistant", parts})
	}
	return messages, nil
}

// assemble builds the parts of a message from frames, as the client does.
func assemble(frames []turn.Frame) []uiPart {
	var parts []uiPart
	for i := range frames {
		for data := range bytes.SplitSeq(frames[i].Data, []byte("\n\n")) {
			var c chunk
			if json.Unmarshal(bytes.TrimPrefix(data, []byte("data: ")), &c) == nil {
				parts = add(parts, &c)
			}
		}
	}
	for n := len(parts); n > 0 && parts[n-1].Type == "step-start"; n-- { // remove steps that showed nothing
		parts = parts[:n-1]
	}
	return parts
}

func add(parts []uiPart, c *chunk) []uiPart {
	switch c.Type {
	case "start-step":
		return append(parts, uiPart{Type: "step-start"})
	case "reset-step":
		n := len(parts)
		for n > 0 && parts[n-1].Type != "step-start" {
			n--
		}
		return parts[:n]
	case "text-start", "reasoning-start":
		empty := ""
		return append(parts, uiPart{Type: c.Type[:len(c.Type)-len("-start")], Text: &empty, State: "streaming", id: c.ID})
	case "tool-input-available":
		return append(parts, uiPart{Type: "dynamic-tool", ToolName: c.ToolName, ToolCallID: c.ToolCallID, State: "input-available", Input: c.Input})
	}
	for i := len(parts) - 1; i >= 0; i-- {
		if p := &parts[i]; p.isOf(c) {
			p.add(c)
			break
		}
	}
	return parts
}

// isOf reports whether the chunk belongs to the part.
func (p *uiPart) isOf(c *chunk) bool {
	switch {
	case c.ID != "":
		return p.id == c.ID && p.State == "streaming"
	case c.ToolCallID != "":
		return p.ToolCallID == c.ToolCallID
	}
	return c.ApprovalID != "" && p.Approval != nil && p.Approval.ID == c.ApprovalID
}

func (p *uiPart) add(c *chunk) {
	switch c.Type {
	case "text-delta", "reasoning-delta":
		text := *p.Text + c.Delta
		p.Text = &text
	case "text-end", "reasoning-end":
		p.State = "done"
	case "tool-output-available":
		p.State, p.Output = "output-available", c.Output
	case "tool-output-error":
		p.State, p.ErrorText = "output-error", c.ErrorText
	case "tool-output-denied":
		p.State = "output-denied"
	case "tool-approval-request":
		p.State, p.Approval = "approval-requested", &uiApproval{ID: c.ApprovalID}
	case "tool-approval-response":
		p.State, p.Approval = "approval-responded", &uiApproval{c.ApprovalID, c.Approved, c.Reason}
	}
}
