package state_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// These tests are about outputs that must not be stored. The calls that return them run again.

// secrets is a program whose agent gets a token from a call of the given kind and then uses it. The
// agent is interrupted the first time.
type secrets struct {
	fetched, used int
	again         bool
}

func (s *secrets) program(kind string) body {
	fetch := func(ctx context.Context) (string, error) {
		s.fetched++
		if err := state.Put(ctx, "k", fmt.Sprint("fetch ", s.fetched)); err != nil {
			return "", err
		}
		return "secret-token", nil
	}
	tool := decorators.Tool("fetch", "", func(ctx context.Context, _ struct{}) (string, error) { return fetch(ctx) }, actors.WithNoStore())
	agent := decorators.Agent("fetch", "", func(ctx context.Context, _ struct{}) (string, error) {
		if _, err := core.Step(ctx, "look", func(context.Context) (int, error) { s.used++; return 1, nil }); err != nil {
			return "", err
		}
		return fetch(ctx)
	}, actors.WithNoStore())
	return func(ctx context.Context) (string, error) {
		return execute(ctx, agentOf(tryOnce, func(ctx context.Context) (string, error) {
			var token string
			var err error
			switch kind {
			case "tool":
				token, err = tool.Call(ctx, struct{}{})
			case "agent":
				token, err = agent.Call(ctx, struct{}{})
			case "step":
				token, err = core.Step(ctx, "fetch", fetch, core.StepNoStore())
			}
			if err != nil {
				return "", err
			}
			if !s.again {
				interrupt(state.From(ctx))
				return "", ctx.Err()
			}
			v, err := getting(ctx)
			return fmt.Sprint(len(token), " ", v), err
		}))
	}
}

func TestOutputThatMustNotBeStoredIsNot(t *testing.T) {
	for _, kind := range []string{"tool", "agent", "step"} {
		t.Run(kind, func(t *testing.T) {
			secret := new(secrets)
			p := secret.program(kind)
			s := memstore.New()
			_, err := run(t, s, p, state.WithPayloads())
			requireInterruptedByOps(t, err)
			loaded := testkit.LoadRun(t, s, runID)
			data, err := loaded.Encode()
			require.NoError(t, err)
			assert.NotContains(t, string(data), "secret-token")
			said := false
			for _, r := range loaded.Records {
				text, err := r.MarshalJSON()
				require.NoError(t, err)
				said = said || strings.Contains(string(text), `"no_store":true`)
			}
			assert.True(t, said, "the record has no_store set")

			secret.again = true
			out, err := run(t, s, p)
			require.NoError(t, err)
			assert.Equal(t, "12 fetch 2", out)
			assert.Equal(t, 2, secret.fetched)
			if kind == "agent" {
				assert.Equal(t, 1, secret.used, "the call that used the token is recalled")
			}
			_, err = run(t, s, p)
			require.NoError(t, err)
			assert.Equal(t, 2, secret.fetched, "the agent around it has an outcome")
		})
	}
}

func TestReplayFailsForOutputsThatWereNotStored(t *testing.T) {
	secret := new(secrets)
	p := secret.program("tool")
	s := memstore.New()
	run(t, s, p)
	secret.again = true
	st, err := state.Replay(t.Context(), s, runID)
	require.NoError(t, err)
	_, err = p(st.Context(t.Context()))
	require.ErrorIs(t, err, core.ErrNotStored)
	require.ErrorContains(t, err, "a/fetch: core: the call completed, but its output was not stored (NoStore)")
	require.NoError(t, st.Close())
	assert.Equal(t, 1, secret.fetched)

	differences, err := state.Validate(t.Context(), s, runID, func(ctx context.Context) error {
		_, err := p(ctx)
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, differences)
	assert.Equal(t, "a/fetch: output: recorded none (NoStore), now none: it is not executed", differences[0].String())
	assert.Equal(t, 1, secret.fetched)

	_, err = run(t, s, p)
	require.NoError(t, err)
	differences, err = state.ValidateExecute(t.Context(), s, runID, func(ctx context.Context) error {
		secret.fetched = 1
		_, err := p(ctx)
		return err
	})
	require.NoError(t, err)
	assert.Empty(t, differences)
}

func TestPreconditionOfACallWithoutAnOutputDoesNotRunAgain(t *testing.T) {
	s, checked, stop := memstore.New(), 0, true
	d, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "fetch", NoStore: true}, func(ctx context.Context, _ string) (string, error) {
		return getting(ctx)
	})
	require.NoError(t, err)
	d = d.Require(func(ctx context.Context, _ string) error {
		checked++
		return state.Put(ctx, "k", "checked")
	})
	p := func(ctx context.Context) (string, error) {
		return execute(ctx, agentOf(tryOnce, func(ctx context.Context) (string, error) {
			out, err := execute(ctx, d)
			if stop {
				interrupt(state.From(ctx))
				err = ctx.Err()
			}
			return out, err
		}))
	}
	run(t, s, p)
	stop = false
	out, err := run(t, s, p)
	require.NoError(t, err)
	assert.Equal(t, "checked", out)
	assert.Equal(t, 1, checked)
}

func TestBranchWithoutAStoredOutputIsMadeAgainInAGroupThatFailed(t *testing.T) {
	s, ran := memstore.New(), 0
	token, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "token", NoStore: true}, func(context.Context, string) (string, error) {
		ran++
		return "token", nil
	})
	require.NoError(t, err)
	done := make(chan struct{})
	p := func(ctx context.Context) (string, error) {
		return execute(ctx, agentOf(tryOnce, func(ctx context.Context) (string, error) {
			out, err := actors.Parallel(ctx, actors.Group{Name: "g"},
				func(ctx context.Context) (string, error) {
					defer func() {
						if ran == 1 {
							close(done)
						}
					}()
					return execute(ctx, token)
				},
				func(ctx context.Context) (string, error) {
					return execute(ctx, toolOf("bad", tryOnce, func(ctx context.Context) (string, error) { <-done; return refuse(ctx) }))
				})
			var failed *actors.GroupError
			if !errors.As(err, &failed) {
				return "", err
			}
			return fmt.Sprint(out, failed.NotEnded), nil
		}))
	}
	want, err := run(t, s, p)
	require.NoError(t, err)
	got, err := run(t, killed(t, s, untilAgentEnds), p)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	assert.Equal(t, "[token ] []", got)
	assert.Equal(t, 2, ran)
}

func TestNoStoreRefusesAPolicyThatForbidsRepetition(t *testing.T) {
	for _, policy := range []core.InDoubtPolicy{core.InDoubtFail, core.InDoubtAsk} {
		_, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "pay", NoStore: true, InDoubt: policy}, func(context.Context, string) (string, error) { return "", nil })
		require.ErrorContains(t, err, `"pay" is NoStore, so it runs again`)
	}
}
