package state_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// BenchmarkRecalledAnswers resumes an agent that has asked a hundred questions.
func BenchmarkRecalledAnswers(b *testing.B) {
	type answer struct {
		Approved bool     `json:"approved"`
		Reason   string   `json:"reason"`
		Items    []string `json:"items"`
	}
	store := memstore.New()
	agent := testkit.Agent(b, "agent", core.RetryConfig{MaxAttempts: 1}, func(ctx context.Context, _ string) (string, error) {
		for range 100 {
			if _, err := core.Await[answer](ctx, "go on?"); err != nil {
				return "", err
			}
		}
		_, err := core.Await[bool](ctx, "and now?") // it stays open
		return "", err
	})
	open := func() {
		st, err := state.Open(b.Context(), store, "run-1")
		require.NoError(b, err)
		_, err = testkit.Call(st.Context(b.Context()), agent)
		require.ErrorIs(b, err, core.ErrAwaiting)
		require.NoError(b, st.Close())
	}
	for range 100 {
		open()
		questions, err := state.Questions(b.Context(), store, "run-1")
		require.NoError(b, err)
		require.NoError(b, state.Answer(b.Context(), store, "run-1", questions[0].ID, "", answer{Approved: true, Items: []string{"a"}}))
	}
	open()
	b.ReportAllocs()
	for b.Loop() {
		open()
	}
}
