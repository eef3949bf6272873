package state_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/reprise-go/reprise/record"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/state"
)

// Branches that begin together must not each list those before them: with
// thousands of branches, that took minutes and gigabytes.
func TestBranchesDoNotListOneAnother(t *testing.T) {
	const many = 500
	s := new(tape)
	var all sync.WaitGroup
	all.Add(many)
	branches := make([]func(context.Context) (string, error), many)
	tool := testkit.Tool(t, "tool", once, testkit.Succeed)
	for i := range branches {
		branches[i] = func(ctx context.Context) (string, error) {
			all.Done()
			all.Wait() // until every branch has begun
			return testkit.Call(ctx, tool)
		}
	}
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	_, err = actors.Parallel(st.Context(t.Context()), actors.Group{Name: "all"}, branches...)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	for _, r := range s.records {
		if r.Detail != nil {
			assert.Empty(t, r.Detail.Unrecorded, "record %d", r.Seq)
		}
	}
}

// conditional adds the method Event, which actors.Map calls, to a definition.
type conditional struct{ *testkit.Definition }

func (c conditional) Event() core.ExecutionEvent[string, string] { return c.Definition.Event() }

// A branch that had not begun when the process ended has no record, even if a
// later branch has one.
func TestBranchesBeforeOneOnRecordBeginAfterAResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorded := make(chan struct{}) // closed when the outcome of the last branch is recorded
		tool := testkit.Tool(t, "tool", steady, func(_ context.Context, in string) (string, error) { return "out of " + in, nil })
		tool = tool.Require(func(_ context.Context, in string) error {
			if in != "last" {
				<-recorded
			}
			return nil
		})
		notice := state.WithPublisher(testkit.Publisher(func(r record.Record) {
			if r.Address.String() == "group:all/3" && r.Status == record.StatusCompleted {
				close(recorded)
			}
		}))
		run := func(s *tape) []string {
			st, err := state.Open(t.Context(), s, "run-1", notice)
			require.NoError(t, err)
			defer st.Close()
			out, err := actors.Map(st.Context(t.Context()), actors.Group{Name: "all"}, conditional{tool}, []string{"first", "second", "last"})
			require.NoError(t, err)
			return out
		}
		whole := new(tape)
		want := run(whole)
		require.Equal(t, "group:all/3", whole.records[3].Address.String())
		require.Equal(t, record.StatusCompleted, whole.records[3].Status)
		assert.Equal(t, want, run(whole.cut(4)))
	})
}
