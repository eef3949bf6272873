package actors_test

import (
	"context"
	"testing"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// A run continues even if the instructions change and there is a new tool, but not if the question
// changes.
func TestRewordedInstructionsDoNotStopARun(t *testing.T) {
	asked := 0
	assistant := func(instructions string, stop bool, tools ...actors.Function) actors.Actor[actors.Prompt, actors.Answer] {
		llm := decorators.LLM("model", func(ctx context.Context, req actors.Request) (actors.Response, error) {
			asked++
			last := req.Messages[len(req.Messages)-1]
			if last.Role == actors.RoleTool {
				if stop {
					state.From(ctx).Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
					return actors.Response{}, ctx.Err()
				}
				return says("it is " + last.Text), nil
			}
			return asks(call("echo", `{"n":7}`)), nil
		})
		return actors.NewAgent("assistant", llm, actors.WithInstructions(instructions), actors.WithTools(append(tools, echo())...))
	}
	s := memstore.New()
	run := func(a actors.Actor[actors.Prompt, actors.Answer], question string) (actors.Answer, error) {
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		defer st.Close()
		return a.Event().Execute(st.Context(t.Context()), actors.Ask(question))
	}
	_, err := run(assistant("Call echo.", true), "how many?")
	require.ErrorIs(t, err, core.ErrInterrupted)
	_, err = run(assistant("Call echo.", false), "how much?")
	require.ErrorIs(t, err, core.ErrDivergence)
	require.ErrorContains(t, err, `text: recorded "how many?", now "how much?"`)

	other := decorators.Tool("other", "", func(context.Context, number) (int, error) { return 0, nil })
	answer, err := run(assistant("Please call echo, and be brief.", false, other), "how many?")
	require.NoError(t, err)
	assert.Equal(t, "it is 7", answer.Text)
	assert.Equal(t, 3, asked, "the first turn is recalled, the second is made again")
}

// parcel is the input of the actors in these tests. Its trace is not part of its identity.
type parcel struct {
	Order string `json:"order"`
	Trace string `json:"trace"`
}

func TestIdentityIsWhatTheActorSays(t *testing.T) {
	byOrder := actors.WithIdentity(func(p parcel) any { return p.Order })
	send := func(context.Context, parcel) (string, error) { return "sent", nil }
	approved := decorators.Tool("send", "", send, byOrder, actors.WithApproval())
	for name, actor := range map[string]actors.Actor[parcel, string]{
		"tool":             decorators.Tool("send", "", send, byOrder),
		"agent":            decorators.Agent("send", "", send, byOrder),
		"approved":         approved.Require(func(context.Context, parcel) error { return nil }),
		"approved, ensure": approved.Ensure(func(context.Context, parcel, string) error { return nil }),
	} {
		s := memstore.New()
		run := func(p parcel) error {
			st, err := state.Open(t.Context(), s, "run-1")
			require.NoError(t, err)
			defer st.Close()
			_, err = actor.Event().Execute(st.Context(t.Context()), p)
			return err
		}
		if err := run(parcel{"7", "a"}); err != nil {
			require.ErrorIs(t, err, core.ErrAwaiting, name)
		}
		if err := run(parcel{"7", "b"}); err != nil { // the person was shown a question with the other trace
			require.ErrorContains(t, err, "the question of approve_send: recorded", name)
		}
		require.ErrorIs(t, run(parcel{"8", "a"}), core.ErrDivergence, name)
	}

	prompts := actors.NewAgent("assistant", decorators.LLM("model", func(context.Context, actors.Request) (actors.Response, error) {
		return says("hello"), nil
	}, actors.WithIdentity(func(actors.Request) any { return 1 })), actors.WithIdentity(func(actors.Prompt) any { return 1 }))
	s := memstore.New()
	for _, text := range []string{"one", "two"} {
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		_, err = prompts.Call(st.Context(t.Context()), actors.Ask(text))
		require.NoError(t, err)
		require.NoError(t, st.Close())
	}
}

func TestIdentityThatCannotBeFailsItsCallBeforeAnythingRuns(t *testing.T) {
	for want, f := range map[string]func(parcel) any{
		`identity of the input of "send": panic: oops`:                       func(parcel) any { panic("oops") },
		`identity of the input of "send": codec: a func() cannot be encoded`: func(parcel) any { return func() {} },
	} {
		ran := 0
		send := decorators.Tool("send", "", func(context.Context, parcel) (string, error) { ran++; return "sent", nil }, actors.WithIdentity(f))
		st, err := state.Open(t.Context(), memstore.New(), "run-1")
		require.NoError(t, err)
		_, err = send.Call(st.Context(t.Context()), parcel{})
		var failed *core.CallError
		require.ErrorAs(t, err, &failed)
		assert.ErrorContains(t, err, want)
		assert.Zero(t, ran)
		assert.Equal(t, 0, failed.Attempts)
		require.NoError(t, st.Close())
	}
}

func TestIdentityOfAnotherTypePanicsAndSaysWhatToDo(t *testing.T) {
	for want, opts := range map[string]actors.Option{
		`actors: "send": WithIdentity got a func(string) interface {}, want a func(actors_test.parcel) interface {} for the actor's input`: actors.WithIdentity(func(string) any { return nil }),
	} {
		assert.PanicsWithValue(t, want, func() {
			decorators.Tool("send", "", func(context.Context, parcel) (string, error) { return "", nil }, opts)
		})
	}
	assert.PanicsWithValue(t, "actors: WithIdentity got nil", func() { actors.WithIdentity[string](nil)(nil) })
}
