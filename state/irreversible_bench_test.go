package state_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// BenchmarkIrreversible compares calls of an irreversible actor that find nothing with
// calls of the same actor that is none: in an agent's first attempt, and in its second.
func BenchmarkIrreversible(b *testing.B) {
	for _, in := range []string{"memory", "store"} {
		for _, attempts := range []int{1, 2} {
			for _, irreversible := range []bool{false, true} {
				name := in + "/attempt " + string(rune('0'+attempts)) + map[bool]string{true: "/irreversible", false: "/plain"}[irreversible]
				b.Run(name, func(b *testing.B) { benchmarkCalls(b, in == "store", attempts, irreversible) })
			}
		}
	}
}

func benchmarkCalls(b *testing.B, stored bool, attempts int, irreversible bool) {
	b.ReportAllocs()
	st := state.New()
	if stored {
		var err error
		st, err = state.Open(b.Context(), memstore.New(), "run", state.WithSync(state.SyncNever))
		require.NoError(b, err)
	}
	defer func() { _ = st.Close() }()
	// It is not asked about doubts: else its start is durable before it runs, which is not
	// what is measured.
	pay := testkit.Define(b, core.Spec{Kind: record.KindTool, Name: "pay", Irreversible: irreversible, InDoubt: core.InDoubtRetry},
		func(_ context.Context, amount int) (int, error) { return amount, nil })
	agent := testkit.Agent(b, "agent", core.RetryConfig{MaxAttempts: attempts, InitialDelay: time.Nanosecond}, func(ctx context.Context, _ string) (string, error) {
		if core.ScopeOf(ctx).Attempt() < attempts-1 {
			return "", core.Retryable(errors.New("no confirmation"))
		}
		for i := 0; b.Loop(); i++ {
			if _, err := pay.Event().Execute(ctx, i); err != nil {
				return "", err
			}
		}
		return "", nil
	})
	_, err := testkit.Call(st.Context(b.Context()), agent)
	require.NoError(b, err)
}
