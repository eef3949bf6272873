package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-go/reprise/core"
)

// ErrTurnLimit is found by errors.Is in the failure of an agent whose model
// still asked for tools after the last turn it had.
var ErrTurnLimit = errors.New("turn limit reached")

// loop is the handler of an agent that NewAgent made.
type loop struct {
	llm          LLM
	tools        ToolSet
	instructions string
	maxTurns     int
	workers      int
	stopOnError  bool
}

func (l *loop) run(ctx context.Context, prompt Prompt) (Answer, error) {
	var answer Answer
	conversation := l.begin(prompt)
	instructions := len(conversation) - len(prompt.History) - 1
	for answer.Turns < l.maxTurns {
		// A copy: what was recorded of this turn must not change in the next.
		resp, err := l.llm.Call(ctx, Request{Messages: slices.Clone(conversation), Tools: l.tools.Describe()})
		if err != nil {
			return Answer{}, err
		}
		answer.Turns++
		answer.Usage = answer.Usage.Plus(resp.Usage)
		conversation = append(conversation, resp.Message)
		if len(resp.Message.ToolCalls) == 0 {
			answer.Text = resp.Message.Text
			answer.Messages = conversation[instructions:]
			return answer, nil
		}
		results, err := l.callTools(ctx, resp.Message.ToolCalls)
		if err != nil {
			return Answer{}, err
		}
		conversation = append(conversation, results...)
	}
	return Answer{}, core.Permanent(fmt.Errorf("actors: the model still asks for tools after %d turns: %w; raise it with WithMaxTurns", l.maxTurns, ErrTurnLimit))
}

func (l *loop) begin(prompt Prompt) []Message {
	var conversation []Message
	if l.instructions != "" {
		conversation = append(conversation, System(l.instructions))
	}
	conversation = append(conversation, prompt.History...)
	return append(conversation, User(prompt.Text))
}

// callTools answers every tool call of one turn, in the order of the calls.
// The addresses are claimed in that order too, before anything runs; so they
// are the same in every run.
func (l *loop) callTools(ctx context.Context, calls []ToolCall) ([]Message, error) {
	results := make([]Message, len(calls))
	prepared := make([]PreparedFunction, len(calls))
	for i, call := range calls {
		var err error
		if prepared[i], err = l.prepare(ctx, call); err != nil {
			results[i] = errorResult(call.ID, err)
		}
	}
	failures := make([]error, len(calls))
	failed := func(i int, err error) {
		results[i], failures[i] = errorResult(calls[i].ID, err), l.fatal(err)
	}
	eachLimited(len(calls), l.workers, func(i int) {
		if prepared[i] == nil {
			return
		}
		text, err := prepared[i](ctx)
		if err != nil {
			failed(i, err)
			return
		}
		results[i] = ToolResult(calls[i].ID, text)
	}, failed)
	// A suspension goes first: it is no failure of the agent.
	for _, err := range failures {
		if core.IsSuspension(err) {
			return nil, err
		}
	}
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (l *loop) prepare(ctx context.Context, call ToolCall) (PreparedFunction, error) {
	f, ok := l.tools.Lookup(call.Name)
	switch {
	case !ok && l.tools.Len() == 0:
		return nil, fmt.Errorf("there is no tool %q; there are none at all", core.Truncate(call.Name, 80))
	case !ok:
		return nil, fmt.Errorf("there is no tool %q; there are: %s", core.Truncate(call.Name, 80), l.tools.names())
	}
	prepared, err := f.Prepare(ctx, call.Arguments)
	if err == nil && prepared == nil {
		err = fmt.Errorf("the tool %q prepared nothing", call.Name)
	}
	return prepared, err
}

// fatal returns err if the model cannot be told of it: a suspension is fed
// back to no model, and a call that is not recorded did not take place.
func (l *loop) fatal(err error) error {
	var failed *core.CallError
	if l.stopOnError || core.IsSuspension(err) || errors.Is(err, core.ErrAttemptOver) ||
		errors.As(err, &failed) && failed.Stage == core.StageRecord {
		return err
	}
	return nil
}

// errorResult tells the model what went wrong, in the words of the tool:
// addresses and attempts are not its business.
func errorResult(callID string, err error) Message {
	for failed := (*core.CallError)(nil); errors.As(err, &failed); {
		err = failed.Err
	}
	m := ToolResult(callID, "error: "+err.Error())
	m.IsError = true
	return m
}
