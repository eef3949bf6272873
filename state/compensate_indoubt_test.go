package state_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// undoneInDoubt returns d with compensations that log what they undo.
func undoneInDoubt(l *bookings, d *testkit.Definition) *testkit.Definition {
	name := d.Spec().Name
	return d.Compensate(func(_ context.Context, in, out string) error {
		l.note("undo %s %s (%s)", name, in, out)
		return nil
	}).CompensateInDoubt(func(_ context.Context, in string) error {
		l.note("undo %s %s in doubt", name, in)
		return nil
	})
}

// failingAfter returns an agent that calls the tools, ignores their errors, and then fails.
func failingAfter(t testing.TB, tools ...*testkit.Definition) *testkit.Definition {
	return testkit.Agent(t, "trip", once, func(ctx context.Context, _ string) (string, error) {
		for _, tool := range tools {
			if _, err := testkit.Call(ctx, tool); core.IsSuspension(err) {
				return "", err
			}
		}
		return "", errBoom
	})
}

func TestCallsThatWereCutOffAreCompensatedInDoubt(t *testing.T) {
	hangs := func(ctx context.Context, _ string) (string, error) { return "", testkit.Pause(ctx, time.Hour) }
	panics := func(context.Context, string) (string, error) { panic("no") }
	short := core.RetryConfig{MaxAttempts: 1, AttemptTimeout: time.Second}
	twice := core.RetryConfig{MaxAttempts: 2, AttemptTimeout: time.Second, Jitter: core.NoJitter}
	soldOut := core.Permanent(errors.New("sold out"))
	const inDoubt = "undo pay in in doubt"
	for name, test := range map[string]struct {
		retry   core.RetryConfig
		handler testkit.Handler
		then    testkit.Handler // from the second attempt on; nil for the same handler
		want    string
	}{
		"timeout":                          {short, hangs, nil, inDoubt},
		"timeout of an abandoned attempt":  {short, testkit.Deaf(time.Minute), nil, inDoubt},
		"retry timeout":                    {core.RetryConfig{RetryTimeout: time.Second}, hangs, nil, inDoubt},
		"timeout of the handler":           {once, testkit.Fail(fmt.Errorf("post: %w", context.DeadlineExceeded)), nil, inDoubt},
		"panic":                            {once, panics, nil, inDoubt},
		"the handler does not know":        {once, testkit.Fail(fmt.Errorf("post: %w", core.ErrInDoubt)), nil, inDoubt},
		"the handler does not know, often": {core.RetryConfig{MaxAttempts: 2, RetryOn: []core.Matcher{core.MatchAny()}}, testkit.Fail(core.ErrInDoubt), nil, inDoubt},
		"an error of the handler":          {once, testkit.Fail(soldOut), nil, ""},
		"attempts that all failed":         {steady, testkit.Fail(errFlaky), nil, ""},
		"timeout, and then an error":       {twice, hangs, testkit.Fail(soldOut), inDoubt},
		"an error, and then a timeout":     {twice, testkit.Fail(errFlaky), hangs, inDoubt},
		"timeout, and then an output":      {twice, hangs, testkit.Succeed, "undo pay in (out)"},
		"an error, and then an output":     {twice, testkit.Fail(errFlaky), testkit.Succeed, "undo pay in (out)"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, where := range []string{"in memory", "stored", "outside a run"} {
				testkit.Bubble(t, func(t *testing.T) {
					var l bookings
					handler := test.handler
					if test.then != nil {
						handler = testkit.Attempts(handler, test.then)
					}
					pay := undoneInDoubt(&l, testkit.Tool(t, "pay", test.retry, handler))
					ctx := t.Context()
					switch where {
					case "in memory":
						_, ctx = testkit.Run(t)
					case "stored":
						st, err := state.Open(ctx, memstore.New(), "run-1", state.WithCompensations(pay))
						require.NoError(t, err)
						defer func() { require.NoError(t, st.Close()) }()
						ctx = st.Context(ctx)
					}
					_, err := testkit.Call(ctx, failingAfter(t, pay))
					require.ErrorIs(t, err, errBoom)
					assert.Equal(t, test.want, l.entries(), where)
					require.NoError(t, testkit.Pause(t.Context(), time.Hour)) // until abandoned handlers have returned
				})
			}
		})
	}
}

func TestOutputThatWasRefusedIsCompensatedInDoubt(t *testing.T) {
	var l bookings
	_, ctx := testkit.Run(t)
	pay := undoneInDoubt(&l, testkit.Tool(t, "pay", once, testkit.Succeed)).
		Ensure(func(context.Context, string, string) error { return errBoom }).
		Require(func(_ context.Context, in string) error {
			if in == "nothing" {
				return errBoom
			}
			return nil
		})
	_, err := testkit.Call(ctx, testkit.Agent(t, "trip", once, func(ctx context.Context, _ string) (string, error) {
		_, first := pay.Event().Execute(ctx, "all")
		_, second := pay.Event().Execute(ctx, "nothing") // refused before its first attempt
		return "", errors.Join(first, second)
	}))
	require.Error(t, err)
	assert.Equal(t, "undo pay all in doubt", l.entries())
}

func TestCallInDoubtIsLeftAloneWithoutTheOption(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		st, ctx := testkit.Run(t)
		pay := testkit.Tool(t, "pay", core.RetryConfig{MaxAttempts: 1, AttemptTimeout: time.Second}, func(ctx context.Context, _ string) (string, error) {
			return "", testkit.Pause(ctx, time.Hour)
		}).Compensate(func(context.Context, string, string) error { l.note("undo"); return nil })
		_, err := testkit.Call(ctx, failingAfter(t, pay))
		require.ErrorIs(t, err, errBoom)
		assert.Empty(t, l.entries())
		for _, r := range testkit.Records(t, st) {
			assert.False(t, r.Detail != nil && r.Detail.Compensable, "%v", r)
		}
	})
}

func TestRecordsSayWhatIsCompensatedInDoubt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		st, ctx := testkit.Run(t)
		fails := 1
		pay := testkit.Tool(t, "pay", core.RetryConfig{MaxAttempts: 2, AttemptTimeout: time.Second, InitialDelay: core.NoDelay},
			func(ctx context.Context, _ string) (string, error) { return "", testkit.Pause(ctx, time.Hour) }).
			Compensate(func(context.Context, string, string) error { return nil }).
			CompensateInDoubt(func(ctx context.Context, in string) error {
				l.note("undo %s", in)
				if fails--; fails >= 0 {
					return errFlaky
				}
				return nil
			})
		_, err := testkit.Call(ctx, failingAfter(t, pay))
		require.EqualError(t, err, "trip: permanent: boom")
		assert.Equal(t, "undo in, undo in", l.entries())
		var got []string
		for _, r := range testkit.Records(t, st) {
			if r.Kind == record.KindTool || r.Kind == record.KindCompensation {
				got = append(got, strings.TrimSpace(fmt.Sprintf("%v %v %v %v", r.Address, r.Status, r.Detail != nil && r.Detail.Compensable, r.Reason)))
			}
		}
		assert.Equal(t, []string{
			"trip/pay started true", "trip/pay failed false", "trip/pay retrying false", "trip/pay started true", "trip/pay failed true exhausted",
			"trip/pay@undo/pay started false in_doubt", "trip/pay@undo/pay failed false", "trip/pay@undo/pay retrying false",
			"trip/pay@undo/pay started false in_doubt", "trip/pay@undo/pay completed false",
		}, got)
		assert.Equal(t, 1, st.Report().Compensated)
	})
}

// A call in doubt is compensated in order with calls that completed.
func TestCallsInDoubtAreCompensatedInTheirOrder(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		_, ctx := testkit.Run(t)
		short := core.RetryConfig{MaxAttempts: 1, AttemptTimeout: time.Second}
		agent := failingAfter(t,
			undoneInDoubt(&l, testkit.Tool(t, "a", once, testkit.Succeed)),
			undoneInDoubt(&l, testkit.Tool(t, "b", short, testkit.Deaf(time.Minute))),
			undoneInDoubt(&l, testkit.Tool(t, "c", once, testkit.Succeed)))
		_, err := testkit.Call(ctx, agent)
		require.ErrorIs(t, err, errBoom)
		assert.Equal(t, "undo c in (out), undo b in in doubt, undo a in (out)", l.entries())
		require.NoError(t, testkit.Pause(t.Context(), time.Hour))
	})
}

// The branch that lost was interrupted, but may have taken effect.
func TestBranchesThatLostAreCompensatedInDoubt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		_, ctx := testkit.Run(t)
		slow := undoneInDoubt(&l, testkit.Tool(t, "slow", once, testkit.Listening(time.Hour)))
		fast := undoneInDoubt(&l, testkit.Tool(t, "fast", once, testkit.Listening(time.Second)))
		agent := testkit.Agent(t, "trip", once, func(ctx context.Context, _ string) (string, error) {
			_, err := actors.First(ctx, actors.Group{Name: "legs"}, calling(slow), calling(fast))
			return "", errors.Join(err, errBoom)
		})
		_, err := testkit.Call(ctx, agent)
		require.ErrorIs(t, err, errBoom)
		assert.Equal(t, "undo fast in (out), undo slow in in doubt", l.entries())
	})
}

// The attempt of the agent was abandoned, and the tool inside has no outcome.
func TestCallsInAbandonedAttemptsAreCompensatedInDoubt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		st, ctx := testkit.Run(t)
		pay := undoneInDoubt(&l, testkit.Tool(t, "pay", once, testkit.Deaf(time.Minute)))
		agent := testkit.Agent(t, "trip", core.RetryConfig{MaxAttempts: 1, AttemptTimeout: time.Second}, func(ctx context.Context, _ string) (string, error) {
			return testkit.Call(ctx, pay)
		})
		_, err := testkit.Call(ctx, agent)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, "undo pay in in doubt", l.entries())
		require.NoError(t, testkit.Pause(t.Context(), time.Hour))
		assert.Equal(t, "undo pay in in doubt", l.entries())
		assert.Equal(t, 1, st.Report().Compensated)
	})
}

func TestCancelledRunIsCompensatedInDoubt(t *testing.T) {
	for _, inMemory := range []bool{true, false} {
		var l bookings
		var st *state.ExecutionState
		pay := undoneInDoubt(&l, testkit.Tool(t, "pay", steady, func(ctx context.Context, _ string) (string, error) {
			st.Cancel(snapshot.Stop{By: "ops", Message: "wrong customer"})
			return "", ctx.Err()
		}))
		if st = state.New(); !inMemory {
			var err error
			st, err = state.Open(t.Context(), memstore.New(), "run-1", state.WithCompensations(pay))
			require.NoError(t, err)
		}
		_, err := testkit.Call(st.Context(t.Context()), pay) // a root call
		testkit.Interrupted(t, err, record.InterruptCancel)
		assert.Empty(t, l.entries())
		require.NoError(t, st.Close())
		assert.Equal(t, snapshot.StatusCancelled, st.Status())
		assert.Equal(t, "undo pay in in doubt", l.entries())
	}
}

func TestCallThatWaitsIsNotInDoubt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		for _, retry := range []core.RetryConfig{once, {InitialDelay: time.Hour}} {
			var l bookings
			store := memstore.New()
			pay := undoneInDoubt(&l, testkit.Tool(t, "pay", retry, func(ctx context.Context, in string) (string, error) {
				if retry.MaxAttempts != 1 {
					return "", errFlaky
				}
				return core.Await[string](ctx, "which?")
			}))
			st, err := state.Open(t.Context(), store, askedRun, state.WithCompensations(pay))
			require.NoError(t, err)
			later := time.AfterFunc(time.Minute, func() { st.Interrupt(snapshot.Stop{By: "ops"}) })
			_, err = testkit.Call(st.Context(t.Context()), pay)
			require.ErrorIs(t, err, core.ErrInterrupted)
			later.Stop()
			require.NoError(t, st.Close())
			require.NoError(t, cancelRun(t, store))
			assertCancelled(t, store)
			assert.Empty(t, l.entries())
		}
	})
}

// Only a program that knows the compensations can end a run that crashed with a call in doubt.
func TestRunThatCrashedInDoubtIsCancelled(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		pay := undoneInDoubt(&l, testkit.Tool(t, "pay", steady, testkit.Succeed))
		known := state.WithCompensations(pay)
		whole := ranOnce(t, known, pay)
		store := crashed(t, whole, 2) // the run and the call have begun
		require.NoError(t, cancelRun(t, store))
		info, err := store.Info(t.Context(), askedRun)
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusInterrupted, info.Status)

		half := testkit.Tool(t, "pay", steady, testkit.Succeed).Compensate(func(context.Context, string, string) error { return nil })
		_, err = state.Open(t.Context(), store, askedRun, state.WithCompensations(half))
		require.ErrorContains(t, err, "its compensation is unknown")
		assert.Empty(t, l.entries())

		_, err = state.Open(t.Context(), store, askedRun, known)
		require.ErrorIs(t, err, state.ErrCancelled)
		assertCancelled(t, store)
		assert.Equal(t, "undo pay in in doubt", l.entries())

		whole = testkit.LoadRun(t, store, askedRun)
		began := slices.IndexFunc(whole.Records, func(r record.Record) bool { return r.Kind == record.KindCompensation })
		store = crashed(t, whole, began+1)
		require.NoError(t, cancelRun(t, store))
		_, err = state.Open(t.Context(), store, askedRun, known)
		require.ErrorIs(t, err, state.ErrCancelled)
		assertCancelled(t, store)
		assert.Equal(t, "undo pay in in doubt, undo pay in in doubt", l.entries())
		again := testkit.LoadRun(t, store, askedRun).Records
		assert.True(t, slices.ContainsFunc(again, func(r record.Record) bool {
			return r.Kind == record.KindCompensation && r.Reason == record.ReasonLost
		}), "the records contain both compensations")
	})
}

// ranOnce returns the stored run of a successful root call.
func ranOnce(t testing.TB, known state.Option, root *testkit.Definition) *snapshot.Snapshot {
	t.Helper()
	store := memstore.New()
	st, err := state.Open(t.Context(), store, askedRun, known)
	require.NoError(t, err)
	_, err = testkit.Call(st.Context(t.Context()), root)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	return testkit.LoadRun(t, store, askedRun)
}

func TestLostCallIsCompensatedAsItEnds(t *testing.T) {
	soldOut := core.Permanent(errors.New("sold out"))
	for name, test := range map[string]struct {
		inDoubt core.InDoubtPolicy
		losses  bool
		answer  any
		again   testkit.Handler
		want    string
	}{
		"fails in doubt":                {inDoubt: core.InDoubtFail, want: "undo pay in in doubt"},
		"losses count":                  {losses: true, want: "undo pay in in doubt"},
		"made again":                    {again: testkit.Succeed, want: "undo pay in (out)"},
		"made again, and fails":         {again: testkit.Fail(soldOut), want: "undo pay in in doubt"},
		"answered: it failed":           {inDoubt: core.InDoubtAsk, answer: state.InDoubtFailed("no idea"), want: "undo pay in in doubt"},
		"answered: it completed":        {inDoubt: core.InDoubtAsk, answer: state.InDoubtCompleted("receipt"), want: "undo pay in (receipt)"},
		"answered: again, and it fails": {inDoubt: core.InDoubtAsk, answer: state.InDoubtRunAgain(), again: testkit.Fail(soldOut), want: "undo pay in in doubt"},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				var l bookings
				handler := testkit.Handler(testkit.Succeed)
				retry := core.RetryConfig{MaxAttempts: 1, LossesCount: test.losses}
				pay := undoneInDoubt(&l, testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", Retry: &retry, InDoubt: test.inDoubt},
					func(ctx context.Context, in string) (string, error) { return handler(ctx, in) }))
				agent := failingAfter(t, pay)
				known := state.WithCompensations(pay)
				call := func(store snapshot.Store) error {
					st, err := state.Open(t.Context(), store, askedRun, known)
					require.NoError(t, err)
					_, err = testkit.Call(st.Context(t.Context()), agent)
					require.NoError(t, st.Close())
					return err
				}
				store := memstore.New()
				require.ErrorIs(t, call(store), errBoom)
				lost := crashed(t, testkit.LoadRun(t, store, askedRun), 3) // the tool has begun
				l.lines, handler = nil, test.again
				err := call(lost)
				if test.answer != nil {
					testkit.Interrupted(t, err, record.InterruptAwait)
					open, e := state.Questions(t.Context(), lost, askedRun)
					require.NoError(t, e)
					require.NoError(t, state.Answer(t.Context(), lost, askedRun, open[0].ID, "ops", test.answer))
					err = call(lost)
				}
				require.ErrorIs(t, err, errBoom)
				assert.Equal(t, test.want, l.entries())
				require.ErrorContains(t, call(lost), "trip: permanent: boom (the recorded failure")
				assert.Equal(t, test.want, l.entries(), "no compensation is made again")

				ended := testkit.LoadRun(t, lost, askedRun)
				for k := 3; k < len(ended.Records); k++ {
					cut := crashed(t, ended, k)
					l.lines = nil
					err := call(cut)
					if test.answer != nil && core.IsSuspension(err) {
						continue // the attempt was lost again, so there is another question
					}
					require.ErrorContains(t, err, "trip: permanent: boom")
					made := testkit.LoadRun(t, cut, askedRun).Records
					outcomes := 0
					for _, r := range made {
						if r.Kind == record.KindCompensation && r.IsOutcome() {
							outcomes++
						}
					}
					assert.Equal(t, 1, outcomes, "cut at %d", k)
					assert.LessOrEqual(t, len(l.lines), 1, "cut at %d", k)
				}
			})
		})
	}
}

// If a compensation of a call in doubt was cut off, it is not made again if the actor's InDoubt
// forbids that.
func TestCompensationInDoubtThatMayHaveRun(t *testing.T) {
	var l bookings
	pay := undoneInDoubt(&l, testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: core.InDoubtFail}, testkit.Fail(core.ErrInDoubt)))
	agent := failingAfter(t, pay)
	call := func(store snapshot.Store) error {
		st, err := state.Open(t.Context(), store, askedRun, state.WithCompensations(pay))
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), agent)
		require.NoError(t, st.Close())
		return err
	}
	store := memstore.New()
	require.EqualError(t, call(store), "trip: permanent: boom")
	whole := testkit.LoadRun(t, store, askedRun)
	began := slices.IndexFunc(whole.Records, func(r record.Record) bool { return r.Kind == record.KindCompensation })
	l.lines = nil
	err := call(crashed(t, whole, began+1))
	require.ErrorAs(t, err, new(*core.CompensationError))
	require.ErrorContains(t, err, "not compensated: trip/pay@undo/pay: in doubt")
	assert.Empty(t, l.lines)
}

func TestIdempotencyKeyOfACallInDoubt(t *testing.T) {
	var keys, undos []string
	note := func(ctx context.Context, keys *[]string) {
		key, err := core.IdempotencyKey(ctx)
		require.NoError(t, err)
		*keys = append(*keys, key)
	}
	pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: core.InDoubtFail}, func(ctx context.Context, _ string) (string, error) {
		note(ctx, &keys)
		return "", core.ErrInDoubt
	}).Compensate(func(context.Context, string, string) error { return nil }).
		CompensateInDoubt(func(ctx context.Context, _ string) error { note(ctx, &undos); return nil })
	store := memstore.New()
	for range 3 { // a call that was undone is made again, with another key
		st, err := state.Open(t.Context(), store, askedRun, state.WithCompensations(pay), state.WithRerunFailed())
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), failingAfter(t, pay))
		require.ErrorIs(t, err, errBoom)
		require.NoError(t, st.Close())
	}
	all := slices.Concat(keys, undos)
	require.Len(t, all, 6)
	slices.Sort(all)
	assert.Len(t, slices.Compact(all), 6)
}

// A call without an outcome is no longer in doubt once it was compensated: it is made again if the
// surrounding call is tried again, even if its InDoubt forbids repetition.
func TestRerunMakesAgainWhatWasCompensatedInDoubt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		var hears, ends atomic.Bool
		pay := undoneInDoubt(&l, testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: core.InDoubtFail}, func(ctx context.Context, in string) (string, error) {
			if !hears.Load() {
				return testkit.Deaf(time.Minute)(ctx, in)
			}
			l.note("pay")
			return "receipt", nil
		}))
		agent := testkit.Agent(t, "trip", core.RetryConfig{MaxAttempts: 1, AttemptTimeout: time.Second}, func(ctx context.Context, _ string) (string, error) {
			out, err := testkit.Call(ctx, pay)
			if ends.Load() {
				return out, err
			}
			return "", errors.Join(err, errBoom)
		})
		store := memstore.New()
		call := func() error {
			l.lines = nil
			st, err := state.Open(t.Context(), store, askedRun, state.WithCompensations(pay), state.WithRerunFailed())
			require.NoError(t, err)
			_, err = testkit.Call(st.Context(t.Context()), agent)
			require.NoError(t, st.Close())
			require.NoError(t, testkit.Pause(t.Context(), time.Hour))
			return err
		}
		require.Error(t, call())
		assert.Equal(t, "undo pay in in doubt", l.entries())
		hears.Store(true)
		require.ErrorIs(t, call(), errBoom)
		assert.Equal(t, "pay, undo pay in (receipt)", l.entries())
		require.ErrorIs(t, call(), errBoom)
		assert.Equal(t, "pay, undo pay in (receipt)", l.entries())
		ends.Store(true)
		require.NoError(t, call())
		assert.Equal(t, "pay", l.entries())
		require.NoError(t, call())
		assert.Empty(t, l.entries())
	})
}

// A call that begins again with another input has a second effect, in addition to the one in doubt.
func TestDivergenceRerunCompensatesTheDoubtToo(t *testing.T) {
	var l bookings
	pay := undoneInDoubt(&l, testkit.Tool(t, "pay", once, testkit.Succeed))
	call := func(store snapshot.Store, what string) (*snapshot.Snapshot, error) {
		st, err := state.Open(t.Context(), store, askedRun, state.WithCompensations(pay), state.WithDivergence(state.DivergenceRerun))
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), testkit.Agent(t, "trip", once, func(ctx context.Context, _ string) (string, error) {
			_, err := pay.Event().Execute(ctx, what)
			return "", errors.Join(err, errBoom)
		}))
		require.NoError(t, st.Close())
		return testkit.LoadRun(t, store, askedRun), err
	}
	store := memstore.New()
	whole, err := call(store, "pen")
	require.ErrorIs(t, err, errBoom)
	l.lines = nil
	whole, err = call(crashed(t, whole, 3), "book")
	require.ErrorIs(t, err, errBoom)
	assert.Equal(t, "undo pay book (out), undo pay pen in doubt", l.entries())
	for k := 4; k <= len(whole.Records); k++ {
		l.lines = nil
		got, err := call(crashed(t, whole, k), "book")
		require.Error(t, err)
		undone := make(map[string]int)
		for _, r := range got.Records {
			if r.Kind == record.KindCompensation && r.IsOutcome() {
				undone[r.Address.String()]++
			}
		}
		assert.Equal(t, map[string]int{"trip/pay@undo/pay": 1, "trip/pay@undo/pay#2": 1}, undone, "cut at %d", k)
	}
}

func TestForkDoesNotCompensateCallsInDoubtOfItsParent(t *testing.T) {
	var l bookings
	fails := true
	pay := undoneInDoubt(&l, testkit.Tool(t, "pay", once, func(ctx context.Context, in string) (string, error) {
		if fails {
			state.From(ctx).Interrupt(snapshot.Stop{By: "ops"})
			return "", ctx.Err()
		}
		_, err := core.IdempotencyKey(ctx)
		return "receipt", err
	}))
	ship := undoneInDoubt(&l, testkit.Tool(t, "ship", once, testkit.Fail(core.ErrInDoubt)))
	agent := failingAfter(t, pay, ship)
	store := memstore.New()
	call := func(id string) error {
		l.lines = nil
		st, err := state.Open(t.Context(), store, id, state.WithCompensations(pay, ship))
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), agent)
		require.NoError(t, st.Close())
		return err
	}
	fork := func(at, id string, o state.ForkOptions) error {
		o.Effects = state.RepeatEffects
		return state.Fork(t.Context(), store, "parent", testkit.Address(t, at), id, o)
	}
	testkit.Interrupted(t, call("parent"), record.InterruptUser)
	require.NoError(t, fork("trip/pay", "fork", state.ForkOptions{}))
	require.NoError(t, fork("trip/pay", "own", state.ForkOptions{NewKeys: true}))
	require.NoError(t, fork("trip/pay", "lost", state.ForkOptions{}))
	testkit.Interrupted(t, call("lost"), record.InterruptUser)
	require.NoError(t, state.Cancel(t.Context(), store, "lost", snapshot.Stop{By: "ops"}))
	info, err := store.Info(t.Context(), "lost")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusCancelled, info.Status, "the fork has nothing to undo: its parent may have made the effects")

	fails = false
	require.ErrorIs(t, call("fork"), errBoom)
	assert.Equal(t, "undo ship in in doubt", l.entries())
	require.ErrorIs(t, call("own"), errBoom)
	assert.Equal(t, "undo ship in in doubt, undo pay in (receipt)", l.entries())
	require.ErrorIs(t, call("parent"), errBoom)
	assert.Equal(t, "undo ship in in doubt, undo pay in (receipt)", l.entries())

	require.ErrorIs(t, fork("trip/ship", "later", state.ForkOptions{}), state.ErrCompensated)
	require.NoError(t, fork("trip/pay", "again", state.ForkOptions{}))
	require.ErrorIs(t, call("again"), errBoom)
	assert.Equal(t, "undo ship in in doubt, undo pay in (receipt)", l.entries(), "a call that the parent undid is made again, and belongs to the fork")
}

func TestReplayCompensatesNothingInDoubt(t *testing.T) {
	var l bookings
	pay := undoneInDoubt(&l, testkit.Tool(t, "pay", once, testkit.Fail(core.ErrInDoubt)))
	agent := failingAfter(t, pay)
	store := memstore.New()
	st, err := state.Open(t.Context(), store, askedRun, state.WithCompensations(pay))
	require.NoError(t, err)
	_, err = testkit.Call(st.Context(t.Context()), agent)
	require.ErrorIs(t, err, errBoom)
	require.NoError(t, st.Close())
	whole := testkit.LoadRun(t, store, askedRun)
	for k := range whole.Records {
		l.lines = nil
		cut := crashed(t, whole, k)
		replay, err := state.Replay(t.Context(), cut, askedRun)
		require.NoError(t, err)
		_, _ = testkit.Call(replay.Context(t.Context()), agent)
		require.NoError(t, replay.Close())
		_, err = state.ValidateExecute(t.Context(), cut, askedRun, func(ctx context.Context) error { _, err := testkit.Call(ctx, agent); return err })
		require.NoError(t, err)
		assert.Empty(t, l.entries())
	}
}

// If a call has a compensation for the case that it is in doubt, its started record is on the disk
// before its handler runs. So after a power cut, the call is known to be in doubt.
func TestBeginningOfACallThatIsUndoneInDoubtIsDurable(t *testing.T) {
	var l bookings
	pay := undoneInDoubt(&l, testkit.Tool(t, "pay", once, testkit.Succeed))
	store := &syncedStore{Store: memstore.New()}
	st, err := state.Open(t.Context(), store, "r", state.WithCompensations(pay))
	require.NoError(t, err)
	_, err = testkit.Call(st.Context(t.Context()), pay)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	assert.Equal(t, []uint64{2, 3}, store.syncs[:2]) // record 1 begins the run, 2 begins the tool, 3 ends it
}

func TestStoredRunMustKnowHowACallInDoubtIsUndone(t *testing.T) {
	var l bookings
	half := testkit.Tool(t, "pay", once, testkit.Succeed).Compensate(func(context.Context, string, string) error { return nil })
	st, err := state.Open(t.Context(), memstore.New(), "run-1", state.WithCompensations(half))
	require.NoError(t, err)
	_, err = testkit.Call(st.Context(t.Context()), undoneInDoubt(&l, testkit.Tool(t, "pay", once, testkit.Succeed)))
	testkit.Interrupted(t, err, record.InterruptReplay)
	require.ErrorContains(t, err, `"pay" has a compensation for calls in doubt, which must be passed when a stored run is opened: pass the actor to state.WithCompensations`)
	require.NoError(t, st.Close())
}

func TestCompensateInDoubtRefusesWhatCannotWork(t *testing.T) {
	undo := func(context.Context, string) error { return nil }
	whole := func(context.Context, string, string) error { return nil }
	plain := testkit.Tool(t, "x", once, testkit.Succeed)
	assert.Contains(t, testkit.PanicText(t, func() { plain.Compensate(whole).CompensateInDoubt(nil) }), "CompensateInDoubt needs a function")
	assert.Contains(t, testkit.PanicText(t, func() { plain.CompensateInDoubt(undo) }), "call Compensate first")
	assert.Contains(t, testkit.PanicText(t, func() {
		testkit.Agent(t, "x", once, testkit.Succeed).Compensate(whole).CompensateInDoubt(undo)
	}), "is never in doubt itself")
	assert.Empty(t, plain.Compensations())
}
