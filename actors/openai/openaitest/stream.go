package openaitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// WithChunks returns a copy of the step that streams the given pieces; its text is their
// concatenation. By default, each piece is a word. It panics for steps other than Text and
// ToolCalls.
func (st Step) WithChunks(pieces ...string) Step {
	return st.withReply("WithChunks", func(r *reply) {
		text := strings.Join(pieces, "")
		r.text, r.chunks = &text, slices.Clone(pieces)
	})
}

// WithPace returns a copy of the step that waits for d before each piece of its stream.
// It panics for steps other than Text and ToolCalls.
func (st Step) WithPace(d time.Duration) Step {
	return st.withReply("WithPace", func(r *reply) { r.pace = d })
}

// CutAfter returns a copy of the step that closes the connection after n pieces of its
// stream. A reply that is not streamed is truncated. It panics for steps other than
// Text and ToolCalls.
func (st Step) CutAfter(n int) Step {
	return st.withReply("CutAfter", func(r *reply) { r.breakage = streamBreakage{how: cut, after: n} })
}

// StallAfter returns a copy of the step that, after n pieces of its stream, sends nothing more
// until the client disconnects or the server closes. It panics for steps other than Text and
// ToolCalls.
func (st Step) StallAfter(n int) Step {
	return st.withReply("StallAfter", func(r *reply) { r.breakage = streamBreakage{how: stalled, after: n} })
}

// FailAfter returns a copy of the step that ends its stream with an error after n pieces. A request
// that does not ask for a stream is answered with the error and status 500. FailAfter panics for
// steps other than Text and ToolCalls.
func (st Step) FailAfter(n int, code, message string) Step {
	return st.withReply("FailAfter", func(r *reply) {
		r.breakage = streamBreakage{how: failed, after: n, code: code, message: message}
	})
}

// A streamBreakage describes how a stream breaks off.
type streamBreakage struct {
	how           breakKind
	after         int // number of pieces
	code, message string
}

type breakKind int

const (
	whole breakKind = iota
	cut
	stalled
	failed
)

// A streamer sends the pieces of a stream.
type streamer struct {
	x     *exchange
	r     reply
	sent  int // number of pieces sent
	event int // sequence number of Responses API events
}

func (r reply) stream(x *exchange) {
	h := x.w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "text/event-stream")
	}
	h.Set("X-Request-Id", fmt.Sprintf("req_%d", x.number))
	x.w.WriteHeader(http.StatusOK)
	s := &streamer{x: x, r: r}
	calls := x.srv.identify(r.calls)
	if x.req.responses {
		s.responses(calls)
		return
	}
	s.chat(calls)
}

// piece sends an event with a piece of the answer, or breaks off the stream.
func (s *streamer) piece(v any) {
	if s.r.breakage.how != whole && s.sent == s.r.breakage.after {
		s.breakOff()
	}
	s.x.wait(Step{delay: s.r.pace})
	s.sent++
	s.send("", v)
}

func (s *streamer) breakOff() {
	switch b := s.r.breakage; b.how {
	case stalled:
		s.x.stall()
	case failed:
		f := failure{Message: b.message, Type: "server_error"}
		f.code(b.code)
		if s.x.req.responses {
			s.send("error", map[string]any{"type": "error", "code": b.code, "message": b.message})
		} else {
			s.send("", map[string]any{"error": f})
		}
		panic(http.ErrAbortHandler) // break off the stream
	}
	s.x.hangUp()
}

func (s *streamer) send(name string, v any) {
	if name != "" {
		_, _ = fmt.Fprintf(s.x.w, "event: %s\n", name)
	}
	_, _ = fmt.Fprintf(s.x.w, "data: %s\n\n", marshal(v))
	_ = http.NewResponseController(s.x.w).Flush() // A disconnected client is not an error.
}

// marshal encodes values that consist of strings and numbers.
func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// pieces returns the pieces of the text.
func (r reply) pieces() []string {
	switch {
	case r.chunks != nil:
		return r.chunks
	case r.text == nil:
		return nil
	}
	return words(*r.text)
}

func words(text string) []string { return strings.SplitAfter(text, " ") }

func (s *streamer) chat(calls []ToolCall) {
	x, r := s.x, s.r
	choice := func(delta map[string]any, finish any) map[string]any {
		return map[string]any{
			"id": fmt.Sprintf("chatcmpl-%d", x.number), "object": "chat.completion.chunk", "created": x.req.At.Unix(), "model": x.req.Model,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}},
		}
	}
	s.send("", choice(map[string]any{"role": "assistant", "content": ""}, nil))
	if r.reasoning != "" {
		for _, word := range words(r.reasoning) {
			s.piece(choice(map[string]any{"reasoning_content": word}, nil))
		}
	}
	if r.refusal != "" {
		s.piece(choice(map[string]any{"refusal": r.refusal}, nil))
	}
	for _, text := range r.pieces() {
		s.piece(choice(map[string]any{"content": text}, nil))
	}
	for i, call := range calls {
		s.piece(choice(map[string]any{"tool_calls": []any{map[string]any{
			"index": i, "id": call.ID, "type": "function", "function": map[string]any{"name": call.Name, "arguments": ""},
		}}}, nil))
		for _, half := range halves(call.Arguments) {
			s.piece(choice(map[string]any{"tool_calls": []any{map[string]any{
				"index": i, "function": map[string]any{"arguments": half},
			}}}, nil))
		}
	}
	s.piece(choice(map[string]any{}, r.finishReason()))
	s.send("", map[string]any{
		"id": fmt.Sprintf("chatcmpl-%d", x.number), "object": "chat.completion.chunk", "created": x.req.At.Unix(), "model": x.req.Model,
		"choices": []any{}, "usage": wireUsage{r.prompt, r.completion, r.prompt + r.completion},
	})
	_, _ = fmt.Fprint(x.w, "data: [DONE]\n\n")
}

// halves splits text into two halves, unless it is too short.
func halves(text string) []string {
	if len(text) < 2 {
		return []string{text}
	}
	at := len(text) / 2
	for at < len(text) && text[at]&0xC0 == 0x80 { // inside a UTF-8 sequence
		at++
	}
	return []string{text[:at], text[at:]}
}
