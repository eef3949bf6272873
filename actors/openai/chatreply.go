package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
)

type chatReply struct {
	ID      lenientText     `json:"id"`
	Model   lenientText     `json:"model"`
	Choices []chatChoice    `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Sources json.RawMessage `json:"citations"` // list of URLs, sent by Perplexity and xAI
	Groq    *lenient[groq]  `json:"x_groq"`

	// Other fields that can indicate an error.
	Object  objectKind      `json:"object"`
	Message json.RawMessage `json:"message"`
	Detail  json.RawMessage `json:"detail"`
}

// groq holds the fields that Groq adds to the events of a stream.
type groq struct {
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// objectKind records whether the field "object" of a reply marks the reply as an error.
type objectKind struct{ isError bool }

// UnmarshalJSON accepts any value.
func (o *objectKind) UnmarshalJSON(data []byte) error {
	o.isError = string(data) == `"error"`
	return nil
}

type chatChoice struct {
	Index        lenientInt      `json:"index"`
	Message      *chatAnswer     `json:"message"`
	Delta        *chatAnswer     `json:"delta"`
	FinishReason lenientText     `json:"finish_reason"`
	Usage        *usage          `json:"usage"`
	Error        json.RawMessage `json:"error"`

	Logprobs *lenient[chatLogprobs] `json:"logprobs"`
}

type chatLogprobs struct {
	Content []wireLogprob `json:"content"`
	Refusal []wireLogprob `json:"refusal"`
}

type chatAnswer struct {
	Content          content         `json:"content"`
	Refusal          lenientText     `json:"refusal"`
	ReasoningContent *string         `json:"reasoning_content"`
	Reasoning        *content        `json:"reasoning"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
	ExtraContent     json.RawMessage `json:"extra_content"`
	ToolCalls        []chatCall      `json:"tool_calls"`
	FunctionCall     *chatFunction   `json:"function_call"`

	Annotations *lenient[[]wireAnnotation] `json:"annotations"`
	Audio       *lenient[chatAudio]        `json:"audio"`
	Images      *lenient[[]chatImage]      `json:"images"` // sent by OpenRouter
}

type chatImage struct {
	ImageURL imageURL `json:"image_url"`
}

type chatCall struct {
	Index        lenientIndex    `json:"index"`
	ID           lenientText     `json:"id"`
	Function     chatFunction    `json:"function"`
	Custom       *chatCustom     `json:"custom"`
	ExtraContent json.RawMessage `json:"extra_content"`
}

type chatFunction struct {
	Name      lenientText      `json:"name"`
	Arguments lenientArguments `json:"arguments"`
}

type chatCustom struct {
	Name  string           `json:"name"`
	Input lenientArguments `json:"input"`
}

type usage struct {
	Input         lenientCount `json:"prompt_tokens"`
	Output        lenientCount `json:"completion_tokens"`
	InputDetails  *usageTail   `json:"prompt_tokens_details"`
	OutputDetails *usageTail   `json:"completion_tokens_details"`
	CacheHit      lenientCount `json:"prompt_cache_hit_tokens"`
	Cached        lenientCount `json:"cached_tokens"`
	Cost          lenientCost  `json:"cost"`
}

type usageTail struct {
	Cached     lenientCount `json:"cached_tokens"`
	CacheWrite lenientCount `json:"cache_write_tokens"`
	Reasoning  lenientCount `json:"reasoning_tokens"`
}

func (u *usage) core() core.Usage {
	out := core.Usage{
		InputTokens: int(u.Input), OutputTokens: int(u.Output),
		CachedInputTokens: int(max(u.CacheHit, u.Cached)),
	}
	if d := u.InputDetails; d != nil {
		out.CachedInputTokens = max(out.CachedInputTokens, int(d.Cached))
		out.CacheWriteTokens = int(d.CacheWrite)
	}
	if d := u.OutputDetails; d != nil {
		out.ReasoningTokens = int(d.Reasoning)
	}
	out.Cost = float64(u.Cost)
	return out
}

// read processes a complete reply.
func (w chatWire) read(a *answer, data []byte) (complete bool, err error) {
	var reply chatReply
	if err := readJSON(data, &reply); err != nil {
		return false, malformed(err)
	}
	a.addHead(&reply)
	if err := reply.failure(data); err != nil {
		return false, err
	}
	if len(reply.Choices) == 0 {
		return false, errNoChoices
	}
	return true, a.addChoice(&reply.Choices[0], reply.Choices[0].Message)
}

// event processes one event of a stream.
func (w chatWire) event(a *answer, data []byte) (complete bool, err error) {
	if isDone(data) {
		return !a.isEmpty() || a.finish != "", errDone
	}
	reply := chatReply{ID: lenientText(a.id), Model: lenientText(a.model)} // usually the same in all events
	if err := readJSON(data, &reply); err != nil {
		return false, malformed(err)
	}
	a.addHead(&reply)
	if err := reply.failure(data); err != nil {
		return false, err
	}
	for i := range reply.Choices {
		choice := &reply.Choices[i]
		if choice.Index != 0 {
			continue // only the first choice is used
		}
		piece := choice.Delta
		switch {
		case piece != nil:
			a.deltas = true
		case !a.deltas: // otherwise, the message only repeats the deltas
			piece = choice.Message
		}
		if err := a.addChoice(choice, piece); err != nil {
			return false, err
		}
	}
	return a.finish != "", nil
}

// failure returns the error contained in the reply, or nil. Services report errors in
// many ways, and some then end the stream as if the answer were complete.
func (r *chatReply) failure(data []byte) error {
	switch err := errorIn(r.Error); {
	case err != nil:
		return err
	case r.Groq != nil && errorIn(r.Groq.value.Error) != nil:
		return errorIn(r.Groq.value.Error)
	case r.Object.isError:
		return errorIn(data)
	case len(r.Choices) == 0 && r.Usage == nil && (isSet(r.Message) || isSet(r.Detail)):
		return errorOfBody(data)
	}
	return nil
}

func (a *answer) addHead(reply *chatReply) {
	if reply.ID != "" {
		a.id = string(reply.ID)
	}
	if reply.Model != "" {
		a.model = string(reply.Model)
	}
	a.addUsage(reply.Usage)
	if len(reply.Sources) > 0 {
		a.addSources(reply.Sources)
	}
	if reply.Groq != nil {
		a.addUsage(reply.Groq.value.Usage)
	}
}

// addUsage updates the usage unless all values are zero: some services send the usage
// once and zeros in all other events.
func (a *answer) addUsage(u *usage) {
	if u == nil {
		return
	}
	if used := u.core(); !used.IsZero() {
		a.usage = used
	}
}

func (a *answer) addChoice(choice *chatChoice, piece *chatAnswer) error {
	a.addUsage(choice.Usage)
	if err := errorIn(choice.Error); err != nil {
		return err
	}
	if choice.FinishReason != "" && choice.FinishReason != "null" {
		a.finish = string(choice.FinishReason)
	}
	if a.finish == "error" {
		return &Error{Message: "the service ended the answer with an error and gave no reason"}
	}
	if choice.Logprobs != nil {
		a.addLogprobs(choice.Logprobs.value.Content)
		a.addLogprobs(choice.Logprobs.value.Refusal)
	}
	if piece != nil {
		a.addPiece(piece, choice.Message == piece)
	}
	return nil
}

// addPiece adds the content of a message or of a delta.
func (a *answer) addPiece(m *chatAnswer, whole bool) {
	if m.Content.reasoning != "" {
		a.addReasoning(m.Content.reasoning)
	}
	if m.ReasoningContent != nil && *m.ReasoningContent != "" {
		a.addReasoning(*m.ReasoningContent)
	} else if m.Reasoning != nil && m.Reasoning.text != "" {
		a.addReasoning(m.Reasoning.text)
	}
	a.markReasoning("reasoning_content", m.ReasoningContent != nil)
	a.markReasoning("reasoning", m.ReasoningContent == nil && m.Reasoning != nil)
	if m.Content.text != "" {
		a.addText(m.Content.text)
	}
	if refusal := string(m.Refusal) + m.Content.refusal; refusal != "" {
		a.addRefusal(refusal)
	}
	if isSet(m.ExtraContent) {
		a.keepField("extra_content", m.ExtraContent)
	}
	a.addDetails(m.ReasoningDetails, whole)
	if m.Annotations != nil {
		a.addAnnotations(m.Annotations.value)
	}
	for _, url := range m.Content.images {
		a.addImage(url)
	}
	if m.Images != nil {
		for _, image := range m.Images.value {
			a.addImage(string(image.ImageURL))
		}
	}
	if m.Audio != nil {
		a.addAudio(&m.Audio.value)
	}
	for i := range m.ToolCalls {
		a.addCall(&m.ToolCalls[i], whole, len(m.ToolCalls)-i)
	}
	if m.FunctionCall != nil && *m.FunctionCall != (chatFunction{}) {
		a.addCall(&chatCall{Function: *m.FunctionCall}, false, 1)
	}
}

// addCall adds a tool call or a piece of one. Pieces are matched by index; some services omit the
// index or send the same index for all calls. fromEnd is the position of the call or piece in its
// list, counted from the end.
func (a *answer) addCall(c *chatCall, whole bool, fromEnd int) {
	if c.Custom != nil && *c.Custom != (chatCustom{}) {
		c.Function = chatFunction{lenientText(c.Custom.Name), c.Custom.Input}
	}
	id, index := string(c.ID), string(c.Index)
	if id == "" && c.Function == (chatFunction{}) && !isSet(c.ExtraContent) {
		return // an empty placeholder sent by some services
	}
	at := -1
	if !whole {
		if at = a.repeatedCall(id, index, &c.Function); at >= 0 {
			c.Function.Arguments = ""
		} else {
			at = a.openCall(id, index, &c.Function)
		}
	}
	if at < 0 && !whole && index == "" && c.Function.Name == "" && fromEnd <= len(a.calls) {
		at = len(a.calls) - fromEnd // a continuation with an ID invented by the service
	}
	if at < 0 {
		at = len(a.calls)
		a.calls = append(a.calls, &callParts{index: index, id: id})
	}
	call := a.calls[at]
	name := ""
	if call.name == "" {
		name = string(c.Function.Name)
		call.name = name
	}
	call.arguments.WriteString(string(c.Function.Arguments))
	if isSet(c.ExtraContent) {
		call.extra = c.ExtraContent
	}
	piece := live.Delta{Part: live.PartToolCall, Index: at, Name: name, Text: string(c.Function.Arguments)}
	if name != "" {
		piece.ID = call.id
	}
	a.emitPiece(piece)
}

// repeatedCall returns the index of the complete call that a piece repeats, or -1. Some services
// send a call again at the end of the stream.
func (a *answer) repeatedCall(id, index string, f *chatFunction) int {
	return slices.IndexFunc(a.calls, func(call *callParts) bool {
		return id != "" && id == call.id && (index == "" || index == call.index) && string(f.Name) == call.name &&
			string(f.Arguments) == call.arguments.String() && isObject(string(f.Arguments))
	})
}

// openCall returns the index of the call that a piece belongs to, or -1 for a new call. The index
// in the piece takes precedence over its ID, since some services invent an ID for each piece.
func (a *answer) openCall(id, index string, f *chatFunction) int {
	for i := len(a.calls) - 1; i >= 0; i-- {
		call := a.calls[i]
		switch {
		case index != "" && call.index != "" && index != call.index:
			continue
		case id != "" && call.id != "" && id != call.id && (index == "" || call.isNewCall(string(f.Name))):
			continue
		case call.isFollowedBy(f):
			if id == "" && index == "" {
				return -1
			}
			continue
		case id == "" && index == "" || id != "" && id == call.id || index != "" && index == call.index:
			return i
		}
	}
	return -1
}

// isNewCall reports whether a piece with the given name begins another call. This is needed because
// some services send all calls with the same index.
func (c *callParts) isNewCall(name string) bool {
	return name != "" && (name != c.name || isObject(c.arguments.String()))
}

// isFollowedBy reports whether a piece begins another call even though its ID does not show it.
// Some services send whole calls without IDs, or with the same ID. A piece of the same call may
// also repeat the call's name, but then the piece has no arguments or the call is not complete yet.
func (c *callParts) isFollowedBy(f *chatFunction) bool {
	if f.Name == "" || c.name == "" {
		return false
	}
	return string(f.Name) != c.name || strings.TrimSpace(string(f.Arguments)) != "" && isObject(c.arguments.String())
}
