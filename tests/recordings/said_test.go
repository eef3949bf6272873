package recordings_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// This file decodes replies in an independent way that is as simple as possible: with maps, and
// without handling invalid replies.

// A said is the content of a reply.
type said struct {
	failed  bool
	message string // error message
	text    string // including refusals
	calls   []call
	finish  string
	usage   usage
}

type call struct{ id, name, arguments string }

type usage struct{ input, output int }

// said returns the content of the reply.
func (r *recording) said() (s said) {
	if r.status >= 400 {
		var body any
		_ = json.Unmarshal(r.body, &body) // if it is not JSON, the message is unknown
		return said{failed: true, message: messageOf(body)}
	}
	documents, key := [][]byte{r.body}, "message"
	if r.isStream() {
		documents, key = nil, "delta"
		for _, line := range bytes.FieldsFunc(r.body, func(c rune) bool { return c == '\n' || c == '\r' }) {
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				documents = append(documents, bytes.TrimSpace(data))
			}
		}
	}
	for _, data := range documents {
		var d map[string]any
		if json.Unmarshal(data, &d) != nil {
			continue // [DONE], or a comment
		}
		if e := at(d, "error"); e != nil {
			s.failed, s.message = true, messageOf(d)
		}
		if r.api == "chat" {
			s.addChat(d, key)
		} else {
			s.addResponse(d)
		}
	}
	s.failed = s.failed || s.finish == "" && s.text == "" && len(s.calls) == 0
	return s
}

// addChat adds a completion, or a piece of one, which is under the key "message" or "delta".
func (s *said) addChat(d map[string]any, key string) {
	s.addUsage(at(d, "usage"), "prompt_tokens", "completion_tokens")
	s.addUsage(at(d, "x_groq", "usage"), "prompt_tokens", "completion_tokens")
	choices, _ := d["choices"].([]any)
	for _, c := range choices {
		choice, _ := c.(map[string]any)
		if n, _ := choice["index"].(float64); n != 0 {
			continue
		}
		if reason := text(choice["finish_reason"]); reason != "" {
			s.finish = reason
		}
		piece := at(choice, key)
		s.text += text(at(piece, "content")) + text(at(piece, "refusal"))
		calls, _ := at(piece, "tool_calls").([]any)
		for n, c := range calls {
			s.addCall(c, n)
		}
		if f := at(piece, "function_call"); f != nil {
			s.addCall(map[string]any{"function": f}, 0)
		}
	}
}

// addCall adds a call or a piece of one. A piece without an index is either a complete call or
// belongs to the nth call of the message.
func (s *said) addCall(c any, n int) {
	piece := call{id: text(at(c, "id")), name: text(at(c, "function", "name")), arguments: text(at(c, "function", "arguments"))}
	if i, ok := at(c, "index").(float64); ok && i >= 0 {
		n = int(i)
	} else if piece.id != "" && !slices.ContainsFunc(s.calls, func(c call) bool { return c.id == piece.id }) {
		n = len(s.calls)
	}
	for len(s.calls) <= n {
		s.calls = append(s.calls, call{})
	}
	known := &s.calls[n]
	if known.id == "" {
		known.id = piece.id
	}
	if known.name == "" {
		known.name = piece.name
	}
	known.arguments += piece.arguments
}

func (s *said) addResponse(d map[string]any) {
	if d["type"] != nil { // an event
		switch d["type"] {
		case "response.completed", "response.incomplete", "response.failed":
			d, _ = d["response"].(map[string]any)
		default:
			return
		}
	}
	s.addUsage(at(d, "usage"), "input_tokens", "output_tokens")
	s.finish = text(d["status"])
	if reason := text(at(d, "incomplete_details", "reason")); reason != "" {
		s.finish = reason
	}
	if s.finish == "failed" {
		s.failed, s.message = true, messageOf(d)
	}
	output, _ := d["output"].([]any)
	for _, item := range output {
		switch text(at(item, "type")) {
		case "message":
			parts, _ := at(item, "content").([]any)
			for _, part := range parts {
				s.text += text(at(part, "text")) + text(at(part, "refusal"))
			}
		case "function_call":
			s.calls = append(s.calls, call{text(at(item, "call_id")), text(at(item, "name")), text(at(item, "arguments"))})
		}
	}
}

func (s *said) addUsage(u any, input, output string) {
	in, _ := at(u, input).(float64)
	out, _ := at(u, output).(float64)
	if in != 0 || out != 0 {
		s.usage = usage{int(in), int(out)}
	}
}

// messageOf returns the error message in the body of a failed reply, or "" if there is none.
func messageOf(body any) string {
	if list, ok := body.([]any); ok && len(list) > 0 {
		body = list[0]
	}
	for _, path := range [][]string{{"error", "message"}, {"message"}, {"error"}, {"detail"}} {
		if message, ok := at(body, path...).(string); ok {
			return message
		}
	}
	return ""
}

// at returns the value at a path of keys in v, or nil if there is none.
func at(v any, path ...string) any {
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

// text returns v as text: a string unchanged, the parts of a list joined, and any other value as
// JSON.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []any:
		var b strings.Builder
		for _, part := range v {
			b.WriteString(text(at(part, "text")))
		}
		return b.String()
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
