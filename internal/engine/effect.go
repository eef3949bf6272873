package engine

import (
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/internal/schema"
	"github.com/reprise-go/reprise/record"
)

// This file handles calls whose effects must not be repeated. When a call of an irreversible actor
// begins for the first time, it looks for effects of earlier calls of that actor, in earlier
// attempts of the surrounding calls or in the parents of a fork. If it finds such an effect, it
// takes the effect over, or asks somebody what to do.

// An EffectQuery is a search for effects that a call might repeat. The call belongs to an
// irreversible actor and is about to begin.
type EffectQuery struct {
	Identity record.Hash // identity of the call's input
	Declared bool        // the actor itself defines the identity of its input

	// Take identifies the effect to take. It is nil to search for one.
	Take *record.Effect
}

// A FoundEffect is an effect that a call might repeat.
type FoundEffect struct {
	record.Effect
	TakeOver bool // take over the effect without asking
	Same     bool // the effect comes from a call with the same input
	Here     bool // it comes from a call at the same place
}

// takeEffect looks for an effect that the call might repeat. If ended is set or err is not nil, the
// call must not be made: the call has taken over the effect, has failed, or is suspended until
// somebody decides.
func (c *Call) takeEffect(p *record.Progress, s *Scope) (ended bool, err error) {
	if !c.mayRepeatEffect() {
		return false, nil
	}
	q := EffectQuery{Declared: c.typed.DeclaresIdentity()}
	if q.Identity, err = c.inputIdentity(); err != nil {
		return false, nil //nolint:nilerr // this is a failure of the call, which checkPreconditions reports
	}
	for {
		found, err := c.root.run.Effect(s, q)
		if err != nil {
			return true, c.halt(err)
		}
		if found == nil {
			return false, nil
		}
		if !found.InDoubt && !found.NoOutput {
			found.NoOutput = !c.fitsOutput(found.Output)
		}
		var ended, again bool
		if found.TakeOver && !found.NoOutput {
			ended, again, err = c.takeOver(p, s, found, Result{Stage: record.StageHandler, Kept: found.kept()}, "")
		} else {
			ended, again, err = c.decideAbout(p, s, found)
		}
		if !again {
			return ended, err
		}
	}
}

// mayRepeatEffect reports whether the call's actor is irreversible and there may be effects that
// the call would repeat.
func (c *Call) mayRepeatEffect() bool {
	settings := c.root.settings
	if !c.spec.Irreversible || c.root.isOutside() || settings.Replays {
		return false
	}
	if settings.Effects {
		return true
	}
	for s := c.parent; s.call != nil; s = s.call.parent {
		if s.attempt > 0 {
			return true
		}
	}
	return false
}

// fitsOutput decodes the output of an effect as the output of the call. It reports whether the
// output type can hold all of it.
func (c *Call) fitsOutput(encoded []byte) bool {
	lost, err := c.typed.DecodeOutput(encoded)
	if err == nil && len(lost) == 0 {
		return true
	}
	c.typed.Clear()
	return false
}

func (f *FoundEffect) kept() *KeptOutput {
	if f.Artifact != "" {
		return &KeptOutput{Artifact: f.Artifact}
	}
	return &KeptOutput{Encoded: f.Output}
}

// takeOver completes the call with the effect. again is set if another call has taken over the
// effect in the meantime.
func (c *Call) takeOver(p *record.Progress, s *Scope, found *FoundEffect, r Result, message string) (ended, again bool, err error) {
	place := found.Place()
	taken, err := c.root.run.Effect(s, EffectQuery{Take: place})
	switch {
	case err != nil:
		return true, false, c.halt(err)
	case taken == nil:
		c.typed.Clear()
		return false, true, nil
	}
	r.effect = place
	if message == "" {
		message = "took over the effect of " + found.String()
	}
	return true, false, c.complete(p, s, &attemptEnd{Result: r}, message)
}

// decideAbout asks for a decision about an effect, or applies the actor's policy.
func (c *Call) decideAbout(p *record.Progress, s *Scope, found *FoundEffect) (ended, again bool, err error) {
	switch c.spec.InDoubt {
	case InDoubtRetry:
		return c.makeInstead(found)
	case InDoubtFail:
		return true, false, c.refuse(p, s, Result{Err: fmt.Errorf("it might repeat the effect of %s, %s", found, found.describe()), Stage: record.StageEntry}, record.ReasonInDoubt)
	}
	q, err := c.effectQuestion(found)
	if err != nil {
		return true, false, c.halt(err)
	}
	var answer answeredInDoubt
	e, err := s.ask(s.context(), q, DefaultAnswer{}, nil, c.readDecision(&q, &answer))
	switch {
	case err != nil:
		return true, false, c.notRecorded(s, record.StatusAwaiting, err)
	case e != nil:
		c.typed.Clear()
		return true, false, c.suspend(p, s, nil, e, record.StageEntry)
	case answer.decision == decidedRunAgain:
		return c.makeInstead(found)
	case answer.decision == decidedFailed:
		return true, false, c.refuse(p, s, Result{Err: answer.failure(), Stage: record.StageEntry}, record.ReasonInDoubt)
	}
	r := Result{Stage: record.StageHandler, Kept: found.kept()}
	if answer.decision == decidedCompleted {
		if r = c.typed.KeepOutput(s.context()); r.Err != nil {
			return true, false, c.halt(r.Err) // the answer is kept until it can be recorded
		}
	}
	return c.takeOver(p, s, found, r, fmt.Sprintf("took over the effect of %s, as answered to %s", found, q.ID))
}

// makeInstead allows the call to be made. If the effect in doubt comes from the same call, with the
// same input, the call replaces the effect and thereby settles the doubt.
func (c *Call) makeInstead(found *FoundEffect) (ended, again bool, err error) {
	c.typed.Clear()
	if found.InDoubt && found.Same && found.Here {
		c.replaces = found.Place()
	}
	return false, false, nil
}

// describe describes the call that had the effect.
func (f *FoundEffect) describe() string {
	with := "another input"
	if f.Same {
		with = "the same input"
	}
	if f.InDoubt {
		return "which began with " + with + ", and may have taken effect"
	}
	return "which completed with " + with
}

// effectQuestion returns the question of whether the call takes over the effect. The question's ID
// contains the effect, because after a resume the question may be about a different effect.
func (c *Call) effectQuestion(found *FoundEffect) (Question, error) {
	input, err := c.typed.EncodeInput()
	if err != nil {
		return Question{}, err
	}
	about := found.Place()
	about.InDoubt, about.NoOutput = found.InDoubt, found.NoOutput
	produced := ""
	if about.CanBeTakenOver() {
		produced = " and returned " + record.Preview(found.Output)
	}
	return Question{
		ID: fmt.Sprintf("%s%s:%s", c.address, effectMark, found), Awaits: record.AwaitDecision,
		Text: fmt.Sprintf("%s %q has not begun: it might repeat the effect of %s, %s%s",
			strings.TrimSuffix(c.spec.Kind.String(), "_call"), c.spec.Name, found, found.describe(), produced),
		Schema:  schema.ForDecision(c.typed.OutputSchema(), about.CanBeTakenOver()),
		InDoubt: &record.CallInDoubt{Kind: c.spec.Kind, Name: c.spec.Name, Input: input, Effect: about},
	}, nil
}
