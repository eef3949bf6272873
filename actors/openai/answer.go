package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/live"
)

// answer puts a model's answer together, of one reply or of the pieces of a
// stream, and emits the pieces as deltas.
type answer struct {
	emit func(live.Delta) // nil without a watcher

	id, model  string
	finish     string // as the service names it
	deltas     bool   // a stream has sent some
	usage      core.Usage
	text       strings.Builder
	reasoning  strings.Builder
	refusal    strings.Builder
	calls      []*callParts
	commentary strings.Builder
	asides     map[int]bool // the items of a stream that are commentary
	parts      []actors.Part
	audio      audio
	citations  []actors.Citation
	logprobs   []actors.Logprob
	keepsRaw   bool
	raw        []json.RawMessage          // the reply, or the events of a stream
	streamed   bool                       // raw is of a stream
	message    map[string]json.RawMessage // fields that go back as they came
	details    []json.RawMessage          // reasoning_details, in pieces
	items      []json.RawMessage          // of the Responses API
	mustGoBack bool                       // an item of it says more than the message does
	doneItems  []json.RawMessage          // of its stream, before the end of it
	said       int                        // bytes that a stream of it has shown
	started    func()                     // called for each piece that a model said
}

// callParts is one tool call.
type callParts struct {
	index, id, name string
	arguments       strings.Builder
	extra           json.RawMessage // extra_content
}

func (a *answer) show(part live.Part, index int, name, text string) {
	if name == "" && text == "" {
		return
	}
	if a.started != nil {
		a.started()
	}
	if a.emit != nil {
		a.emit(live.Delta{Part: part, Index: index, Name: name, Text: text})
	}
}

func (a *answer) say(text string) {
	a.text.WriteString(text)
	a.show(live.PartText, 0, "", text)
}

func (a *answer) think(text string) {
	a.reasoning.WriteString(text)
	a.show(live.PartReasoning, 0, "", text)
}

func (a *answer) refuse(text string) {
	a.refusal.WriteString(text)
	a.show(live.PartText, 0, "", text)
}

// isEmpty reports whether the model has said nothing at all.
func (a *answer) isEmpty() bool {
	return a.text.Len() == 0 && len(a.parts)+len(a.audio.data) == 0 && a.refusal.Len() == 0 && a.reasoning.Len() == 0 && len(a.calls) == 0
}

// response is the answer to req. Wire is where opaque data goes back to.
func (a *answer) response(req actors.Request, wire string) actors.Response {
	message := actors.Assistant(a.text.String())
	message.Reasoning = a.reasoning.String()
	if a.refusal.Len() > 0 && message.Text == "" {
		message.Text, message.Refusal = a.refusal.String(), true
	}
	message.Commentary = a.commentary.String()
	message.ToolCalls = a.toolCalls(req)
	if message.Text == "" && len(message.ToolCalls) == 0 {
		message.Text, message.Commentary = message.Commentary, ""
	}
	message.Parts = a.madeParts(req)
	message.Citations, message.Logprobs = a.citations, a.logprobs
	message.Opaque = a.opaque(wire, message.ToolCalls)
	resp := actors.Response{
		Message: message, Finish: finishOf(a.finish), FinishReason: a.finish,
		ID: a.id, Model: a.model, Usage: a.usage, Raw: a.rawReply(),
	}
	switch {
	case message.Refusal && resp.Finish == actors.FinishStop:
		resp.Finish = actors.FinishRefusal
	case len(message.ToolCalls) > 0 && resp.Finish == actors.FinishStop:
		resp.Finish = actors.FinishToolCalls
	case len(message.ToolCalls) == 0 && resp.Finish == actors.FinishToolCalls:
		resp.Finish = actors.FinishStop // there is nothing to wait for
	}
	return resp
}

// finishOf translates the word of a service; none at all is a stop.
func finishOf(reason string) actors.Finish {
	switch strings.ToLower(reason) {
	case "", "stop", "end_turn", "eos", "stop_sequence", "completed":
		return actors.FinishStop
	case "length", "max_tokens", "max_output_tokens", "model_length":
		return actors.FinishLength
	case "tool_calls", "tool_use", "function_call":
		return actors.FinishToolCalls
	case "content_filter", "safety", "recitation", "prohibited_content", "blocklist", "sensitive":
		return actors.FinishFilter
	case "malformed_function_call", "tool_use_failed", "function_call_filter: malformed_function_call":
		return actors.FinishMalformedCall
	case "error", "failed":
		return actors.FinishError
	}
	return actors.FinishOther
}

// toolCalls gives each call an ID of its own: some services send none, or one
// twice, and then their results could not be distinguished. No ID is given that
// the conversation has already.
func (a *answer) toolCalls(req actors.Request) []actors.ToolCall {
	if len(a.calls) == 0 {
		return nil
	}
	out := make([]actors.ToolCall, len(a.calls))
	seen := make(map[string]bool, len(a.calls))
	var taken map[string]bool
	n := 0
	for i, call := range a.calls {
		for call.id == "" || seen[call.id] {
			if taken == nil {
				taken = a.takenIDs(req)
			}
			n++
			if id := fmt.Sprintf("call_%d", n); !taken[id] {
				call.id = id
			}
		}
		seen[call.id] = true
		out[i] = actors.ToolCall{ID: call.id, Name: call.name, Arguments: call.arguments.String()}
	}
	return out
}

// takenIDs are those of the calls in the conversation and in the answer.
func (a *answer) takenIDs(req actors.Request) map[string]bool {
	taken := make(map[string]bool)
	for _, msg := range req.Messages {
		for _, call := range msg.ToolCalls {
			taken[call.ID] = true
		}
	}
	for _, call := range a.calls {
		taken[call.id] = true
	}
	return taken
}
