package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Input is the input of a [Program]: a prompt without history.
type Input actors.Prompt

// Artifacts returns the references to the data of parts that [Next] has stored. A runner records
// them when the turn is started.
func (in Input) Artifacts() (references []string) {
	for _, part := range in.Parts {
		if reference, isOurs := strings.CutPrefix(part.URL, artifactURL); isOurs {
			references = append(references, reference)
		}
	}
	return references
}

// A Program executes each turn of a conversation as a run of a runner:
//
//	runner.Register(r, conversation.NewProgram(r.Store(), assistant))
//
// The program has the agent's name. [Next] returns the run to start for a turn. A run of the
// program that is not a turn has no history.
type Program struct {
	store   snapshot.Store
	agent   Agent
	options options
}

// NewProgram returns the program for an agent's conversations in a store. WithRunOptions is
// ignored; the runner's options apply instead. NewProgram panics for the same reasons as [Open].
func NewProgram(store snapshot.Store, agent Agent, opts ...Option) *Program {
	return &Program{store, agent, optionsOf(opts)}
}

// Name returns the name of the agent.
func (p *Program) Name() string { return p.agent.Name() }

// Description returns the description of the agent, which may be empty.
func (p *Program) Description() string { return p.agent.Description() }

// DecodeInput decodes a prompt from JSON, such as {"text": "hello"}.
func (p *Program) DecodeInput(input json.RawMessage) (Input, error) {
	prompt, err := p.agent.DecodeInput(input)
	return Input(prompt), err
}

// InputSchema returns the JSON schema against which DecodeInput checks an input, or
// nil if there is none.
func (p *Program) InputSchema() json.RawMessage { return p.agent.InputSchema() }

// Compensations returns the agent's compensations; see [actors.Agent.Compensations].
func (p *Program) Compensations() []*core.Compensation { return p.agent.Compensations() }

// Call executes the turn for the run that ctx belongs to.
func (p *Program) Call(ctx context.Context, in Input) (actors.Answer, error) {
	prompt := actors.Prompt(in)
	h := state.From(ctx)
	if h == nil {
		return actors.Answer{}, core.ErrNoRun
	}
	metadata := h.Metadata()
	if id := metadata.Custom[threadKey]; id != "" {
		var err error
		t := thread{store: p.store, id: id}
		if prompt.Before, err = t.history(ctx, lastCompletedBefore(&metadata), p.options.maxMessages); err != nil {
			reason := record.InterruptReplay
			if snapshot.IsTemporary(err) {
				reason = record.InterruptStore
			}
			return actors.Answer{}, interrupt(ctx, reason, fmt.Errorf("conversation %q: read the history: %w", id, err))
		}
	}
	return call(ctx, p.store, p.agent, prompt)
}

// A Turn is a run to start for a turn of a conversation.
type Turn struct {
	RunID    string
	Number   int // the number of the turn, counted from 1
	Input    Input
	Metadata snapshot.Metadata
}

// Next returns the next turn of a conversation, or the first turn of a new one. Next also stores
// the data of the large parts of the prompt. number specifies the turn, so that a turn whose start
// was not acknowledged can be started again; 0 means the turn after the last one. If the specified
// turn is new and the last turn has not ended, the error is [ErrPending]. If two callers receive
// the same turn for different prompts and start it, the runner returns runner.ErrStarted to one of
// them.
func Next(ctx context.Context, store snapshot.Store, id string, prompt actors.Prompt, number int) (Turn, error) {
	next, err := nextTurn(ctx, thread{store: store, id: id}, prompt, number)
	if err != nil {
		return Turn{}, fmt.Errorf("conversation %q: %w", record.Truncate(id, maxID), err)
	}
	return next, nil
}

// ErrTurn is returned by [Next] if number is neither the number of an existing turn nor that of the
// next one.
var ErrTurn = errors.New("there is no such turn")

// maxID limits how many bytes of a conversation's ID are repeated in errors.
const maxID = 128

func nextTurn(ctx context.Context, t thread, prompt actors.Prompt, number int) (Turn, error) {
	if err := snapshot.CheckRunID(t.runID(1)); err != nil {
		return Turn{}, err
	}
	if len(prompt.History) > 0 {
		return Turn{}, errors.New("the prompt has a history, but the conversation has its own")
	}
	last, err := t.last(ctx)
	if err != nil {
		return Turn{}, err
	}
	if number == 0 {
		number = last + 1
	}
	after := 0
	switch {
	case number < 1 || number > last+1:
		return Turn{}, fmt.Errorf("%w: %d; the next is %d", ErrTurn, number, last+1)
	case number <= last: // the turn was already started
		info, found, err := t.info(ctx, number)
		if err != nil || !found {
			return Turn{}, errors.Join(err, fmt.Errorf("%w: %d", ErrTurn, number))
		}
		after = lastCompletedBefore(&info.Metadata)
	default:
		for found := false; last > 0 && !found; last-- { // a listed turn may have been removed
			var info snapshot.Info
			if info, found, err = t.settledInfo(ctx, last); err != nil {
				return Turn{}, err
			}
			if found && !info.Status.HasEnded() {
				return Turn{}, fmt.Errorf("turn %d: %w", last, ErrPending)
			}
			after = t.afterOf(&info)
		}
	}
	if prompt.Parts, err = keepParts(ctx, t.store, prompt.Parts); err != nil {
		return Turn{}, err
	}
	return Turn{t.runID(number), number, Input(prompt), t.metadata(after, "")}, nil
}

// A State is the state of a turn.
type State struct {
	Number  int             `json:"turn"`
	RunID   string          `json:"run_id"`
	Program string          `json:"program,omitempty"`
	Status  snapshot.Status `json:"status"`
	Text    string          `json:"text"`              // the text of the prompt
	Answer  string          `json:"answer,omitempty"`  // the answer, if the turn completed
	Error   string          `json:"error,omitempty"`   // why the turn failed or was cancelled
	Message string          `json:"message,omitempty"` // the value of MessageKey in the run's metadata
}

// Read returns the last turns of a conversation in order, at most limit of them, or all
// turns if limit is 0. If there are none, the error is snapshot.ErrNotFound.
func Read(ctx context.Context, store snapshot.Store, id string, limit int) ([]State, error) {
	turns, err := read(ctx, thread{store: store, id: id}, limit)
	if err != nil {
		return nil, fmt.Errorf("conversation %q: %w", record.Truncate(id, maxID), err)
	}
	return turns, nil
}

func read(ctx context.Context, t thread, limit int) ([]State, error) {
	if snapshot.CheckRunID(t.runID(1)) != nil {
		return nil, snapshot.ErrNotFound
	}
	last, err := t.last(ctx)
	if err != nil {
		return nil, err
	}
	if last == 0 {
		return nil, snapshot.ErrNotFound
	}
	first := 1
	if limit > 0 {
		first = max(1, last-limit+1)
	}
	var turns []State
	for n := first; n <= last; n++ {
		info, found, err := t.info(ctx, n)
		if err != nil {
			return nil, err
		}
		if !found { // the turn was removed
			continue
		}
		one := State{Number: n, RunID: info.RunID, Program: info.Program, Status: info.Status, Message: info.Metadata.Custom[MessageKey]}
		if err := t.fill(ctx, &one); err != nil {
			return nil, fmt.Errorf("turn %d: %w", n, err)
		}
		turns = append(turns, one)
	}
	if turns == nil {
		return nil, snapshot.ErrNotFound
	}
	return turns, nil
}

// fill sets the prompt and the answer in s.
func (t thread) fill(ctx context.Context, s *State) error {
	prompt, _, err := t.prompt(ctx, s.Number)
	if err != nil {
		return err
	}
	if prompt != nil {
		s.Text = prompt.Text
	}
	if !s.Status.HasEnded() {
		return nil
	}
	answer, err := state.Result[actors.Answer](ctx, t.store, s.RunID)
	if s.Status == snapshot.StatusCompleted {
		s.Answer = answer.Text
		return err
	}
	if err != nil { // the run ended with this error
		s.Error = err.Error()
	}
	return nil
}

// Registered so that errors.Is also matches ErrTurn in errors read from records.
func init() { record.RegisterError("conversation.ErrTurn", ErrTurn) }
