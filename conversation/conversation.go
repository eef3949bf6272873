package conversation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// ErrPending is returned by [Conversation.Ask] and [Conversation.Send] if the last
// turn has not ended.
var ErrPending = errors.New("conversation: the last turn has not ended; Continue it")

// ErrNothingPending is returned by [Conversation.Continue] if the last turn has
// ended.
var ErrNothingPending = errors.New("conversation: no turn is pending")

// Agent is the kind of agent that a conversation is with; [actors.NewAgent] makes
// one.
type Agent = actors.Agent[actors.Prompt, actors.Answer]

// A Conversation is a sequence of turns. It is for one goroutine. Make one
// with [Open].
type Conversation struct {
	store   snapshot.Store
	id      string
	agent   Agent
	options options

	history []actors.Message
	turns   int            // that have begun
	pending *actors.Prompt // of the last turn, if it has not ended
}

// An Option configures a conversation.
type Option func(*options)

type options struct {
	maxMessages int
	run         []state.Option
}

// WithMaxMessages bounds the history: the model gets at most the last n messages of
// earlier turns. The first of them is a message of the user, so that every tool
// call has its result. Defaults to 100. Instructions are not part of the history.
// Open panics if n is below 1.
func WithMaxMessages(n int) Option { return func(o *options) { o.maxMessages = n } }

// WithRunOptions gives options to the run of each turn, such as
// state.WithPublisher.
func WithRunOptions(opts ...state.Option) Option {
	return func(o *options) { o.run = append(o.run, opts...) }
}

const defaultMaxMessages = 100

// Open begins the conversation with that ID, or restores it. The run of turn n has
// the ID id-n, with n in four digits or more, so id must be a valid beginning of a
// run ID.
func Open(ctx context.Context, store snapshot.Store, id string, agent Agent, opts ...Option) (*Conversation, error) {
	c := &Conversation{store: store, id: id, agent: agent, options: options{maxMessages: defaultMaxMessages}}
	for _, option := range opts {
		option(&c.options)
	}
	if c.options.maxMessages < 1 {
		panic(fmt.Sprintf("conversation: WithMaxMessages(%d): it must be 1 or more", c.options.maxMessages))
	}
	page, err := store.List(ctx, snapshot.Filter{Tags: []string{c.tag()}})
	if err != nil {
		return nil, fmt.Errorf("conversation %q: %w", id, err)
	}
	for i := range page.Runs {
		c.turns = max(c.turns, c.turnOf(page.Runs[i].RunID))
	}
	if err := c.restore(ctx); err != nil {
		return nil, fmt.Errorf("conversation %q: turn %d: %w", id, c.turns, err)
	}
	return c, nil
}

// tag is that of the runs of the conversation.
func (c *Conversation) tag() string { return "conversation:" + c.id }

// RunID returns the ID of the run of the last turn; it is empty before the first.
// While the turn is pending, its questions are answered there, see state.Answer.
func (c *Conversation) RunID() string {
	if c.turns == 0 {
		return ""
	}
	return c.runID(c.turns)
}

func (c *Conversation) runID(turn int) string { return fmt.Sprintf("%s-%04d", c.id, turn) }

// turnOf is the number of the turn that a run is, 0 for none.
func (c *Conversation) turnOf(runID string) int {
	digits, ok := strings.CutPrefix(runID, c.id+"-")
	turn, err := strconv.Atoi(digits)
	if !ok || err != nil || c.runID(turn) != runID {
		return 0
	}
	return turn
}

// restore finds out what became of the last turn. A turn whose process ended
// before its agent was called does not count as a turn.
func (c *Conversation) restore(ctx context.Context) error {
	for ; c.turns > 0; c.turns-- {
		run, err := c.store.Load(ctx, c.runID(c.turns))
		if err != nil {
			return err
		}
		stored, err := run.Snapshot()
		if err != nil {
			return err
		}
		call := rootCall(stored.Records)
		if call == nil {
			continue
		}
		var prompt actors.Prompt
		if call.Detail == nil {
			return errors.New("its record has no input")
		}
		if err := record.Decode(call.Detail.Input, &prompt); err != nil {
			return fmt.Errorf("its input: %w", err)
		}
		c.pending = &prompt
		if !hasEnded(stored.Records, call.Address) {
			return nil
		}
		// It is recalled: nothing runs again.
		if _, err := c.turn(ctx, prompt); c.pending != nil {
			return err
		}
		return nil
	}
	return nil
}

// rootCall is the first record of the call of the agent, nil if there is none.
func rootCall(records []record.Record) *record.Record {
	for i := range records {
		if records[i].Kind == record.KindAgent {
			return &records[i]
		}
	}
	return nil
}

func hasEnded(records []record.Record, call record.Address) bool {
	for i := range records {
		if records[i].Address == call && records[i].IsOutcome() {
			return true
		}
	}
	return false
}

// History returns the messages of the turns that have ended, within the bound. They
// are sent to the model before those of the next turn.
func (c *Conversation) History() []actors.Message { return append([]actors.Message(nil), c.history...) }

// Turns returns the number of turns that have begun.
func (c *Conversation) Turns() int { return c.turns }

// Pending returns the prompt of the last turn if that has not ended: its process
// ended, it was interrupted, or it waits for an answer.
func (c *Conversation) Pending() (actors.Prompt, bool) {
	if c.pending == nil {
		return actors.Prompt{}, false
	}
	prompt := *c.pending
	prompt.History = nil
	return prompt, true
}

// Ask makes the next turn: a run in which the agent is called with the text
// and the history. A turn that fails leaves nothing in the history. One that
// stops without an outcome, with an *[core.InterruptedError], is pending.
// While one is, Ask fails with [ErrPending].
func (c *Conversation) Ask(ctx context.Context, text string, parts ...actors.Part) (actors.Answer, error) {
	return c.Send(ctx, actors.Ask(text, parts...))
}

// Send is Ask with a whole prompt, which may have options. A history in the prompt
// is replaced by that of the conversation.
func (c *Conversation) Send(ctx context.Context, prompt actors.Prompt) (actors.Answer, error) {
	if c.pending != nil {
		return actors.Answer{}, ErrPending
	}
	prompt.History = c.History()
	c.turns++
	return c.turn(ctx, prompt)
}

// Continue goes on with the pending turn, in its run. Calls that have an outcome
// there are not made again. If no turn is pending, it fails with
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
	opts := append([]state.Option{state.WithMetadata(state.Metadata{Tags: []string{c.tag()}, Pipeline: c.agent.Name()})}, c.options.run...)
	st, err := state.Open(ctx, c.store, c.runID(c.turns), opts...)
	if err != nil {
		return actors.Answer{}, err
	}
	answer, err := c.agent.Call(st.Context(ctx), prompt)
	closeErr := st.Close()
	if core.IsSuspension(err) || errors.Is(err, core.ErrStorage) {
		return actors.Answer{}, errors.Join(err, closeErr)
	}
	c.pending = nil
	if err == nil {
		c.history = bounded(answer.Messages, c.options.maxMessages)
	} else {
		c.history = prompt.History
	}
	return answer, errors.Join(err, closeErr)
}

// bounded are the last messages, at most so many, from one of the user on.
func bounded(messages []actors.Message, most int) []actors.Message {
	first := max(0, len(messages)-most)
	for first < len(messages) && messages[first].Role != actors.RoleUser {
		first++
	}
	return messages[first:]
}

// They are found in errors of calls that were recorded, too.
func init() {
	record.RegisterError("conversation.ErrPending", ErrPending)
	record.RegisterError("conversation.ErrNothingPending", ErrNothingPending)
}
