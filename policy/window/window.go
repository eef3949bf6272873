package window

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
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
	return actors.NewLLM(name, w.ask, own...)
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
	Left    int     `json:"left"`    // number of messages left out
	Mark    uint64  `json:"mark"`    // their fingerprint
	Summary string  `json:"summary"` // their summary
	Scale   float64 `json:"scale"`   // actual tokens per estimated token; 0 means 1
	Refused int     `json:"refused"` // the lowest estimate for messages that the service refused as too long; 0 if there is none
}

func (m *memory) scale() float64 {
	if m.Scale == 0 {
		return 1
	}
	return m.Scale
}

// ask is the handler of the model.
func (w *window) ask(ctx context.Context, req actors.Request) (actors.Response, error) {
	key := memoryKey(ctx)
	var known memory
	if key != "" {
		var err error
		if known, _, err = state.Get[memory](ctx, key); err != nil {
			return actors.Response{}, err
		}
	}
	now := known
	if len(req.Messages) < now.Left || fingerprint(req.Messages[:now.Left]) != now.Mark { // a different conversation
		now.Left, now.Mark, now.Summary = 0, 0, ""
	}
	messages, err := w.cutResults(ctx, req, now.Left)
	if err != nil {
		return actors.Response{}, err
	}
	room := w.room(&req)
	sent, err := w.fit(ctx, req.Messages, messages, room, &now)
	if err != nil {
		return actors.Response{}, err
	}
	resp, err := w.send(ctx, req, sent)
	if errors.Is(err, actors.ErrContextTooLong) {
		now.Refused = max(1, estimateAll(sent))
		if sent, err = w.fit(ctx, req.Messages, messages, room, &now); err != nil {
			return actors.Response{}, err
		}
		resp, err = w.send(ctx, req, sent)
	}
	if err != nil {
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
	return w.llm.Call(ctx, req)
}

// memoryKey returns the key of the window's memory. A memory belongs to the attempt that asks the
// window, usually of an agent. If models surround the window, such as a failover, it belongs to the
// attempt that asks the outermost one, and the key contains the names of these models. Outside a
// run, memoryKey returns "".
func memoryKey(ctx context.Context) string {
	asked := core.ScopeOf(ctx)
	name := asked.Name()
	for s := asked.Parent(); s.Kind() != 0 && s.Kind() != record.KindAgent && s.Kind() != record.KindTool; s = s.Parent() {
		if s.Kind() == record.KindLLM {
			asked, name = s, s.Name()+"/"+name
		}
	}
	return keyOf(ctx, "window", asked.Address().Scope(), name)
}

// keyOf returns the key of a value that the run stores for an attempt, or "" outside a run. Keys of
// different attempts differ, since no path contains two slashes in a row.
func keyOf(ctx context.Context, what, path, name string) string {
	if state.From(ctx) == nil {
		return ""
	}
	return what + ":" + path + "//" + name
}

// room returns the number of tokens available for messages.
func (w *window) room(req *actors.Request) int {
	answer := w.o.Answer
	if answer == 0 {
		answer = min(req.Options.MaxTokens, w.o.Tokens/2)
	}
	if answer == 0 {
		answer = w.o.Tokens / 8
	}
	return max(w.o.Tokens/8, w.o.Tokens-answer-estimateTools(req.Tools))
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

// fit returns the messages to send. whole is the complete conversation; messages is the same
// conversation with truncated results. If the messages do not fit, fit leaves out turns until half
// of the room is free: making a few large cuts keeps the beginning of the conversation stable, so
// that services can cache it.
func (w *window) fit(ctx context.Context, whole, messages []actors.Message, room int, m *memory) ([]actors.Message, error) {
	room = int(float64(room) / m.scale())
	if m.Refused > 0 {
		room = min(room, m.Refused*2/3)
	}
	sent := compose(messages, m)
	if estimateAll(sent) <= room {
		return sent, nil
	}
	first := max(m.Left, countSystem(messages))
	cut, rest := first, estimateAll(messages[first:])
	for _, next := range boundaries(messages, first) {
		rest -= estimateAll(messages[cut:next])
		if cut = next; rest <= room/2 {
			break
		}
	}
	if cut > first {
		m.Left, m.Mark = cut, fingerprint(whole[:cut])
		if err := w.summarize(ctx, messages[first:cut], room, m); err != nil {
			return nil, err
		}
	}
	return squeeze(compose(messages, m), room), nil
}

// countSystem returns the number of system messages at the beginning.
func countSystem(messages []actors.Message) (n int) {
	for n < len(messages) && messages[n].Role == actors.RoleSystem {
		n++
	}
	return n
}

// boundaries returns the positions where a conversation can be cut. A cut must not
// separate a tool result from its call.
func boundaries(messages []actors.Message, from int) (cuts []int) {
	for i := from + 1; i < len(messages); i++ {
		if messages[i].Role != actors.RoleTool {
			cuts = append(cuts, i)
		}
	}
	return cuts
}

const note = "[Earlier turns of the conversation were left out because they did not fit.]"

// compose returns the system messages, the note or summary that replaces the messages
// left out, the current question, and the remaining messages.
func compose(messages []actors.Message, m *memory) []actors.Message {
	n := countSystem(messages)
	if m.Left <= n {
		return messages
	}
	sent := slices.Clone(messages[:n])
	text := note
	if m.Summary != "" {
		text = "[Summary of earlier turns of the conversation:]\n" + m.Summary
	}
	sent = append(sent, actors.User(text))
	for i := m.Left - 1; i >= n; i-- {
		if isUser(messages[i]) && !slices.ContainsFunc(messages[m.Left:], isUser) {
			sent = append(sent, messages[i])
			break
		}
	}
	return append(sent, messages[m.Left:]...)
}

func isUser(m actors.Message) bool { return m.Role == actors.RoleUser }

// squeeze truncates texts and removes pictures, largest first, until the messages fit.
// System messages are kept.
func squeeze(messages []actors.Message, room int) []actors.Message {
	over := estimateAll(messages) - room
	if over <= 0 {
		return messages
	}
	messages = slices.Clone(messages)
	share := max(1, room/(len(messages)+1))
	bySize := make([]int, len(messages))
	for i := range bySize {
		bySize[i] = i
	}
	slices.SortStableFunc(bySize, func(a, b int) int { return Estimate(messages[b]) - Estimate(messages[a]) })
	for _, i := range bySize {
		m := messages[i]
		before := Estimate(m)
		if over <= 0 || before <= share {
			break
		}
		if m.Role == actors.RoleSystem {
			continue
		}
		if len(m.Parts) > 0 {
			m.Parts, m.Text = nil, m.Text+"\n[Pictures and files were left out because they did not fit.]"
		}
		m.Text = shorten(m.Text, max(share, before-over), "")
		messages[i] = m
		over -= before - Estimate(m)
	}
	return messages
}
