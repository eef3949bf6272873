package openaitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Text returns a step that answers with an assistant message.
func Text(text string) Step {
	return Step{player: reply{text: &text}}
}

// ToolCalls returns a step that answers with tool calls and no text. Calls without an ID get the
// IDs call_1, call_2 and so on, in the order in which the server sends them. ToolCalls panics if
// there are no calls.
func ToolCalls(calls ...ToolCall) Step {
	if len(calls) == 0 {
		panic("openaitest: ToolCalls without a call")
	}
	return Step{player: reply{calls: slices.Clone(calls)}}
}

// A ToolCall is a call to a tool. In a script, it is a call that the model
// makes; in a Request, it is a call in the conversation.
type ToolCall struct {
	ID        string // In a script, defaults to the next call_N.
	Name      string
	Arguments string // JSON, unless a script tests malformed arguments.
}

// Call returns a call to the tool with the given name. Arguments of type string, []byte or
// json.RawMessage are sent unchanged, even if malformed; nil is sent as {}; any other value is
// encoded as JSON. Call panics if the value cannot be encoded.
func Call(name string, arguments any) ToolCall {
	switch args := arguments.(type) {
	case nil:
		return ToolCall{Name: name, Arguments: "{}"}
	case string:
		return ToolCall{Name: name, Arguments: args}
	case []byte:
		return ToolCall{Name: name, Arguments: string(args)}
	case json.RawMessage:
		return ToolCall{Name: name, Arguments: string(args)}
	}
	args, err := json.Marshal(arguments)
	if err != nil {
		panic(fmt.Sprintf("openaitest: Call(%q): %v", name, err))
	}
	return ToolCall{Name: name, Arguments: string(args)}
}

// WithText returns a copy of the step that answers with text, in addition to its tool
// calls if there are any. It panics for steps other than Text and ToolCalls.
func (st Step) WithText(text string) Step {
	return st.withReply("WithText", func(r *reply) { r.text = &text })
}

// WithUsage returns a copy of the step that reports the given token counts; the total
// is their sum. The counts default to 0. WithUsage panics for steps other than Text
// and ToolCalls.
func (st Step) WithUsage(prompt, completion int) Step {
	return st.withReply("WithUsage", func(r *reply) { r.prompt, r.completion = prompt, completion })
}

// WithFinishReason returns a copy of the step with another finish reason, such as
// "length" or "content_filter". The default is "tool_calls" if there are tool calls
// and "stop" otherwise. WithFinishReason panics for steps other than Text and
// ToolCalls.
func (st Step) WithFinishReason(reason string) Step {
	return st.withReply("WithFinishReason", func(r *reply) { r.finish = reason })
}

// WithReasoning returns a copy of the step that also sends reasoning text. It panics
// for steps other than Text and ToolCalls.
func (st Step) WithReasoning(text string) Step {
	return st.withReply("WithReasoning", func(r *reply) { r.reasoning = text })
}

// WithRefusal returns a copy of the step in which the model refuses to answer; text is the refusal.
// It panics for steps other than Text and ToolCalls.
func (st Step) WithRefusal(text string) Step {
	return st.withReply("WithRefusal", func(r *reply) { r.refusal, r.text = text, nil })
}

func (st Step) withReply(method string, change func(*reply)) Step {
	r, ok := st.player.(reply)
	if !ok {
		panic(fmt.Sprintf("openaitest: %s on a step that is not Text or ToolCalls: %s", method, st))
	}
	change(&r)
	st.player = r
	return st
}

// A reply is an assistant message.
type reply struct {
	text               *string // nil is sent as null
	calls              []ToolCall
	prompt, completion int
	finish             string
	reasoning, refusal string

	// For streams only.
	chunks   []string // pieces of the text; if nil, each word is a piece
	pace     time.Duration
	breakage streamBreakage
}

func (r reply) play(x *exchange) {
	if x.req.Stream {
		r.stream(x)
		return
	}
	switch r.breakage.how {
	case cut:
		x.truncate()
	case stalled:
		x.stall()
	case failed:
		f := failure{status: http.StatusInternalServerError, Message: r.breakage.message, Type: "server_error"}
		f.code(r.breakage.code)
		f.play(x)
	default:
		x.write(http.StatusOK, r.body(x))
	}
}

func (r reply) String() string {
	if len(r.calls) == 0 {
		if r.text == nil {
			return fmt.Sprintf("refusal %q", short(r.refusal))
		}
		return fmt.Sprintf("text %q", short(*r.text))
	}
	names := make([]string, len(r.calls))
	for i, call := range r.calls {
		names[i] = call.Name
	}
	return "tool calls " + strings.Join(names, ", ")
}

func (r reply) body(x *exchange) []byte {
	if x.req.responses {
		return marshal(r.response(x, x.srv.identify(r.calls)))
	}
	body, err := json.Marshal(wireCompletion{
		ID:      fmt.Sprintf("chatcmpl-%d", x.number),
		Object:  "chat.completion",
		Created: x.req.At.Unix(),
		Model:   x.req.Model,
		Choices: []wireChoice{{
			Message: wireAnswer{
				Role: "assistant", Content: r.text, Reasoning: r.reasoning, Refusal: r.refusal,
				ToolCalls: wireCalls(x.srv.identify(r.calls)),
			},
			FinishReason: r.finishReason(),
		}},
		Usage: wireUsage{r.prompt, r.completion, r.prompt + r.completion},
	})
	if err != nil {
		panic(err) // Cannot happen: it contains only strings and numbers.
	}
	return body
}

func (r reply) finishReason() string {
	switch {
	case r.finish != "":
		return r.finish
	case len(r.calls) > 0:
		return "tool_calls"
	default:
		return "stop"
	}
}

// identify returns the calls, each with an ID.
func (s *Server) identify(calls []ToolCall) []ToolCall {
	calls = slices.Clone(calls)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range calls {
		if calls[i].ID == "" {
			s.calls++
			calls[i].ID = fmt.Sprintf("call_%d", s.calls)
		}
	}
	return calls
}

type wireCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []wireChoice `json:"choices"`
	Usage   wireUsage    `json:"usage"`
}

type wireChoice struct {
	Index        int        `json:"index"`
	Message      wireAnswer `json:"message"`
	FinishReason string     `json:"finish_reason"`
}

type wireAnswer struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	Refusal   string     `json:"refusal,omitempty"`
	ToolCalls []wireCall `json:"tool_calls,omitempty"`
}

type wireCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type wireUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

func wireCalls(calls []ToolCall) []wireCall {
	wire := make([]wireCall, len(calls))
	for i, call := range calls {
		wire[i] = wireCall{ID: call.ID, Type: "function", Function: wireFunction{call.Name, call.Arguments}}
	}
	return wire
}
