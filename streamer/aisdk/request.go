package aisdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/reprise-go/reprise/internal/misfit"
	"github.com/reprise-go/reprise/streamer/internal/turn"
)

// A request is what a client posts. Unknown fields belong to the page and are ignored.
type request struct {
	ID       string    `json:"id"` // the chat's ID
	Messages []message `json:"messages"`
	Trigger  string    `json:"trigger"`
}

// A message is a UIMessage.
type message struct {
	ID    string `json:"id"`
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

// A part is one part of a message's content, with the fields used here.
type part struct {
	Type       string          `json:"type"`
	Text       string          `json:"text"`
	MediaType  string          `json:"mediaType"`
	URL        string          `json:"url"`
	Filename   string          `json:"filename"`
	State      string          `json:"state"`
	ToolCallID string          `json:"toolCallId"`
	Output     json.RawMessage `json:"output"`
	Approval   *approval       `json:"approval"`
}

type approval struct {
	ID       string `json:"id"`
	Approved *bool  `json:"approved"`
	Reason   string `json:"reason"`
}

// An answer is the answer to a question.
type answer struct {
	question string // the question's ID on the wire
	value    json.RawMessage
}

// decode decodes a request body.
func decode(data []byte) (*request, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the body is not UTF-8")
	}
	var r request
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf(`the body is not a request from useChat, such as {"id": "chat", "messages": […]}: %w`, misfit.Explain(err))
	}
	switch {
	case r.ID == "":
		return nil, errors.New("the field id is required; it is the ID of the chat")
	case r.Trigger == "regenerate-message":
		return nil, errors.New("an answer cannot be regenerated: send the message again, or fork the run")
	case r.Trigger != "" && r.Trigger != "submit-message":
		return nil, fmt.Errorf("trigger is %q; want submit-message", r.Trigger)
	case len(r.Messages) == 0:
		return nil, errors.New("messages is empty; want at least the new message")
	}
	for i := range r.Messages {
		if m := &r.Messages[i]; m.Role != "user" && m.Role != "assistant" && m.Role != "system" {
			return nil, fmt.Errorf("message %d has the role %q; want user, assistant or system", i+1, m.Role)
		}
	}
	if last := r.last(); last.Role == "system" {
		return nil, errors.New("the last message has the role system; want a user's message, or an assistant's message with answers")
	}
	return &r, nil
}

func (r *request) last() *message { return &r.Messages[len(r.Messages)-1] }

// prompt returns the text of a user's message and its files, which are a JSON array of actors.Part.
func (m *message) prompt() (text string, files json.RawMessage, err error) {
	var texts []string
	var all []turn.File
	for i, p := range m.Parts {
		switch p.Type {
		case "text":
			texts = append(texts, p.Text)
		case "file":
			f := turn.File{MIME: p.MediaType, URL: p.URL, Name: p.Filename}
			if rest, isData := strings.CutPrefix(p.URL, "data:"); isData {
				head, data, found := strings.Cut(rest, ",")
				if !found || !strings.HasSuffix(head, ";base64") {
					return "", nil, fmt.Errorf("part %d of the message has a data URL that is not base64", i+1)
				}
				f.URL, f.Data = "", data
			}
			all = append(all, f)
		default:
			if !strings.HasPrefix(p.Type, "data-") { // data parts belong to the page
				return "", nil, fmt.Errorf("part %d of the message has the type %q; want text or file", i+1, p.Type)
			}
		}
	}
	return turn.Prompt(texts, all)
}

// answers returns the answers in an assistant's message: the decisions on approvals, with their
// reasons, and the outputs of calls to questionTool. Outputs of other tool calls are ignored.
func (m *message) answers() (all []answer, err error) {
	for _, p := range m.Parts {
		switch {
		case p.State == "approval-responded" && p.Approval != nil:
			if p.Approval.Approved == nil {
				return nil, fmt.Errorf("the approval %q has no decision: approved is missing", p.Approval.ID)
			}
			value, err := json.Marshal(struct {
				Approved bool   `json:"approved"`
				Reason   string `json:"reason,omitempty"`
			}{*p.Approval.Approved, p.Approval.Reason})
			if err != nil {
				return nil, err
			}
			all = append(all, answer{p.Approval.ID, value})
		case p.State == "output-available" && len(bytes.TrimSpace(p.Output)) > 0:
			all = append(all, answer{questionOf(p.ToolCallID), p.Output})
		}
	}
	return all, nil
}

// questionOf returns the ID of the question that a call to questionTool represents. If the question
// was asked more than once, the call's ID ends with a number that is not part of the question's ID.
func questionOf(call string) string {
	if i := strings.LastIndexByte(call, '~'); i > strings.LastIndexByte(call, '?') {
		return call[:i]
	}
	return call
}
