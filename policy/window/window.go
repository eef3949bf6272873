package window

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/state"
)

// Options configure a window.
type Options struct {
	// Tokens is the size of the model's context window, including the answer, in tokens. Required.
	// Must be at least 100.
	Tokens int

	// Answer is the number of tokens that are reserved for the answer. It defaults to the MaxTokens
	// of the request, but to at most half of Tokens. If the request does not set MaxTokens, it
	// defaults to an eighth of Tokens.
	Answer int

	// Result is the maximum number of tokens of a tool result. Larger results are
	// truncated. Defaults to an eighth of Tokens.
	Result int

	// Summarizer is a model that summarizes the turns that are left out. It receives these turns as
	// a single text. By default, there is no summary.
	Summarizer actors.LLM

	// Actor contains the options of the window's own actor. By default, the window has one attempt
	// and no timeout of its own; the timeout of the model applies.
	Actor []actors.Option
}

// New returns a model that calls llm with as much of the conversation as fits. name is the name of
// the outer call, which contains the call of llm. New panics if llm is the zero LLM, or if an
// option is out of range.
//
// What the window remembers of a conversation belongs to the agent that calls the window, whether
// directly or through other models, such as a failover. If an agent or a model calls two windows,
// the windows must have different names. Otherwise, they share what they remember.
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

// prepare is the precondition of the window. It runs once for each call, and the values that it
// stores are recorded before the handler runs. If the request does not fit, prepare stores the cut.
// Therefore, if a handler finds no cut, even in a resumed run, it leaves out only what was left out
// before.
func (w *window) prepare(ctx context.Context, req actors.Request) error {
	if memoryKey(ctx) == "" {
		return nil
	}
	_, m, messages, err := w.begin(ctx, &req, false)
	if err != nil {
		return err
	}
	if c := w.fit(&req, messages, m); c != (cut{}) {
		return state.Put(ctx, cutKey(ctx), c)
	}
	return nil
}

// begin returns what the window knew when it was called, the part of this knowledge that concerns
// the current conversation, and the messages of the request with truncated tool results. If stores
// is set, begin stores the complete results.
func (w *window) begin(ctx context.Context, req *actors.Request, stores bool) (known, now memory, messages []actors.Message, err error) {
	if key := memoryKey(ctx); key != "" {
		if known, _, err = state.Get[memory](ctx, key); err != nil {
			return known, now, nil, err
		}
	}
	now = known
	now.forget(req.Messages)
	messages, err = w.truncateResults(ctx, req, position(req.Messages, now.Left), stores)
	return known, now, messages, err
}

// ask is the handler of the model.
func (w *window) ask(ctx context.Context, req actors.Request) (actors.Response, error) {
	known, now, messages, err := w.begin(ctx, &req, true)
	if err != nil {
		return actors.Response{}, err
	}
	var c cut
	key := memoryKey(ctx)
	if key == "" {
		c = w.fit(&req, messages, now)
	} else if c, _, err = state.Get[cut](ctx, cutKey(ctx)); err != nil {
		return actors.Response{}, err
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

// emitsAsOwn returns a context for the call of the window's model. The deltas of the model are
// emitted as deltas of the window, because a viewer of an agent's answer looks for deltas of the
// call that the agent itself made.
func emitsAsOwn(ctx context.Context) context.Context {
	emit := live.Emitter(ctx)
	if emit == nil {
		return ctx
	}
	return live.Divert(ctx, func(d live.Delta) {
		if d.Part != live.PartEnd { // the window emits its own end
			emit(d)
		}
	})
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
