package openai

import (
	"encoding/json"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/live"
)

type chatReply struct {
	ID      lenientText     `json:"id"`
	Model   lenientText     `json:"model"`
	Choices []chatChoice    `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Sources json.RawMessage `json:"citations"` // of Perplexity and xAI, which are URLs
	Groq    *lenient[groq]  `json:"x_groq"`

	// What else says that something failed.
	Object  objectKind      `json:"object"`
	Message json.RawMessage `json:"message"`
	Detail  json.RawMessage `json:"detail"`
}

// groq is what Groq sends beside the events of a stream.
type groq struct {
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// objectKind is what a reply calls itself, as far as it matters.
type objectKind struct{ isError bool }

// UnmarshalJSON reads anything.
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
	Images      *lenient[[]chatImage]      `json:"images"` // OpenRouter's
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
	Input         lenientInt `json:"prompt_tokens"`
	Output        lenientInt `json:"completion_tokens"`
	InputDetails  *usageTail `json:"prompt_tokens_details"`
	OutputDetails *usageTail `json:"completion_tokens_details"`
	CacheHit      lenientInt `json:"prompt_cache_hit_tokens"`
	Cached        lenientInt `json:"cached_tokens"`
	Cost          *float64   `json:"cost"`
}

type usageTail struct {
	Cached     lenientInt `json:"cached_tokens"`
	CacheWrite lenientInt `json:"cache_write_tokens"`
	Reasoning  lenientInt `json:"reasoning_tokens"`
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
	if u.Cost != nil {
		out.Cost = *u.Cost
	}
	return out
}

// read takes a whole reply.
func (w chatWire) read(a *answer, data []byte) (complete bool, err error) {
	var reply chatReply
	if err := readJSON(data, &reply); err != nil {
		return false, malformed(err)
	}
	a.takeHead(&reply)
	if err := reply.failure(data); err != nil {
		return false, err
	}
	if len(reply.Choices) == 0 {
		return false, errNoChoices
	}
	return true, a.takeChoice(&reply.Choices[0], reply.Choices[0].Message)
}

// event takes one event of a stream.
func (w chatWire) event(a *answer, data []byte) (complete bool, err error) {
	if isDone(data) {
		return !a.isEmpty() || a.finish != "", errDone
	}
	reply := chatReply{ID: lenientText(a.id), Model: lenientText(a.model)} // mostly the same in all events
	if err := readJSON(data, &reply); err != nil {
		return false, malformed(err)
	}
	a.takeHead(&reply)
	if err := reply.failure(data); err != nil {
		return false, err
	}
	for i := range reply.Choices {
		choice := &reply.Choices[i]
		if choice.Index != 0 {
			continue // one answer is used
		}
		piece := choice.Delta
		switch {
		case piece != nil:
			a.deltas = true
		case !a.deltas: // else the message repeats them
			piece = choice.Message
		}
		if err := a.takeChoice(choice, piece); err != nil {
			return false, err
		}
	}
	return a.finish != "", nil
}

// failure is the error that the reply is in place of an answer; nil for none.
// Services say it in many ways, and some end the stream then as if it were
// whole.
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

func (a *answer) takeHead(reply *chatReply) {
	if reply.ID != "" {
		a.id = string(reply.ID)
	}
	if reply.Model != "" {
		a.model = string(reply.Model)
	}
	a.takeUsage(reply.Usage)
	if len(reply.Sources) > 0 {
		a.takeSources(reply.Sources)
	}
	if reply.Groq != nil {
		a.takeUsage(reply.Groq.value.Usage)
	}
}

// takeUsage takes what is there: some services send it once, and nothing but
// zeros with everything else.
func (a *answer) takeUsage(u *usage) {
	if u == nil {
		return
	}
	if used := u.core(); !used.IsZero() {
		a.usage = used
	}
}

func (a *answer) takeChoice(choice *chatChoice, piece *chatAnswer) error {
	a.takeUsage(choice.Usage)
	if err := errorIn(choice.Error); err != nil {
		return err
	}
	if choice.FinishReason != "" && choice.FinishReason != "null" {
		a.finish = string(choice.FinishReason)
	}
	if a.finish == "error" {
		return &Error{Message: "the service broke the answer off and did not say why"}
	}
	if choice.Logprobs != nil {
		a.takeLogprobs(choice.Logprobs.value.Content)
		a.takeLogprobs(choice.Logprobs.value.Refusal)
	}
	if piece != nil {
		a.takePiece(piece, choice.Message == piece)
	}
	return nil
}

// takePiece adds what a message says, which is whole or a part of one.
func (a *answer) takePiece(m *chatAnswer, whole bool) {
	if m.Content.reasoning != "" {
		a.think(m.Content.reasoning)
	}
	if m.ReasoningContent != nil && *m.ReasoningContent != "" {
		a.think(*m.ReasoningContent)
	} else if m.Reasoning != nil && m.Reasoning.text != "" {
		a.think(m.Reasoning.text)
	}
	a.keepReasoning("reasoning_content", m.ReasoningContent != nil)
	a.keepReasoning("reasoning", m.ReasoningContent == nil && m.Reasoning != nil)
	if m.Content.text != "" {
		a.say(m.Content.text)
	}
	if refusal := string(m.Refusal) + m.Content.refusal; refusal != "" {
		a.refuse(refusal)
	}
	if isSet(m.ExtraContent) {
		a.keep("extra_content", m.ExtraContent)
	}
	a.takeDetails(m.ReasoningDetails, whole)
	if m.Annotations != nil {
		a.takeAnnotations(m.Annotations.value)
	}
	for _, url := range m.Content.images {
		a.takeImage(url)
	}
	if m.Images != nil {
		for _, image := range m.Images.value {
			a.takeImage(string(image.ImageURL))
		}
	}
	if m.Audio != nil {
		a.takeAudio(&m.Audio.value)
	}
	for i := range m.ToolCalls {
		a.takeCall(&m.ToolCalls[i], whole, len(m.ToolCalls)-i)
	}
	if m.FunctionCall != nil && *m.FunctionCall != (chatFunction{}) {
		a.takeCall(&chatCall{Function: *m.FunctionCall}, false, 1)
	}
}

// takeCall adds a tool call, or a piece of one. Pieces belong together by
// their index; some services leave it out, or send the same for all. The place
// is that of the piece in its list, from the end.
func (a *answer) takeCall(c *chatCall, whole bool, place int) {
	if c.Custom != nil && *c.Custom != (chatCustom{}) {
		c.Function = chatFunction{lenientText(c.Custom.Name), c.Custom.Input}
	}
	id, index := string(c.ID), string(c.Index)
	if id == "" && c.Function == (chatFunction{}) && !isSet(c.ExtraContent) {
		return // a service that leaves no field out
	}
	at := -1
	if !whole {
		at = a.openCall(id, index, string(c.Function.Name))
	}
	if at < 0 && !whole && index == "" && c.Function.Name == "" && place <= len(a.calls) {
		at = len(a.calls) - place // the rest of a call, with an ID that was made up
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
	a.show(live.PartToolCall, at, name, string(c.Function.Arguments))
}

// openCall finds the call that a piece belongs to, -1 for a new one. The index
// counts more than the ID: some services make up an ID for each piece.
func (a *answer) openCall(id, index, name string) int {
	for i := len(a.calls) - 1; i >= 0; i-- {
		call := a.calls[i]
		switch {
		case index != "" && call.index != "" && index != call.index:
			continue
		case id != "" && call.id != "" && id != call.id && (index == "" || call.endsBefore(name)):
			continue
		case id == "" && index == "" || id != "" && id == call.id || index != "" && index == call.index:
			return i
		}
	}
	return -1
}

// endsBefore reports whether a piece with that name begins another call: some
// services send all calls with one index.
func (c *callParts) endsBefore(name string) bool {
	return name != "" && (name != c.name || isObject(c.arguments.String()))
}
