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

// BenchmarkIrreversible compares calls of an irreversible actor that find no effect with calls of
// an actor that is not irreversible, in the first and the second attempt of an agent.
func BenchmarkIrreversible(b *testing.B) {
	for _, in := range []string{"memory", "store", "files"} {
		for _, attempts := range []int{1, 2} {
			for _, irreversible := range []bool{false, true} {
				name := in + "/attempt " + string(rune('0'+attempts)) + map[bool]string{true: "/irreversible", false: "/plain"}[irreversible]
				b.Run(name, func(b *testing.B) { benchmarkCalls(b, in, attempts, irreversible) })
			}
		}
	}
}

func benchmarkCalls(b *testing.B, in string, attempts int, irreversible bool) {
	b.ReportAllocs()
	var st *state.ExecutionState
	var err error
	switch in {
	case "memory":
		st = state.New()
	case "store":
		st, err = state.Open(b.Context(), memstore.New(), "run", state.WithSync(state.SyncNever))
	default: // each start and each outcome is synced before the call continues
		st, err = state.Open(b.Context(), fileStore(b, b.TempDir()), "run")
	}
	require.NoError(b, err)
	defer func() { _ = st.Close() }()
	pay := testkit.Define(b, core.Spec{Kind: record.KindTool, Name: "pay", Irreversible: irreversible, InDoubt: core.InDoubtAsk},
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
	_, err = testkit.Call(st.Context(b.Context()), agent)
	require.NoError(b, err)
}
