package agui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/reprise-go/reprise/internal/misfit"
	"github.com/reprise-go/reprise/streamer/internal/turn"
)

// An input contains the fields of a RunAgentInput that are used here.
type input struct {
	ThreadID string            `json:"threadId"`
	RunID    string            `json:"runId"`
	Messages []json.RawMessage `json:"messages"`
	Tools    []json.RawMessage `json:"tools"`
	Resume   []resume          `json:"resume"`

	messages []message
}

// A message is a message of any role.
type message struct {
	ID      string          `json:"id"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// A resume is the answer to an interrupt.
type resume struct {
	InterruptID string          `json:"interruptId"`
	Status      string          `json:"status"`
	Payload     json.RawMessage `json:"payload"`
}

// decode decodes a request body.
func decode(data []byte) (*input, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the body is not UTF-8")
	}
	var in input
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("the body is not a RunAgentInput: %w", misfit.Explain(err))
	}
	switch {
	case in.ThreadID == "":
		return nil, errors.New("threadId is required")
	case in.RunID == "":
		return nil, errors.New("runId is required")
	case len(in.Tools) > 0:
		return nil, errors.New("tools lists frontend tools, which this server's agents cannot call; leave it empty")
	}
	in.messages = make([]message, len(in.Messages))
	for i, raw := range in.Messages {
		m := &in.messages[i]
		in.Messages[i] = compact(raw)
		if err := json.Unmarshal(raw, m); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, misfit.Explain(err))
		}
		switch m.Role {
		case "user", "assistant", "tool", "reasoning", "system", "developer", "activity":
		default:
			return nil, fmt.Errorf("message %d has the role %q; want a role such as user or assistant", i+1, m.Role)
		}
		if m.ID == "" {
			return nil, fmt.Errorf("message %d has no id", i+1)
		}
	}
	for i, r := range in.Resume {
		switch {
		case r.InterruptID == "":
			return nil, fmt.Errorf("resume %d has no interruptId", i+1)
		case r.Status != "resolved" && r.Status != "cancelled":
			return nil, fmt.Errorf("resume %d has the status %q; want resolved or cancelled", i+1, r.Status)
		}
	}
	return &in, nil
}

// compact returns the JSON without insignificant space. Snapshots contain the messages, and a line
// break would end the line of an event.
func compact(raw json.RawMessage) json.RawMessage {
	if !bytes.ContainsAny(raw, "\r\n") {
		return raw
	}
	var b bytes.Buffer
	_ = json.Compact(&b, raw) // it was decoded, so it is valid
	return b.Bytes()
}

// newMessage returns the last message if it is from the user, and nil otherwise.
func (in *input) newMessage() *message {
	if n := len(in.messages); n > 0 && in.messages[n-1].Role == "user" {
		return &in.messages[n-1]
	}
	return nil
}

// prompt returns the text of a user's message and its files, which are a JSON array of actors.Part.
func (m *message) prompt() (text string, files json.RawMessage, err error) {
	if json.Unmarshal(m.Content, &text) == nil {
		if text == "" {
			return "", nil, errors.New("the message has no text")
		}
		return text, nil, nil
	}
	var parts []struct {
		Type   string `json:"type"`
		Text   string `json:"text"`
		Source struct {
			Type  string `json:"type"`
			Value string `json:"value"`
			MIME  string `json:"mimeType"`
		} `json:"source"`
	}
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return "", nil, errors.New("the content of the message is neither a string nor an array of parts")
	}
	var texts []string
	var all []turn.File
	for i, p := range parts {
		switch {
		case p.Type == "text":
			texts = append(texts, p.Text)
		case p.Source.Type == "data":
			all = append(all, turn.File{MIME: p.Source.MIME, Data: p.Source.Value})
		case p.Source.Type == "url":
			all = append(all, turn.File{MIME: p.Source.MIME, URL: p.Source.Value})
		default:
			return "", nil, fmt.Errorf("part %d of the message has the type %q; want text, or a type whose source is data or a url", i+1, p.Type)
		}
	}
	return turn.Prompt(texts, all)
}

// value returns the answer contained in a resume. In the protocol, the changed arguments of an
// approved call are called editedArgs.
func (r *resume) value(approval bool) (json.RawMessage, error) {
	if r.Status == "cancelled" { // cancelling any other question cancels the turn
		return json.RawMessage(`{"approved":false,"reason":"cancelled"}`), nil
	}
	if len(bytes.TrimSpace(r.Payload)) == 0 {
		return nil, fmt.Errorf("the answer to %q has no payload", r.InterruptID)
	}
	if !approval {
		return r.Payload, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(r.Payload, &fields); err != nil || fields == nil {
		return nil, fmt.Errorf(`the payload for %q is not an object; want an object such as {"approved": true}`, r.InterruptID)
	}
	if edited, ok := fields["editedArgs"]; ok {
		delete(fields, "editedArgs")
		fields["arguments"] = edited
	}
	return json.Marshal(fields)
}
