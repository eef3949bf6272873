package core

import (
	"context"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// typedCall is a call with its types. One allocation holds the call, its
// first attempt, its input and its output.
type typedCall[In, Out any] struct {
	call  call
	typed typed[In, Out]
}

// result returns what a call that ended with err returns.
func (t *typedCall[In, Out]) result(err error) (Out, error) {
	if err != nil {
		var zero Out
		return zero, err
	}
	return t.typed.out, nil
}

// typed are the [values] of a call.
type typed[In, Out any] struct {
	_          [0]func() // not comparable, as a call
	definition *Definition[In, Out]
	in         In
	out        Out
}

func (t *typed[In, Out]) input() any  { return t.in }
func (t *typed[In, Out]) output() any { return t.out }
func (t *typed[In, Out]) into() any   { return &t.out }

func (t *typed[In, Out]) identity() any { return t.definition.identity(t.in) }

func (t *typed[In, Out]) require(ctx context.Context) error {
	for _, condition := range t.definition.requires {
		if err := condition(ctx, t.in); err != nil {
			return err
		}
	}
	return nil
}

func (t *typed[In, Out]) handle(ctx context.Context) (err error) {
	t.out, err = t.definition.handler(ctx, t.in)
	return err
}

func (t *typed[In, Out]) ensure(ctx context.Context) error {
	for _, condition := range t.definition.ensures {
		if err := condition(ctx, t.in, t.out); err != nil {
			return err
		}
	}
	return nil
}

func (t *typed[In, Out]) lookUp(ctx context.Context) (found bool, err error) {
	t.out, found, err = t.definition.lookUp(ctx, t.in)
	return found, err
}

func (t *typed[In, Out]) compensate(at *engine.Scope, nth int, found *record.Progress, inDoubt bool) error {
	if inDoubt {
		return t.definition.compensateInDoubt(at, nth, found, t.in)
	}
	return t.definition.compensate(at, nth, found, t.in, t.out)
}

// typedApart is an [engine.Apart]. It has its own output: if the attempt is abandoned, the next
// attempt writes to the output of the call.
type typedApart[In, Out any] struct {
	engine.Async
	call  *call
	of    *typed[In, Out]
	typed typed[In, Out]
}

func (t *typed[In, Out]) apart(c *call) engine.Apart {
	return &typedApart[In, Out]{call: c, of: t, typed: typed[In, Out]{definition: t.definition, in: t.in}}
}

// Pass implements [engine.Apart].
func (p *typedApart[In, Out]) Pass(ctx context.Context) engine.Result {
	return p.call.pass(ctx, &p.typed)
}

// Take implements [engine.Apart].
func (p *typedApart[In, Out]) Take() { p.of.out = p.typed.out }
