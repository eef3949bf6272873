package browser

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// A payment is the output of the call in doubt.
type payment struct {
	ID   int `json:"id"`
	Card struct {
		Owner string `json:"owner"`
		Last4 string `json:"last4,omitempty"`
	} `json:"card"`
}

// inDoubt returns the directory of a run that stopped during its payment. It also returns a
// function that continues the run, and returns the payment and the number of times that it was
// made.
func inDoubt(t *testing.T) (dir string, continueRun func() (got payment, paid int, err error)) {
	t.Helper()
	dir = t.TempDir()
	paid := 0
	continueRun = func() (payment, int, error) {
		st, err := state.Open(t.Context(), newStore(t, dir), "r")
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		got, err := core.Step(st.Context(t.Context()), "pay", func(ctx context.Context) (payment, error) {
			if paid++; paid == 1 {
				st.Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
			}
			return payment{ID: paid}, ctx.Err()
		}, core.StepInDoubt(core.InDoubtAsk), core.StepInput(City{"Oslo"}))
		return got, paid, err
	}
	_, _, err := continueRun()
	require.ErrorIs(t, err, core.ErrInterrupted)
	_, _, err = continueRun()
	require.ErrorIs(t, err, core.ErrAwaiting)
	return dir, continueRun
}

// TestACallInDoubtIsDecidedOnThePage checks that the page shows the call in doubt, accepts each of
// the possible decisions, and accepts an output only if it fits.
func TestACallInDoubtIsDecidedOnThePage(t *testing.T) {
	t.Parallel()
	const out = ".question .answer > fieldset > fieldset" // the field of the call's output
	for name, c := range map[string]struct {
		decide func(p *tab)
		want   payment
		paid   int
		fails  string
	}{
		"it took effect": {func(p *tab) {
			p.click(".question .send")
			p.waitProblem("Decision", "this is needed")
			p.choose(".question .answer select", "it took effect")
			p.click(".question .send")
			p.waitProblem("id", "this is needed")
			p.click(out + " > .field:nth-of-type(1) input")
			p.keys("4711")
			p.click(out + " fieldset .field:nth-of-type(1) input")
			p.keys("Ada")
			p.click(".question .send")
		}, payment{ID: 4711, Card: struct {
			Owner string `json:"owner"`
			Last4 string `json:"last4,omitempty"`
		}{Owner: "Ada"}}, 1, ""},
		"run it again": {func(p *tab) {
			p.choose(".question .answer select", "run it again")
			assert.True(t, eval[bool](p, `document.querySelector(`+quoted(out)+`).offsetParent === null`), "no output is asked for")
			p.click(".question .send")
		}, payment{ID: 2}, 2, ""},
		"let it fail": {func(p *tab) {
			p.choose(".question .answer select", "let it fail")
			p.click(`.question .answer > fieldset > .field:last-of-type input`)
			p.keys("the bank says no")
			p.click(".question .send")
		}, payment{}, 1, "the bank says no"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, continueRun := inDoubt(t)
			p := open(t, siteOf(t, dir).url())
			p.wait(`document.querySelector(".question .answer select")`)
			p.wait(`document.querySelector(".question .answer select")`)
			p.waitText(".question .doubt", "step pay")
			p.waitText(".question .doubt", "1 attempt begun")
			p.waitText(".question .doubt", `input {"name":"Oslo"}`)
			p.settle()
			c.decide(p)
			p.waitText(".question .answer", "Answered. No program has continued the run yet")
			got, paid, err := continueRun()
			if c.fails == "" {
				require.NoError(t, err)
				assert.Equal(t, c.want, got)
			} else {
				require.ErrorContains(t, err, c.fails)
			}
			assert.Equal(t, c.paid, paid, "how often money was paid")
		})
	}
}
