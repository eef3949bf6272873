package state_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// payTo returns a tool that makes an irreversible payment. Its output contains the number of the
// payment.
func payTo(t testing.TB, b *bank) *core.Definition[string, string] {
	return testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", Irreversible: true}, func(_ context.Context, amount string) (string, error) {
		return b.make(amount), nil
	})
}

// retried returns an agent that runs do in each attempt. Even if do succeeds, all attempts except
// the last then fail.
func retried(t testing.TB, attempts int, do func(ctx context.Context) (string, error)) *testkit.Definition {
	return testkit.Agent(t, "agent", core.RetryConfig{MaxAttempts: attempts, InitialDelay: 1}, func(ctx context.Context, _ string) (string, error) {
		out, err := do(ctx)
		if err != nil || core.ScopeOf(ctx).Attempt() == attempts-1 {
			return out, err
		}
		return "", core.Retryable(errors.New("again"))
	})
}

func TestEffectInARunInMemoryIsNotMadeAgain(t *testing.T) {
	b := new(bank)
	agent := retried(t, 3, func(ctx context.Context) (string, error) { return payTo(t, b).Event().Execute(ctx, "10") })
	st, ctx := testkit.Run(t)
	out, err := testkit.Call(ctx, agent)
	require.NoError(t, err)
	assert.Equal(t, "10#1", out)
	assert.Equal(t, "10", b.amounts())
	testkit.Records(t, st)

	_, err = testkit.Call(t.Context(), agent)
	require.NoError(t, err)
	assert.Equal(t, "10 10 10 10", b.amounts(), "outside a run calls have no address")
}

func TestEffectWithAnArtifactIsTakenOver(t *testing.T) {
	s, paid := fileStore(t, t.TempDir()), 0
	pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", Irreversible: true}, func(context.Context, string) (string, error) {
		paid++
		return strings.Repeat("y", 100_000), nil
	})
	open := func(id string) string {
		st, err := state.Open(t.Context(), s, id)
		require.NoError(t, err)
		out, err := testkit.Call(st.Context(t.Context()), retried(t, 2, func(ctx context.Context) (string, error) { return pay.Event().Execute(ctx, "10") }))
		require.NoError(t, err)
		require.NoError(t, st.Close())
		return out
	}
	assert.Len(t, open("a"), 100_000)
	require.NoError(t, state.Fork(t.Context(), s, "a", testkit.Address(t, "agent"), "b", state.ForkOptions{Effects: state.TakeOverEffects}))
	require.NoError(t, s.Delete(t.Context(), "a"))
	assert.Len(t, open("b"), 100_000)
	require.NoError(t, state.Fork(t.Context(), s, "b", testkit.Address(t, "agent/pay"), "c", state.ForkOptions{Outputs: map[string]any{"agent/pay": "short"}}))
	assert.Equal(t, "short", open("c"))
	assert.Equal(t, 1, paid)
}

func TestEffectOfAnAgentIsTakenOverWithThoseInsideIt(t *testing.T) {
	b, store := new(bank), memstore.New()
	buyer := testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "buyer", Irreversible: true}, func(ctx context.Context, amount string) (string, error) {
		return payTo(t, b).Event().Execute(ctx, amount)
	})
	open := func(id string) {
		st, err := state.Open(t.Context(), store, id)
		require.NoError(t, err)
		out, err := testkit.Call(st.Context(t.Context()), retried(t, 2, func(ctx context.Context) (string, error) { return buyer.Event().Execute(ctx, "10") }))
		require.NoError(t, err)
		require.NoError(t, st.Close())
		assert.Equal(t, "10#1", out)
		assert.Empty(t, st.Report().LeftOver)
	}
	open("run")
	require.NoError(t, state.Fork(t.Context(), store, "run", testkit.Address(t, "agent"), "fork", state.ForkOptions{Effects: state.TakeOverEffects}))
	open("fork")
	assert.Equal(t, "10", b.amounts())
}

// The input of a call has changed, and all calls after it are made again, but their effects are
// not, even if the run is opened once more.
func TestEffectsAreNotMadeAgainByARerun(t *testing.T) {
	b, store := new(bank), memstore.New()
	open := func(city string, asks bool, payments ...string) (string, state.Report, error) {
		st, err := state.Open(t.Context(), store, "run", state.WithDivergence(state.DivergenceRerun))
		require.NoError(t, err)
		out, err := testkit.Call(st.Context(t.Context()), testkit.Agent(t, "agent", core.RetryConfig{}, func(ctx context.Context, _ string) (string, error) {
			first, err := payTo(t, b).Event().Execute(ctx, "0")
			if err != nil {
				return "", err
			}
			if _, err := testkit.Tool(t, "look", core.RetryConfig{}, testkit.Succeed).Event().Execute(ctx, city); err != nil {
				return "", err
			}
			receipts := []string{first}
			for _, amount := range payments {
				receipt, err := payTo(t, b).Event().Execute(ctx, amount)
				if err != nil {
					return "", err
				}
				receipts = append(receipts, receipt)
			}
			if asks {
				_, err = core.Await[bool](ctx, "go on?")
			}
			return strings.Join(receipts, " "), err
		}))
		require.NoError(t, st.Close())
		testkit.LoadRun(t, store, "run")
		return out, st.Report(), err
	}
	_, _, err := open("Oslo", true, "1", "2")
	require.ErrorIs(t, err, core.ErrAwaiting)
	for _, asks := range []bool{true, false} {
		out, _, err := open("Bergen", asks, "1", "2", "3")
		if asks {
			require.ErrorIs(t, err, core.ErrAwaiting)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, "0#1 1#2 2#3 3#4", out)
	}
	assert.Equal(t, "0 1 2 3", b.amounts())
}

// The second attempt takes over the payment. When that attempt has failed as well, the payment is
// refunded. The retry of the run pays again.
func TestCompensatedEffectIsMadeAgain(t *testing.T) {
	store, fails := memstore.New(), true
	var ledger []string
	pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", Irreversible: true}, func(ctx context.Context, _ string) (string, error) {
		key, err := core.IdempotencyKey(ctx)
		ledger = append(ledger, "pay "+key)
		return key, err
	}).Compensate(func(_ context.Context, _ string, key string) error {
		ledger = append(ledger, "refund "+key)
		return nil
	})
	open := func(o ...state.Option) (string, error) {
		st, err := state.Open(t.Context(), store, "run", append(o, state.WithCompensations(pay))...)
		require.NoError(t, err)
		out, err := testkit.Call(st.Context(t.Context()), testkit.Agent(t, "agent", core.RetryConfig{MaxAttempts: 2, InitialDelay: 1}, func(ctx context.Context, _ string) (string, error) {
			key, err := pay.Event().Execute(ctx, "10")
			if err == nil && fails {
				err = core.Retryable(errors.New("no confirmation"))
			}
			return key, err
		}))
		require.NoError(t, st.Close())
		testkit.LoadRun(t, store, "run")
		return out, err
	}
	_, err := open()
	require.Error(t, err)
	require.Len(t, ledger, 2)
	fails = false
	out, err := open(state.WithRerunFailed())
	require.NoError(t, err)
	require.Len(t, ledger, 3)
	assert.Equal(t, "pay "+out, ledger[2], "the receipt of the payment that was not refunded")
	assert.NotEqual(t, ledger[0], ledger[2], "the second payment has another key")
}

// The inner agent still runs when the attempt around it ends, and somebody decides that it is to be
// made again. Its payments are not made again.
func TestEffectInsideAnAgentInDoubtIsNotMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, store := new(bank), memstore.New()
		buyer := testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "buyer", Irreversible: true}, func(ctx context.Context, amount string) (string, error) {
			receipt, err := payTo(t, b).Event().Execute(ctx, amount)
			if strings.HasPrefix(core.ScopeOf(ctx).Path(), "agent/") {
				<-time.After(time.Hour)
			}
			return receipt, err
		})
		retry := core.RetryConfig{MaxAttempts: 2, InitialDelay: time.Second, AttemptTimeout: time.Minute}
		open := func() (string, error) {
			st, err := state.Open(t.Context(), store, "run")
			require.NoError(t, err)
			defer func() { require.NoError(t, st.Close()) }()
			return testkit.Call(st.Context(t.Context()), testkit.Agent(t, "agent", retry, func(ctx context.Context, _ string) (string, error) {
				return buyer.Event().Execute(ctx, "10")
			}))
		}
		_, err := open()
		require.ErrorIs(t, err, core.ErrAwaiting)
		require.NoError(t, state.Answer(t.Context(), store, "run", "agent@2/buyer?effect:agent/buyer", "", runAgain))
		out, err := open()
		require.NoError(t, err)
		assert.Equal(t, "10#1", out)
		assert.Equal(t, "10", b.amounts())
		<-time.After(2 * time.Hour) // the first buyer returns
	})
}

// Records that were not written by a run may say that a call took over its own effect. They cause
// neither a panic nor an endless loop.
func TestRecordsThatTakeOverThemselvesDoNoHarm(t *testing.T) {
	completed := func(path string, took string, seq uint64) record.Record {
		r := testkit.CallRecord(t, path, record.StatusCompleted, "x")
		r.Name = "pay"
		r.Detail.Irreversible, r.Detail.Effect = true, &record.Effect{Address: testkit.Address(t, took), Seq: seq}
		return r
	}
	refund := testkit.CallRecord(t, "agent@2000000000/pay@undo/pay", record.StatusCompleted, nil)
	refund.Kind = record.KindCompensation
	cached := completed("agent@2000000000/pay", "agent@2000000000/pay", 1)
	cached.Detail.Cached = true
	store := memstore.New()
	run, err := testkit.Stored(snapshot.StatusInterrupted, cached, completed("agent@2000000000/pay", "agent@2000000000/pay", 1),
		completed("agent@2000000000/pay", "agent@2000000000/pay", 2), completed("agent@3/pay", "agent@2000000000/pay", 3),
		completed("agent@2000000000/pay", "agent@3/pay", 4), refund).Run()
	require.NoError(t, err)
	_, err = store.Create(t.Context(), run)
	require.NoError(t, err)
	st, err := state.Open(t.Context(), store, "run")
	require.NoError(t, err)
	require.NoError(t, st.Close())
	_, err = state.EffectsAfter(t.Context(), store, "run", testkit.Address(t, "agent@3/pay"), state.ForkOptions{})
	require.NoError(t, err)
}
