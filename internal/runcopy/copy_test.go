package runcopy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/runcopy"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A changing store calls a function around each Load, as if another process did something then.
type changing struct {
	*memstore.Store
	before, after func(runID string)
}

func (s *changing) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	if s.before != nil {
		s.before(runID)
	}
	run, err := s.Store.Load(ctx, runID)
	if s.after != nil {
		s.after(runID)
	}
	return run, err
}

// save stores a run with one step.
func save(t *testing.T, s snapshot.Store, runID string) {
	t.Helper()
	st, err := state.Open(t.Context(), s, runID)
	require.NoError(t, err)
	_, err = core.Step(st.Context(t.Context()), "step", func(context.Context) (int, error) { return 1, nil })
	require.NoError(t, err)
	require.NoError(t, st.Close())
}

// The program of the run opens it while it is copied, records the answer, and removes the message.
func TestCopyKeepsAnAnswerThatIsRecordedMeanwhile(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		s, to := memstore.New(), memstore.New()
		st, err := state.Open(t.Context(), s, "run")
		require.NoError(t, err)
		ask, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "ask"}, func(ctx context.Context, _ int) (bool, error) {
			return core.Await[bool](ctx, "May I?")
		})
		require.NoError(t, err)
		_, err = ask.Event().Execute(st.Context(t.Context()), 1)
		require.ErrorIs(t, err, core.ErrAwaiting)
		require.NoError(t, st.Close())
		open, err := state.Questions(t.Context(), s, "run")
		require.NoError(t, err)
		require.Len(t, open, 1)
		require.NoError(t, state.Answer(t.Context(), s, "run", open[0].ID, "ann", true))

		take := func(string) {
			again, err := state.Open(t.Context(), s, "run")
			require.NoError(t, err)
			require.NoError(t, again.Close())
			left, err := s.Messages(t.Context(), "run")
			require.NoError(t, err)
			require.Empty(t, left)
		}
		from := &changing{Store: s}
		if when == "before" {
			from.before = take
		} else {
			from.after = take
		}
		require.NoError(t, runcopy.Run(t.Context(), to, from, "run"))
		open, err = state.Questions(t.Context(), to, "run")
		require.NoError(t, err)
		assert.Empty(t, open, "recorded %s the run was read", when)
		st, err = state.Open(t.Context(), to, "run")
		require.NoError(t, err)
		approved, err := ask.Event().Execute(st.Context(t.Context()), 1)
		require.NoError(t, err)
		assert.True(t, approved)
		require.NoError(t, st.Close())
	}
}

func TestRunThatIsDeletedMeanwhileIsNotReported(t *testing.T) {
	from, to, out := memstore.New(), memstore.New(), &strings.Builder{}
	for _, id := range []string{"a", "b", "c"} {
		save(t, from, id)
	}
	deleting := &changing{Store: from, before: func(runID string) {
		if runID == "b" {
			require.NoError(t, from.Delete(t.Context(), runID))
		}
	}}
	require.NoError(t, runcopy.Runs(t.Context(), to, deleting, nil, out))
	assert.Equal(t, "run a was copied\nrun c was copied\n", out.String())
	require.ErrorIs(t, runcopy.Runs(t.Context(), to, from, []string{"b"}, out), snapshot.ErrNotFound, "it was named")

	deleting = &changing{Store: to, before: func(runID string) {
		if runID == "c" {
			require.NoError(t, to.Delete(t.Context(), runID))
		}
	}}
	out.Reset()
	require.NoError(t, runcopy.Verify(t.Context(), deleting, nil, out))
	assert.Equal(t, "ok       a: 4 records\n", out.String())
}

func TestInterruptEndsACopy(t *testing.T) {
	from, to := memstore.New(), memstore.New()
	for _, id := range []string{"a", "b", "c"} {
		save(t, from, id)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	interrupting := &changing{Store: from, before: func(runID string) {
		if runID == "b" {
			cancel()
		}
	}}
	err := runcopy.Runs(ctx, to, interrupting, nil, &strings.Builder{})
	require.ErrorIs(t, err, context.Canceled)
	assert.NotContains(t, err.Error(), "run c")
}

// A paging store lists one run per page, even without a limit.
type paging struct{ *memstore.Store }

func (s paging) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	f.Limit = 1
	return s.Store.List(ctx, f)
}

func TestAllPagesAreCopiedAndVerified(t *testing.T) {
	from, to, out := memstore.New(), memstore.New(), &strings.Builder{}
	for i := range 3 {
		save(t, from, fmt.Sprint("run-", i))
	}
	require.NoError(t, runcopy.Runs(t.Context(), to, paging{from}, nil, out))
	assert.Equal(t, "run run-0 was copied\nrun run-1 was copied\nrun run-2 was copied\n", out.String())
	out.Reset()
	require.NoError(t, runcopy.Verify(t.Context(), paging{from}, nil, out))
	assert.Equal(t, 3, strings.Count(out.String(), "ok "))
}
