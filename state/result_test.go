package state_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func TestResultAndInputOfAStoredRunAreTyped(t *testing.T) {
	s := fileStore(t, t.TempDir())
	large := strings.Repeat("x", 100<<10) // an artifact
	for id, h := range map[string]testkit.Handler{
		"small": testkit.Succeed, "large": func(context.Context, string) (string, error) { return large, nil }, "failed": testkit.Fail(core.Permanent(errBoom)),
	} {
		st, err := state.Open(t.Context(), s, id)
		require.NoError(t, err)
		_, err = state.Result[string](t.Context(), s, id)
		require.ErrorIs(t, err, state.ErrNotEnded)
		_, _ = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, h))
		require.NoError(t, st.Close())
		in, err := state.Input[string](t.Context(), s, id)
		require.NoError(t, err)
		assert.Equal(t, "in", in)
	}
	out, err := state.Result[string](t.Context(), s, "small")
	require.NoError(t, err)
	assert.Equal(t, "out", out)
	out, err = state.Result[string](t.Context(), s, "large")
	require.NoError(t, err)
	assert.Equal(t, large, out)
	_, err = state.Result[string](t.Context(), s, "failed")
	var failed *core.CallError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, record.ReasonPermanent, failed.Reason)
	_, err = state.Result[int](t.Context(), s, "small")
	require.ErrorContains(t, err, "result of run small")
	_, err = state.Result[string](t.Context(), s, "none")
	require.ErrorIs(t, err, snapshot.ErrNotFound)
}

// If a store keeps artifacts, they are stored there even without WithArtifacts.
func TestLargeOutputsAreArtifactsOfAStoreThatKeepsThem(t *testing.T) {
	s := fileStore(t, t.TempDir())
	program := func() string {
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		defer st.Close()
		out, err := testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, func(context.Context, string) (string, error) {
			return strings.Repeat("x", 100<<10), nil
		}))
		require.NoError(t, err)
		return out
	}
	first := program()
	found := testkit.LoadRun(t, s, "run-1")
	var refs []string
	for i := range found.Records {
		if d := found.Records[i].Detail; d != nil && d.Artifact != "" {
			refs = append(refs, d.Artifact)
			assert.Empty(t, d.Output)
		}
	}
	assert.Len(t, refs, 1)
	assert.Equal(t, first, program())
}

// fullShelf is an artifact store that cannot store the first full artifacts.
type fullShelf struct {
	memstore.Artifacts
	full int
}

func (s *fullShelf) Put(ctx context.Context, data []byte) (string, error) {
	if s.full--; s.full >= 0 {
		return "", fmt.Errorf("%w: no room", snapshot.ErrUnavailable)
	}
	return s.Artifacts.Put(ctx, data)
}

func TestAnArtifactThatNothingCanStoreInterruptsTheRun(t *testing.T) {
	for name, retry := range map[string]core.RetryConfig{"one attempt": once, "many attempts": {MaxAttempts: 9, InitialDelay: core.NoDelay}} {
		t.Run(name, func(t *testing.T) {
			s, shelf, ran, returned := fileStore(t, t.TempDir()), &fullShelf{full: 1}, 0, error(nil)
			tool := testkit.Tool(t, "tool", retry, testkit.Counted(&ran, func(context.Context, string) (string, error) {
				return strings.Repeat("x", 100<<10), nil
			}))
			agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
				var out string
				out, returned = testkit.Call(ctx, tool)
				return out[:min(len(out), 1)], returned
			})
			program := func() (*state.ExecutionState, error) {
				st, err := state.Open(t.Context(), s, "run-1", state.WithArtifacts(shelf))
				require.NoError(t, err)
				_, err = testkit.Call(st.Context(t.Context()), agent)
				require.NoError(t, st.Close())
				return st, err
			}
			st, err := program()
			for _, err := range []error{err, returned} {
				for _, want := range []error{core.ErrInterrupted, state.ErrStore, core.ErrStorage, snapshot.ErrUnavailable} {
					require.ErrorIs(t, err, want)
				}
			}
			require.Equal(t, record.InterruptStore, st.Interrupted().Reason)
			require.Equal(t, 1, ran)
			found := testkit.LoadRun(t, s, "run-1")
			require.Equal(t, snapshot.StatusInterrupted, found.Status)
			for i := range found.Records {
				require.NotContains(t, []record.Status{record.StatusFailed, record.StatusRetrying, record.StatusCompleted}, found.Records[i].Status)
			}

			_, err = program() // now artifacts can be stored
			require.NoError(t, err)
			require.Equal(t, 2, ran)
			require.Equal(t, snapshot.StatusCompleted, testkit.LoadRun(t, s, "run-1").Status)
			_, err = program()
			require.NoError(t, err)
			require.Equal(t, 2, ran)
		})
	}
}

func TestMetadataSurviveAResume(t *testing.T) {
	s := memstore.New()
	for _, options := range [][]state.Option{{state.WithMetadata(snapshot.Metadata{Pipeline: "nightly"})}, nil} {
		st, err := state.Open(t.Context(), s, "run-1", options...)
		require.NoError(t, err)
		assert.Equal(t, "nightly", st.Metadata().Pipeline)
		require.NoError(t, st.Close())
	}
	found := testkit.LoadRun(t, s, "run-1")
	for _, r := range found.Records {
		assert.Equal(t, "nightly", r.Name, "record %d of the run", r.Seq)
	}
}

func TestOptionsThatDoNothingAreRefused(t *testing.T) {
	s := memstore.New()
	for name, option := range map[string]state.Option{
		"WithWait": state.WithWait(), "WithRerunFailed": state.WithRerunFailed(), "WithSync": state.WithSync(state.SyncAlways),
		"WithDivergence": state.WithDivergence(state.DivergenceFail), "WithRepublish": state.WithRepublish(),
	} {
		assert.PanicsWithError(t, "state: "+name+" has no effect in New; it is for "+places(name), func() { state.New(option) })
	}
	validate := func(context.Context) error { t.Error("the program ran"); return nil }
	_, err := state.Validate(t.Context(), s, "run-1", validate, state.WithDivergence(state.DivergenceRerun))
	require.EqualError(t, err, "state: WithDivergence has no effect in Validate; it is for Open, Replay")
	_, err = state.Open(t.Context(), s, "run-1", state.WithRunID("other"))
	require.EqualError(t, err, "state: WithRunID has no effect in Open; it is for New")
	_, err = s.Load(t.Context(), "run-1")
	require.True(t, errors.Is(err, snapshot.ErrNotFound), "no run was created")
}

func places(option string) string {
	switch option {
	case "WithDivergence":
		return "Open, Replay"
	case "WithRepublish":
		return "Open, Replay, Validate"
	}
	return "Open"
}

// A publisher that receives the last record of a run can read the result, because a record is
// stored before it is published.
func TestResultCanBeReadWhenTheEndIsPublished(t *testing.T) {
	cancelled := func(st *state.ExecutionState) { st.Cancel(snapshot.Stop{By: "ops", Message: "enough"}) }
	for want, tt := range map[record.Status]struct {
		h      testkit.Handler
		before func(*state.ExecutionState)
	}{
		record.StatusCompleted: {testkit.Succeed, nil},
		record.StatusFailed:    {testkit.Fail(core.Permanent(errBoom)), nil},
		record.StatusCancelled: {testkit.Succeed, cancelled},
	} {
		s := fileStore(t, t.TempDir())
		var err error
		seen := false
		st, opened := state.Open(t.Context(), s, "run", state.WithPublisher(testkit.Publisher(func(r record.Record) {
			if r.Kind == record.KindRun && r.Status == want {
				seen = true
				_, err = state.Result[string](t.Context(), s, "run")
			}
		})))
		require.NoError(t, opened)
		_, _ = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, tt.h))
		if tt.before != nil {
			tt.before(st)
		}
		require.NoError(t, st.Close())
		require.True(t, seen, want)
		switch want {
		case record.StatusCompleted:
			require.NoError(t, err)
		case record.StatusFailed:
			require.ErrorContains(t, err, "boom")
		case record.StatusCancelled:
			var c *state.CancelledError
			require.ErrorAs(t, err, &c)
			assert.Equal(t, state.CancelledError{RunID: "run", By: "ops", Message: "enough"}, *c)
		}
	}
}
