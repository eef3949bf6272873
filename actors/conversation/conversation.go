package conversation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// ErrPending is returned by [Conversation.Ask] and [Conversation.Send] if the last
// turn has not ended.
var ErrPending = errors.New("conversation: the last turn has not ended; call Continue")

// ErrNothingPending is returned by [Conversation.Continue] if the last turn has
// ended.
var ErrNothingPending = errors.New("conversation: no turn is pending")

// Agent is the type of the agent in a conversation; [actors.NewAgent] makes one.
type Agent = actors.Agent[actors.Prompt, actors.Answer]

// A Conversation is a sequence of turns. It must be used by only one goroutine. Make one with
// [Open].
type Conversation struct {
	thread
	agent   Agent
	options options

	history       []actors.Message
	most          int            // the maximum number of messages in the history
	turns         int            // number of turns that have begun
	lastCompleted int            // the number of the last turn that completed; 0 if there is none
	pending       *actors.Prompt // the prompt of the last turn, if the turn has not ended
}

// An Option configures a conversation.
type Option func(*options)

type options struct {
	maxMessages int
	run         []state.Option
}

// WithMaxMessages limits the history: the model receives at most the last n messages of earlier
// turns. The first of them is always a message from the user, so that every tool result has its
// call. A single turn that has more than n messages is reduced to its question and its end: the
// answer, preceded by as many whole exchanges with tools as fit. With n = 1 there is no room for a
// question and its answer, so there is no history. Instructions are not part of the history.
// Defaults to 100. Open panics if n is below 1.
//
// A pending turn of a [Conversation] keeps the limit with which it began. A pending turn of a
// [Program] gets the new limit; if this changes its history, the turn is stopped because it differs
// from its records. Let such turns end before you deploy another limit.
func WithMaxMessages(n int) Option { return func(o *options) { o.maxMessages = n } }

// WithRunOptions sets options for the run of each turn, such as state.WithPublisher. The tags and
// keys of state.WithMetadata are added to the conversation's own.
func WithRunOptions(opts ...state.Option) Option {
	return func(o *options) { o.run = append(o.run, opts...) }
}

const defaultMaxMessages = 100

// optionsOf applies the options. It panics if an option is invalid.
func optionsOf(opts []Option) options {
	o := options{maxMessages: defaultMaxMessages}
	for _, option := range opts {
		option(&o)
	}
	if o.maxMessages < 1 {
		panic(fmt.Sprintf("conversation: WithMaxMessages(%d): want 1 or more", o.maxMessages))
	}
	return o
}

// Open begins the conversation with the given ID, or restores it. The run of turn n has the ID
// id-n, where n has at least four digits, so id must be a valid prefix of a run ID. Turns made by a
// runner also belong to the conversation; see [NewProgram].
func Open(ctx context.Context, store snapshot.Store, id string, agent Agent, opts ...Option) (*Conversation, error) {
	c := &Conversation{thread: thread{store: store, id: id, read: make(map[int]turnMessages)}, agent: agent, options: optionsOf(opts)}
	if err := snapshot.CheckRunID(c.runID(1)); err != nil {
		return nil, fmt.Errorf("conversation %q: %w", record.Truncate(id, maxID), err)
	}
	if err := c.restore(ctx); err != nil {
		return nil, fmt.Errorf("conversation %q: turn %d: %w", id, c.turns, err)
	}
	return c, nil
}

// RunID returns the run ID of the last turn, or "" before the first turn. While
// the turn is pending, its questions are answered in that run; see state.Answer.
func (c *Conversation) RunID() string {
	if c.turns == 0 {
		return ""
	}
	return c.runID(c.turns)
}

// restore determines whether and how the last turn has ended. A turn does not
// count if its process ended before the agent was called.
func (c *Conversation) restore(ctx context.Context) (err error) {
	c.pending, c.most = nil, c.options.maxMessages
	if c.turns, err = c.last(ctx); err != nil {
		return err
	}
	for ; c.turns > 0; c.turns-- {
		info, found, err := c.info(ctx, c.turns)
		if err != nil {
			return err
		}
		if !found { // the run was removed after it was listed
			continue
		}
		if info.Status.HasEnded() {
			c.lastCompleted = c.afterOf(&info)
			break
		}
		prompt, _, err := c.prompt(ctx, c.turns)
		if err != nil {
			return err
		}
		if prompt == nil {
			continue
		}
		c.lastCompleted, c.pending = lastCompletedBefore(&info.Metadata), prompt
		c.most = maxMessagesOf(&info.Metadata, c.most)
		break
	}
	c.history, err = c.thread.history(ctx, c.lastCompleted, c.most)
	if err != nil || c.pending == nil {
		return err
	}
	return c.recall(ctx)
}

// recall ends a turn whose agent has ended but whose process ended before the end of the turn was
// stored. Nothing runs again.
func (c *Conversation) recall(ctx context.Context) error {
	info, _, err := c.info(ctx, c.turns)
	isRetried := info.RetryTo > 0 && info.RetryTo == info.LastSeq // state.Retry was called: the failed calls would run again
	if err != nil || info.Open || info.Stop.Reason == record.InterruptUser || isRetried {
		return err
	}
	_, ended, err := c.prompt(ctx, c.turns)
	if err != nil || !ended {
		return err
	}
	if _, err := c.turn(ctx, *c.pending); c.pending != nil {
		return err
	}
	return nil
}

// History returns the messages of the completed turns, limited by [WithMaxMessages]. In
// the next turn, they are sent to the model before the new prompt. History can also be
// called while a turn is pending. The data of a large part is stored as an artifact,
// and the part's URL refers to the artifact.
func (c *Conversation) History() []actors.Message { return append([]actors.Message(nil), c.history...) }

// Turns returns the number of turns that have begun.
func (c *Conversation) Turns() int { return c.turns }

// Pending returns the prompt of the last turn, and true, if that turn has not
// ended: its process ended, the turn was interrupted, or it waits for an answer.
func (c *Conversation) Pending() (actors.Prompt, bool) {
	if c.pending == nil {
		return actors.Prompt{}, false
	}
	prompt := *c.pending
	prompt.History = nil
	return prompt, true
}

// Ask runs the next turn: a run in which the agent is called with the text and
// the history. A turn that fails adds nothing to the history. If a turn stops
// without an outcome, Ask returns an *[core.InterruptedError], and the turn is
// pending. While a turn is pending, Ask fails with [ErrPending].
func (c *Conversation) Ask(ctx context.Context, text string, parts ...actors.Part) (actors.Answer, error) {
	return c.Send(ctx, actors.Ask(text, parts...))
}

// Send is like Ask, but takes a whole prompt, which may contain options. If the prompt has a
// history, it is replaced by the conversation's history.
func (c *Conversation) Send(ctx context.Context, prompt actors.Prompt) (actors.Answer, error) {
	if err := c.restore(ctx); err != nil { // another process may have begun or continued the conversation
		return actors.Answer{}, fmt.Errorf("conversation %q: turn %d: %w", c.id, c.turns, err)
	}
	if c.pending != nil {
		return actors.Answer{}, ErrPending
	}
	parts, err := keepParts(ctx, c.store, prompt.Parts)
	if err != nil {
		return actors.Answer{}, fmt.Errorf("conversation %q: %w", c.id, err)
	}
	prompt.Parts, prompt.History = parts, nil
	c.turns++
	return c.turn(ctx, prompt)
}

// Continue continues the pending turn in its run. Calls that already have an outcome
// in the run are not made again. If no turn is pending, Continue fails with
// [ErrNothingPending].
func (c *Conversation) Continue(ctx context.Context) (actors.Answer, error) {
	if c.pending == nil {
		return actors.Answer{}, ErrNothingPending
	}
	return c.turn(ctx, *c.pending)
}

// turn begins or resumes the run of the last turn.
func (c *Conversation) turn(ctx context.Context, prompt actors.Prompt) (actors.Answer, error) {
	c.pending = &prompt
	metadata := c.metadata(c.lastCompleted, c.agent.Name())
	metadata.Custom[maxKey] = strconv.Itoa(c.most)
	opts := append([]state.Option{state.WithMetadata(metadata)}, c.options.run...)
	st, err := state.Open(ctx, c.store, c.runID(c.turns), opts...)
	if errors.Is(err, state.ErrCancelled) {
		c.pending = nil
		return actors.Answer{}, err
	} else if err != nil {
		return actors.Answer{}, err
	}
	defer st.Close() //nolint:errcheck // for a handler that calls runtime.Goexit; otherwise the run is closed below
	with := prompt
	with.Before = c.history
	answer, err := call(st.Context(ctx), c.store, c.agent, with)
	closeErr := st.Close()
	if st.Status() != snapshot.StatusCancelled && (core.IsSuspension(err) || errors.Is(err, core.ErrStorage)) {
		return actors.Answer{}, errors.Join(err, closeErr)
	}
	c.pending = nil
	if err == nil {
		c.lastCompleted = c.turns
		c.history = lastMessages(slices.Concat(c.history, shortened(answer.Messages, c.options.maxMessages)), c.options.maxMessages)
	}
	return answer, errors.Join(err, closeErr)
}

// Registered so that errors.Is also matches these errors when they are read from records.
func init() {
	record.RegisterError("conversation.ErrPending", ErrPending)
	record.RegisterError("conversation.ErrNothingPending", ErrNothingPending)
}
