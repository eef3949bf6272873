package state_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// review asks one model the same question, once with each of the instructions, and then stops.
func review(asked *[]string, stopAt string, instructions ...string) actors.Agent[string, string] {
	model := actors.NewLLM("model", func(ctx context.Context, req actors.Request) (actors.Response, error) {
		text := req.Messages[0].Text
		*asked = append(*asked, text)
		if text == stopAt {
			state.From(ctx).Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
			return actors.Response{}, ctx.Err()
		}
		return actors.Response{Message: actors.Assistant("says " + text)}, nil
	})
	return decorators.Agent("review", "", func(ctx context.Context, in string) (string, error) {
		out := ""
		for _, text := range instructions {
			answer, err := model.Call(ctx, actors.Request{Messages: []actors.Message{actors.System(text), actors.User(in)}})
			if err != nil {
				return out, err
			}
			out += text + " " + answer.Message.Text + "; "
		}
		_, err := core.Await[bool](ctx, "publish?")
		return out, err
	})
}

// The requests differ only in their instructions, which do not belong to the identity of a call.
// Goroutines may also make the calls in another order.
func TestSwappedRequestsAreNotAnsweredFromEachOthersRecords(t *testing.T) {
	for name, c := range map[string]struct {
		policy  state.DivergencePolicy
		stopAt  string   // where the first opening stops; if empty, it stops at the question
		then    []string // the order of calls in the second opening
		address string   // address of the call that diverges
		asked   []string // in the second opening
	}{
		"swapped":                    {state.DivergenceFail, "", []string{"con", "pro"}, "review/model", nil},
		"one without an outcome yet": {state.DivergenceFail, "con", []string{"con", "pro"}, "review/model", nil},
		"one removed":                {state.DivergenceFail, "", []string{"con"}, "review/model", nil},
		"one inserted":               {state.DivergenceFail, "", []string{"more", "pro", "con"}, "review/model#2", nil},
		"reworded":                   {state.DivergenceFail, "", []string{"for", "against"}, "", nil},
		"trusted":                    {state.DivergenceTrust, "", []string{"con", "pro"}, "review/model", nil},
		"made again":                 {state.DivergenceRerun, "", []string{"con", "pro"}, "review/model", []string{"con", "pro"}},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			var asked []string
			open := func(stopAt string, order ...string) (*state.ExecutionState, string, error) {
				st, err := state.Open(t.Context(), store, "run", state.WithDivergence(c.policy))
				require.NoError(t, err)
				asked = nil
				out, err := review(&asked, stopAt, order...).Call(st.Context(t.Context()), "contract")
				require.NoError(t, st.Close())
				return st, out, err
			}
			_, _, err := open(c.stopAt, "pro", "con")
			require.ErrorIs(t, err, core.ErrInterrupted)

			differences, err := state.Validate(t.Context(), store, "run", func(ctx context.Context) error {
				_, err := review(&asked, "", c.then...).Call(ctx, "contract")
				return err
			})
			require.NoError(t, err)
			found := false
			for _, d := range differences {
				found = found || d.Field == "swap" && d.Address.String() == c.address
			}
			assert.Equal(t, c.address != "", found, "%+v", differences)

			st, _, err := open("", c.then...)
			assert.Equal(t, c.asked, asked)
			var diverged []string
			for _, a := range st.Report().Diverged {
				diverged = append(diverged, a.String())
			}
			switch {
			case c.address == "":
				require.ErrorIs(t, err, core.ErrAwaiting)
				assert.Empty(t, diverged)
				assert.Len(t, st.Report().Reworded, 2)
				return
			case c.policy == state.DivergenceFail:
				var d *core.DivergenceError
				require.ErrorAs(t, err, &d)
				assert.Equal(t, "swap", d.How)
				assert.Equal(t, c.address, d.Address.String())
				assert.Equal(t, "review/model", d.ForkAddress().String())
			default:
				require.ErrorIs(t, err, core.ErrAwaiting)
			}
			assert.Contains(t, diverged, c.address)
		})
	}
}

// When the run stopped, the second goroutine had not asked yet. In the next opening, it asks first
// and receives the answer to the first goroutine's request. This is noticed only when the first
// goroutine asks again.
func TestASwapWithACallThatHadNotBegunStopsTheRun(t *testing.T) {
	store := memstore.New()
	var asked []string
	model := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		asked = append(asked, req.Messages[0].Text)
		return actors.Response{Message: actors.Assistant("says " + req.Messages[0].Text)}, nil
	})
	program := func(texts ...string) func(context.Context) error {
		agent := decorators.Agent("program", "", func(ctx context.Context, in string) (string, error) {
			for _, text := range texts {
				if _, err := model.Call(ctx, actors.Request{Messages: []actors.Message{actors.System(text), actors.User(in)}}); err != nil {
					return "", err
				}
			}
			state.From(ctx).Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
			return "", ctx.Err()
		})
		return func(ctx context.Context) error { _, err := agent.Call(ctx, "contract"); return err }
	}
	run := func(texts ...string) error {
		st, err := state.Open(t.Context(), store, "run")
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		asked = nil
		return program(texts...)(st.Context(t.Context()))
	}
	require.ErrorIs(t, run("pro"), core.ErrInterrupted)
	differences, err := state.Validate(t.Context(), store, "run", program("con", "pro"))
	require.NoError(t, err)
	var lines []string
	for _, d := range differences {
		lines = append(lines, d.String())
	}
	assert.Contains(t, lines, "program/model#2: swap: recorded another request, now that of program/model")
	var d *core.DivergenceError
	require.ErrorAs(t, run("con", "pro"), &d)
	assert.Equal(t, "program/model#2", d.Address.String())
	assert.Equal(t, "program/model", d.ForkAddress().String())
	assert.Empty(t, asked)
}

// A program asks the same question three times. A deployment rewords the instructions after the
// first answer. The second request has the new instructions, so in each later opening, the first
// call makes the request recorded for the second. Nothing was swapped.
func TestRewordedInstructionsOfOneOpeningAreNotASwapInTheNext(t *testing.T) {
	for name, last := range map[string]string{"unchanged": "Be brief.", "changed back": "Be kind.", "changed again": "Be clear."} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			var asked []string
			open := func(instructions string, stopAt int) (string, error) {
				st, err := state.Open(t.Context(), store, "run")
				require.NoError(t, err)
				defer func() { require.NoError(t, st.Close()) }()
				asked = nil
				model := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
					asked = append(asked, req.Messages[0].Text)
					return actors.Response{Message: actors.Assistant("says " + req.Messages[0].Text)}, nil
				})
				program := decorators.Agent("program", "", func(ctx context.Context, in string) (out string, err error) {
					for i := range 3 {
						if i == stopAt {
							state.From(ctx).Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
							return "", ctx.Err()
						}
						resp, err := model.Call(ctx, actors.Request{Messages: []actors.Message{actors.System(instructions), actors.User(in)}})
						if err != nil {
							return "", err
						}
						out += resp.Message.Text + " "
					}
					return out, nil
				})
				return program.Call(st.Context(t.Context()), "contract")
			}
			_, err := open("Be kind.", 1)
			require.ErrorIs(t, err, core.ErrInterrupted)
			_, err = open("Be brief.", 2)
			require.ErrorIs(t, err, core.ErrInterrupted)
			require.NotErrorIs(t, err, core.ErrDivergence)
			out, err := open(last, -1)
			require.NoError(t, err)
			assert.Equal(t, "says Be kind. says Be brief. says "+last+" ", out)
			assert.Equal(t, []string{last}, asked)
		})
	}
}
