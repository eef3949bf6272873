package window

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// Options configure a window.
type Options struct {
	// Tokens is the size of the model's context window in tokens, including the answer.
	// Required; at least 100.
	Tokens int

	// Answer is the number of tokens reserved for the answer. It defaults to the
	// request's MaxTokens, but at most half of Tokens. If the request has none, it defaults to an
	// eighth of Tokens.
	Answer int

	// Result is the maximum number of tokens of a tool result. Larger results are
	// truncated. Defaults to an eighth of Tokens.
	Result int

	// Summarizer is a model that summarizes the turns that are left out. The turns
	// are sent to it as one text. By default, there is no summary.
	Summarizer actors.LLM

	// Actor holds the window's options as an actor. By default, the window has one
	// attempt and no timeout; the model's timeout applies.
	Actor []actors.Option
}

// New returns a model that calls llm with as much of the conversation as fits. name is
// the name of the outer call, which contains the call to llm. New panics if llm is the
// zero LLM or an option is out of range.
//
// What the window remembers of a conversation belongs to the agent that calls it, directly or
// through other models, such as those of a failover. If an agent or a model calls two windows, they
// must have different names, or else they share what they remember.
func New(name string, o Options, llm actors.LLM) actors.LLM {
	if err := o.check(name, llm); err != nil {
		panic(err.Error())
	}
	w := &window{o: o, llm: llm}
	own := append([]actors.Option{actors.WithRetry(core.RetryConfig{MaxAttempts: 1}), actors.WithAttemptTimeout(core.NoTimeout)}, o.Actor...)
	return actors.NewLLM(name, w.ask, own...).Require(w.prepare)
}

func (o *Options) check(name string, llm actors.LLM) error {
	switch {
	case llm.Name() == "":
		return fmt.Errorf("window: %q has the zero LLM", name)
	case o.Tokens < 100:
		return fmt.Errorf("window: Options.Tokens of %q is %d; want 100 or more", name, o.Tokens)
	case o.Answer < 0 || o.Answer > o.Tokens/2:
		return fmt.Errorf("window: Options.Answer of %q is %d; want at most half of Tokens, or 0 for the default", name, o.Answer)
	case o.Result < 0 || o.Result > o.Tokens/2:
		return fmt.Errorf("window: Options.Result of %q is %d; want at most half of Tokens, or 0 for the default", name, o.Result)
	}
	return nil
}

// A window fits conversations into the context of its model. It is immutable.
type window struct {
	o   Options
	llm actors.LLM
}

// A memory is what a run remembers about a conversation. It is stored as a value of the
// run, so that a resumed run sends the same requests.
type memory struct {
	Left    int     `json:"left"`    // number of messages left out, without system messages
	Mark    uint64  `json:"mark"`    // their fingerprint
	Summary string  `json:"summary"` // their summary
	Scale   float64 `json:"scale"`   // actual tokens per estimated token; 0 means 1
	Refused int     `json:"refused"` // the lowest estimate for messages that the service refused as too long; 0 if there is none
}

// forget removes what belongs to another conversation than this one.
func (m *memory) forget(messages []actors.Message) {
	if !isMarked(messages, m.Left, m.Mark) {
		m.Left, m.Mark, m.Summary = 0, 0, ""
	}
}

// A cut says how a request that does not fit is shortened. It depends on the lengths of instructions,
// descriptions and other things that may change while a run exists and that do not belong to the
// identity of the call to the model. Therefore it is recorded before that call is made.
type cut struct {
	Left int    `json:"left"` // number of messages left out, without system messages
	Mark uint64 `json:"mark"` // their fingerprint
	Room int    `json:"room"` // number of tokens available for messages
	Most int    `json:"most"` // maximum number of tokens of each message; 0 if there is none
}

func (m *memory) scale() float64 {
	if m.Scale == 0 {
		return 1
	}
	return m.Scale
}

// prepare is the precondition of the model. It runs once for each call, and its values are recorded
// before the handler runs. If the request does not fit, it stores the cut. A handler that finds no
// cut, also in a resumed run, therefore leaves out only what was left out before.
func (w *window) prepare(ctx context.Context, req actors.Request) error {
	key := memoryKey(ctx)
	if key == "" {
		return nil
	}
	m, _, err := state.Get[memory](ctx, key)
	if err != nil {
		return err
	}
	m.forget(req.Messages)
	messages, err := w.truncateResults(ctx, &req, position(req.Messages, m.Left), false)
	if err != nil {
		return err
	}
	if c := w.fit(&req, messages, m); c != (cut{}) {
		return state.Put(ctx, cutKey(ctx), c)
	}
	return nil
}

// ask is the handler of the model.
func (w *window) ask(ctx context.Context, req actors.Request) (actors.Response, error) {
	key := memoryKey(ctx)
	var known memory
	var c cut
	if key != "" {
		var err error
		if known, _, err = state.Get[memory](ctx, key); err != nil {
			return actors.Response{}, err
		}
		if c, _, err = state.Get[cut](ctx, cutKey(ctx)); err != nil {
			return actors.Response{}, err
		}
	}
	now := known
	now.forget(req.Messages)
	messages, err := w.truncateResults(ctx, &req, position(req.Messages, now.Left), true)
	if err != nil {
		return actors.Response{}, err
	}
	if key == "" {
		c = w.fit(&req, messages, now)
	}
	sent, err := w.shortened(ctx, req.Messages, messages, c, &now)
	if err != nil {
		return actors.Response{}, err
	}
	resp, err := w.send(ctx, req, sent)
	if refusal := err; errors.Is(refusal, actors.ErrContextTooLong) {
		now.refuse(estimateAll(sent))
		c, err = core.Step(ctx, "cut", func(context.Context) (cut, error) { return w.fit(&req, messages, now), nil })
		if err != nil {
			return actors.Response{}, err
		}
		shorter, err := w.shortened(ctx, req.Messages, messages, c, &now)
		if err != nil {
			return actors.Response{}, err
		}
		if estimateAll(shorter) >= estimateAll(sent) { // calls and instructions cannot be shortened
			return actors.Response{}, refusal
		}
		sent = shorter
		if resp, err = w.send(ctx, req, sent); err != nil {
			return actors.Response{}, err
		}
	} else if err != nil {
		return actors.Response{}, err
	}
	now.learn(resp.Usage.InputTokens, estimateAll(sent)+estimateTools(req.Tools))
	if key != "" && now != known {
		if err := state.Put(ctx, key, now); err != nil {
			return actors.Response{}, err
		}
	}
	return resp, nil
}

func (w *window) send(ctx context.Context, req actors.Request, messages []actors.Message) (actors.Response, error) {
	req.Messages = messages
	return w.llm.Call(emitsAsOwn(ctx), req)
}

// emitsAsOwn returns a context for the call of the window's model. Its deltas are emitted as deltas
// of the window, since those who show an agent's answer look for deltas of the call that the agent
// itself has made.
func emitsAsOwn(ctx context.Context) context.Context {
	emit := live.Emitter(ctx)
	if emit == nil {
		return ctx
	}
	return live.Divert(ctx, func(d live.Delta) {
		if d.Part != live.PartEnd { // the window emits its own
			emit(d)
		}
	})
}

// memoryKey returns the key of the window's memory. A memory belongs to the attempt that asks the
// window, usually of an agent. If models surround the window, such as a failover, it belongs to the
// attempt that asks the outermost one, and the key contains the path from there to the window.
// Branches run in parallel, so they must not share a memory: their numbers stay in the path, unlike
// those of calls and attempts. Outside a run, memoryKey returns "".
func memoryKey(ctx context.Context) string {
	asked := core.ScopeOf(ctx)
	path := asked.Address().String()
	for s := asked.Parent(); s.Kind() != 0 && s.Kind() != record.KindAgent && s.Kind() != record.KindTool; s = s.Parent() {
		if s.Kind() == record.KindLLM {
			asked = s
		}
	}
	scope := asked.Address().Scope()
	path = strings.TrimPrefix(strings.TrimPrefix(path, scope), "/")
	return keyOf(ctx, "window", scope, numbers.ReplaceAllString(path, "$1"))
}

// numbers matches the numbers of calls and attempts in a path.
var numbers = regexp.MustCompile(`(?:[#@][0-9]+)+(/|$)`)

// cutKey returns the key of the cut that the call to which ctx belongs has made.
func cutKey(ctx context.Context) string { return "cut:" + core.ScopeOf(ctx).Address().String() }

// keyOf returns the key of a value that the run stores for an attempt, or "" outside a run. Keys of
// different attempts differ, since no path contains two slashes in a row.
func keyOf(ctx context.Context, what, path, name string) string {
	if state.From(ctx) == nil {
		return ""
	}
	return what + ":" + path + "//" + name
}

// room returns the number of tokens, as estimated, that are available for messages. The model counts
// scale tokens for each estimated one.
func (w *window) room(req *actors.Request, scale float64) int {
	answer := w.o.Answer
	if answer == 0 {
		answer = min(req.Options.MaxTokens, w.o.Tokens/2)
	}
	if answer == 0 {
		answer = w.o.Tokens / 8
	}
	free := float64(w.o.Tokens-answer)/scale - float64(estimateTools(req.Tools))
	return int(max(float64(w.o.Tokens)/8/scale, free))
}

// learn updates the scale from the token count that the service reported.
func (m *memory) learn(counted, estimated int) {
	const most, same = 8, 0.1
	if counted == 0 || estimated == 0 {
		return
	}
	scale := min(most, max(1.0/most, float64(counted)/float64(estimated)))
	if math.Abs(scale/m.scale()-1) > same {
		m.Scale = scale
	}
}

// refuse notes that the service refused messages with the given estimate as too long.
func (m *memory) refuse(estimated int) {
	if estimated = max(1, estimated); m.Refused == 0 || estimated < m.Refused {
		m.Refused = estimated
	}
}

// fit returns how to shorten a request. messages are its messages with truncated results. If they fit
// without those that m leaves out, the result is zero. Otherwise, turns are left out until half of
// the room is free: making a few large cuts keeps the beginning of the conversation stable, so that
// services can cache it.
func (w *window) fit(req *actors.Request, messages []actors.Message, m memory) cut {
	room := w.room(req, m.scale())
	if m.Refused > 0 {
		room = min(room, m.Refused*2/3)
	}
	if estimateAll(compose(messages, &m)) <= room {
		return cut{}
	}
	first := position(messages, m.Left)
	at, rest := first, estimateAll(messages[first:])
	for _, next := range boundaries(messages, first) {
		rest -= estimateAll(messages[at:next])
		if at = next; rest <= room/2 {
			break
		}
	}
	summary := tokensOf(m.Summary)
	if at > first {
		m.Left += countOthers(messages[first:at])
		m.Mark = fingerprint(messages[:at])
		if w.summarizes() {
			summary = longestSummary(others(req.Messages[first:at]), room, &m)
		}
	}
	m.Summary = "" // counted above: the new one does not exist yet
	return cut{m.Left, m.Mark, room, limit(compose(messages, &m), room, summary)}
}

// shortened returns the messages to send. whole is the complete conversation; messages is the same
// conversation with truncated results. If c leaves out more messages than m, shortened updates m.
func (w *window) shortened(ctx context.Context, whole, messages []actors.Message, c cut, m *memory) ([]actors.Message, error) {
	if !isMarked(whole, c.Left, c.Mark) {
		c = cut{} // the request is not the one for which the cut was recorded
	}
	if c.Left > m.Left {
		dropped := others(whole[position(whole, m.Left):position(whole, c.Left)])
		m.Left, m.Mark = c.Left, c.Mark
		if err := w.summarize(ctx, dropped, c.Room, m); err != nil {
			return nil, err
		}
	}
	return squeeze(compose(messages, m), c.Most), nil
}

func isSystem(m actors.Message) bool { return m.Role == actors.RoleSystem }

func isUser(m actors.Message) bool { return m.Role == actors.RoleUser }

// others returns the messages that are not system messages.
func others(messages []actors.Message) []actors.Message {
	return slices.DeleteFunc(slices.Clone(messages), isSystem)
}

// countOthers returns the number of messages that are not system messages. Positions are stored as
// these counts, so that they stay the same if instructions are added or removed.
func countOthers(messages []actors.Message) (n int) {
	for i := range messages {
		if !isSystem(messages[i]) {
			n++
		}
	}
	return n
}

// position returns the index of the first message that remains if left messages are left out, apart
// from system messages, which are kept wherever they are.
func position(messages []actors.Message, left int) int {
	for i := range messages {
		if isSystem(messages[i]) {
			continue
		}
		if left == 0 {
			return i
		}
		left--
	}
	return len(messages)
}

// isMarked reports whether the messages that are left out have the fingerprint.
func isMarked(messages []actors.Message, left int, mark uint64) bool {
	return left <= countOthers(messages) && fingerprint(messages[:position(messages, left)]) == mark
}

// boundaries returns the positions where a conversation can be cut. A cut must not
// separate a tool result from its call.
func boundaries(messages []actors.Message, from int) (cuts []int) {
	for i := from + 1; i < len(messages); i++ {
		if messages[i].Role != actors.RoleTool && !isSystem(messages[i]) {
			cuts = append(cuts, i)
		}
	}
	return cuts
}

const note = "[Earlier turns of the conversation were left out because they did not fit.]"

// compose returns the system messages, the note or summary that replaces the messages
// left out, the current question, and the remaining messages.
func compose(messages []actors.Message, m *memory) []actors.Message {
	if m.Left == 0 {
		return messages
	}
	at := position(messages, m.Left)
	var sent []actors.Message
	for _, m := range messages[:at] {
		if isSystem(m) {
			sent = append(sent, m)
		}
	}
	text := note
	if m.Summary != "" {
		text = "[Summary of earlier turns of the conversation:]\n" + m.Summary
	}
	sent = append(sent, actors.User(text))
	for i := at - 1; i >= 0; i-- {
		if isUser(messages[i]) && !slices.ContainsFunc(messages[at:], isUser) {
			sent = append(sent, messages[i])
			break
		}
	}
	return append(sent, messages[at:]...)
}

// content returns the estimate for the part of a message that squeeze can shorten.
func content(m *actors.Message) int {
	if isSystem(*m) {
		return 0
	}
	return Estimate(actors.Message{Text: m.Text, Parts: m.Parts}) - perMessage
}

// limit returns the maximum for the content of each message with which all messages fit, or 0 if
// they fit without one. reserved is the part of the room for what is not among the messages.
func limit(messages []actors.Message, room, reserved int) int {
	var sizes []int
	free := room - reserved - estimateAll(messages)
	for i := range messages {
		if size := content(&messages[i]); size > 0 {
			sizes = append(sizes, size)
			free += size
		}
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		if share := free / (len(sizes) - i); size > share {
			return max(1, share, room/(len(messages)+1))
		}
		free -= size
	}
	return 0
}

// squeeze truncates the text and removes the pictures and files of each message whose content has
// more than the given number of tokens, unless that is 0. What becomes of a message depends only on the
// message, so a resumed run does the same although other messages have changed.
func squeeze(messages []actors.Message, most int) []actors.Message {
	const notes = 24 // estimate for the notes about what was left out
	if most == 0 {
		return messages
	}
	messages = slices.Clone(messages)
	for i := range messages {
		m := &messages[i]
		if content(m) <= most {
			continue
		}
		text, media := splitParts(m)
		m.Text, m.Parts = shorten(text, max(most/2, most-notes), ""), nil
		if len(media) > 0 {
			m.Text += "\n[Pictures and files were left out because they did not fit.]"
		}
	}
	return messages
}
