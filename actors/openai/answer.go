package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
)

// An answer assembles a model's answer from a complete reply or from the events of a
// stream. It emits the pieces as deltas.
type answer struct {
	emit func(live.Delta) // nil if nobody watches

	id, model       string
	finish          string // the service's finish reason
	deltas          bool   // the stream has sent deltas
	usage           core.Usage
	text            strings.Builder
	reasoning       strings.Builder
	refusal         strings.Builder
	calls           []*callParts
	commentary      strings.Builder
	commentaryItems map[int]bool // indexes of stream items that are commentary
	parts           []actors.Part
	audio           audio
	citations       []actors.Citation
	logprobs        []actors.Logprob
	keepsRaw        bool
	raw             []json.RawMessage          // the reply, or the events of a stream
	streamed        bool                       // raw holds events of a stream
	message         map[string]json.RawMessage // fields that must be sent back unchanged
	details         []json.RawMessage          // pieces of reasoning_details
	items           []json.RawMessage          // output items of the Responses API
	needsItems      bool                       // items contain more than the message does, and must be sent back
	doneItems       []json.RawMessage          // items completed by a Responses stream before its last event
	streamedBytes   int                        // bytes received in deltas of a Responses stream
	started         func()                     // called for each piece of the answer
}

// callParts holds the parts of one tool call.
type callParts struct {
	index, id, name string
	arguments       strings.Builder
	extra           json.RawMessage // extra_content
}

func (a *answer) emitDelta(part live.Part, index int, text string) {
	a.emitPiece(live.Delta{Part: part, Index: index, Text: text})
}

func (a *answer) emitPiece(d live.Delta) {
	if d.Name == "" && d.Text == "" {
		return
	}
	if a.started != nil {
		a.started()
	}
	if a.emit != nil {
		a.emit(d)
	}
}

func (a *answer) addText(text string) {
	a.text.WriteString(text)
	a.emitDelta(live.PartText, 0, text)
}

func (a *answer) addReasoning(text string) {
	a.reasoning.WriteString(text)
	a.emitDelta(live.PartReasoning, 0, text)
}

func (a *answer) addRefusal(text string) {
	a.refusal.WriteString(text)
	a.emitDelta(live.PartText, 0, text)
}

// isEmpty reports whether the model has produced nothing at all.
func (a *answer) isEmpty() bool {
	return a.text.Len() == 0 && len(a.parts)+len(a.audio.data) == 0 && a.refusal.Len() == 0 && a.reasoning.Len() == 0 && len(a.calls) == 0
}

// response returns the answer to req. wire identifies the API and the service to which
// opaque data is sent back.
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
	message.Parts = a.outputParts(req)
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
		resp.Finish = actors.FinishStop // there are no calls to wait for
	}
	return resp
}

// finishOf translates a service's finish reason. An empty reason means "stop".
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

// toolCalls returns the tool calls, each with a unique ID, so that every result can be matched to
// its call: some services send no IDs, or send the same ID twice. A newly assigned ID does not
// occur anywhere else in the conversation.
func (a *answer) toolCalls(req actors.Request) []actors.ToolCall {
	if len(a.calls) == 0 {
		return nil
	}
	out := make([]actors.ToolCall, len(a.calls))
	seen := make(map[string]bool, len(a.calls))
	var used map[string]bool
	n := 0
	for i, call := range a.calls {
		for call.id == "" || seen[call.id] {
			if used == nil {
				used = a.usedIDs(req)
			}
			n++
			if id := fmt.Sprintf("call_%d", n); !used[id] {
				call.id = id
			}
		}
		seen[call.id] = true
		out[i] = actors.ToolCall{ID: call.id, Name: call.name, Arguments: call.arguments.String()}
	}
	return out
}

// usedIDs returns the IDs of the calls in the conversation and in the answer.
func (a *answer) usedIDs(req actors.Request) map[string]bool {
	used := make(map[string]bool)
	for _, msg := range req.Messages {
		for _, call := range msg.ToolCalls {
			used[call.ID] = true
		}
	}
	for _, call := range a.calls {
		used[call.id] = true
	}
	return used
}
