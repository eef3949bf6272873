package state_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// bookings is a log of effects, in order.
type bookings struct {
	mu    sync.Mutex
	lines []string
}

func (l *bookings) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// entries returns the lines of the log, joined by commas.
func (l *bookings) entries() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, ", ")
}

// booking returns a tool whose calls are undone by undo.
func booking(t testing.TB, l *bookings, name string, undo func(context.Context) error) *testkit.Definition {
	return testkit.Tool(t, name, steady, func(_ context.Context, in string) (string, error) {
		l.note("%s %s", name, in)
		return name + "-" + in, nil
	}).Compensate(func(ctx context.Context, in, out string) error {
		if err := undo(ctx); err != nil {
			return err
		}
		l.note("undo %s (%s)", out, in)
		return nil
	})
}

func atOnce(context.Context) error { return nil }

// trip returns an agent that books a flight and two hotels, and then ends with end.
func trip(t testing.TB, flight, hotel *testkit.Definition, end testkit.Handler) *testkit.Definition {
	return testkit.Agent(t, "trip", once, func(ctx context.Context, in string) (string, error) {
		if _, err := flight.Event().Execute(ctx, "oslo"); err != nil {
			return "", err
		}
		for _, where := range []string{"center", "fjord"} {
			if _, err := hotel.Event().Execute(ctx, where); err != nil {
				return "", err
			}
		}
		return end(ctx, in)
	})
}

func TestCompletedCallsAreCompensatedLastFirst(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		st, ctx := testkit.Run(t)
		agent := trip(t, booking(t, &l, "flight", atOnce), booking(t, &l, "hotel", atOnce), testkit.Fail(errBoom))
		_, err := testkit.Call(ctx, agent)
		testkit.Failed(t, err, record.ReasonPermanent)
		require.EqualError(t, err, "trip: permanent: boom")
		assert.Equal(t, "flight oslo, hotel center, hotel fjord, undo hotel-fjord (fjord), undo hotel-center (center), undo flight-oslo (oslo)", l.entries())
		wantRecords(t, st, "run started", "agent_call trip started",
			"tool_call trip/flight started", "tool_call trip/flight completed",
			"tool_call trip/hotel started", "tool_call trip/hotel completed",
			"tool_call trip/hotel#2 started", "tool_call trip/hotel#2 completed",
			"agent_call trip failed",
			"compensation trip/hotel#2@undo/hotel started", "compensation trip/hotel#2@undo/hotel completed",
			"compensation trip/hotel@undo/hotel started", "compensation trip/hotel@undo/hotel completed",
			"compensation trip/flight@undo/flight started", "compensation trip/flight@undo/flight completed")
		assert.Equal(t, 3, st.Report().Compensated)
	})
}

func TestCompletedRootCallCompensatesNothing(t *testing.T) {
	var l bookings
	st, ctx := testkit.Run(t)
	agent := trip(t, booking(t, &l, "flight", atOnce), booking(t, &l, "hotel", atOnce), testkit.Succeed)
	out, err := testkit.Call(ctx, agent)
	testkit.Completed(t, out, err)
	assert.Equal(t, "flight oslo, hotel center, hotel fjord", l.entries())
	assert.Zero(t, st.Report().Compensated)
}

// If an attempt of the surrounding call fails and is retried, nothing is undone. When the last
// attempt has failed, the calls of all attempts are undone.
func TestCallsOfAllAttemptsAreCompensatedOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		_, ctx := testkit.Run(t)
		flight := booking(t, &l, "flight", atOnce)
		agent := testkit.Agent(t, "trip", core.RetryConfig{MaxAttempts: 2}, func(ctx context.Context, _ string) (string, error) {
			if _, err := testkit.Call(ctx, flight); err != nil {
				return "", err
			}
			l.note("fails")
			return "", errFlaky
		})
		_, err := testkit.Call(ctx, agent)
		testkit.Failed(t, err, record.ReasonExhausted)
		assert.Equal(t, "flight in, fails, flight in, fails, undo flight-in (in), undo flight-in (in)", l.entries())
	})
}

func TestCompensationIsRetriedLikeItsActor(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		st, ctx := testkit.Run(t)
		fails := 2
		flight := booking(t, &l, "flight", func(context.Context) error {
			if fails--; fails >= 0 {
				return errFlaky
			}
			return nil
		})
		took := testkit.Stopwatch()
		_, err := testkit.Call(ctx, trip(t, flight, booking(t, &l, "hotel", atOnce), testkit.Fail(errBoom)))
		require.EqualError(t, err, "trip: permanent: boom")
		assert.Equal(t, 3*time.Second, took())
		last := kinds(t, st, record.KindCompensation)
		require.NotEmpty(t, last)
		end := last[len(last)-1]
		assert.Equal(t, record.StatusCompleted, end.Status)
		assert.Equal(t, 2, end.Attempt)
		assert.Equal(t, 3, end.MaxAttempts)
	})
}

func TestCompensationContinuesAfterAFailedOne(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		st, ctx := testkit.Run(t)
		hotel := booking(t, &l, "hotel", func(context.Context) error { return core.Permanent(errors.New("no refund")) })
		_, err := testkit.Call(ctx, trip(t, booking(t, &l, "flight", atOnce), hotel, testkit.Fail(errBoom)))
		require.ErrorIs(t, err, errBoom)
		var not *core.CompensationError
		require.ErrorAs(t, err, &not)
		require.Len(t, not.Failed, 2)
		assert.Equal(t, "trip/hotel#2", not.Failed[0].Address.String())
		assert.Equal(t, "hotel", not.Failed[0].Name)
		assert.EqualError(t, err, "trip: permanent: boom; not compensated: trip/hotel#2@undo/hotel: permanent: no refund; trip/hotel@undo/hotel: permanent: no refund")
		assert.Equal(t, "flight oslo, hotel center, hotel fjord, undo flight-oslo (oslo)", l.entries())
		assert.Equal(t, 1, st.Report().Compensated)
		assert.Equal(t, 2, st.Report().Uncompensated)
	})
}

// The error of a failed compensation does not decide whether the surrounding call is retried.
func TestFailedCompensationDoesNotMakeItsCallTransient(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		_, ctx := testkit.Run(t)
		hotel := booking(t, &l, "hotel", func(context.Context) error { return errFlaky })
		inner := trip(t, booking(t, &l, "flight", atOnce), hotel, testkit.Fail(core.Permanent(errBoom)))
		entered := 0
		outer := testkit.Agent(t, "outer", steady, testkit.Counted(&entered, func(ctx context.Context, _ string) (string, error) {
			return testkit.Call(ctx, inner)
		}))
		_, err := testkit.Call(ctx, outer)
		testkit.Failed(t, err, record.ReasonPermanent)
		assert.Equal(t, 1, entered)
	})
}

func TestCompletedCallWithCompensationIsUndoneByThatAlone(t *testing.T) {
	var l bookings
	_, ctx := testkit.Run(t)
	inner := trip(t, booking(t, &l, "flight", atOnce), booking(t, &l, "hotel", atOnce), testkit.Succeed).
		Compensate(func(_ context.Context, in, out string) error {
			l.note("undo trip (%s, %s)", in, out)
			return nil
		})
	outer := testkit.Agent(t, "outer", once, func(ctx context.Context, _ string) (string, error) {
		_, err := testkit.Call(ctx, inner)
		return "", errors.Join(err, errBoom)
	})
	_, err := testkit.Call(ctx, outer)
	require.ErrorIs(t, err, errBoom)
	assert.Equal(t, "flight oslo, hotel center, hotel fjord, undo trip (in, out)", l.entries())
}

func TestCallsInsideCompletedCallsAreCompensatedOnce(t *testing.T) {
	var l bookings
	_, ctx := testkit.Run(t)
	inner := trip(t, booking(t, &l, "flight", atOnce), booking(t, &l, "hotel", atOnce), testkit.Succeed)
	broken := testkit.Agent(t, "broken", once, func(ctx context.Context, _ string) (string, error) {
		_, err := booking(t, &l, "car", atOnce).Event().Execute(ctx, "red")
		return "", errors.Join(err, errBoom)
	})
	outer := testkit.Agent(t, "outer", once, func(ctx context.Context, _ string) (string, error) {
		if _, err := testkit.Call(ctx, inner); err != nil {
			return "", err
		}
		return testkit.Call(ctx, broken)
	})
	_, err := testkit.Call(ctx, outer)
	require.ErrorIs(t, err, errBoom)
	assert.Equal(t, "flight oslo, hotel center, hotel fjord, car red, undo car-red (red), "+
		"undo hotel-fjord (fjord), undo hotel-center (center), undo flight-oslo (oslo)", l.entries())
}

// The handler around a group may ignore the group's failure.
func TestBranchesAreCompensatedWithTheCallAroundTheirGroup(t *testing.T) {
	for _, goesOn := range []bool{false, true} {
		var l bookings
		_, ctx := testkit.Run(t)
		flight := booking(t, &l, "flight", atOnce)
		agent := testkit.Agent(t, "trip", once, func(ctx context.Context, _ string) (string, error) {
			_, err := group(ctx, "legs", calling(flight), calling(testkit.Tool(t, "fails", once, testkit.Fail(errBoom))))
			if goesOn {
				err = nil
			}
			return "out", err
		})
		_, err := testkit.Call(ctx, agent)
		if goesOn {
			require.NoError(t, err)
			assert.Equal(t, "flight in", l.entries())
			continue
		}
		require.ErrorIs(t, err, errBoom)
		assert.Equal(t, "flight in, undo flight-in (in)", l.entries())
	}
}

func TestRootGroupCompensatesItsBranches(t *testing.T) {
	var l bookings
	_, ctx := testkit.Run(t)
	_, err := group(ctx, "legs", calling(booking(t, &l, "flight", atOnce)), calling(testkit.Tool(t, "fails", once, testkit.Fail(errBoom))))
	require.ErrorIs(t, err, errBoom)
	assert.Equal(t, "flight in, undo flight-in (in)", l.entries())
}

func TestCallsOfACompensationAreNotCompensated(t *testing.T) {
	var l bookings
	_, ctx := testkit.Run(t)
	refund := booking(t, &l, "refund", atOnce)
	flight := booking(t, &l, "flight", func(ctx context.Context) error {
		_, err := testkit.Call(ctx, refund)
		return errors.Join(err, errBoom)
	})
	inner := testkit.Agent(t, "inner", once, func(ctx context.Context, _ string) (string, error) {
		_, err := testkit.Call(ctx, flight)
		return "", errors.Join(err, errBoom)
	})
	outer := testkit.Agent(t, "outer", once, func(ctx context.Context, _ string) (string, error) { return testkit.Call(ctx, inner) })
	_, err := testkit.Call(ctx, outer)
	require.ErrorIs(t, err, errBoom)
	assert.Equal(t, "flight in, refund in", l.entries())
}

func TestLimitsOfSurroundingCallsDoNotApplyToACompensation(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		_, ctx := testkit.Run(t)
		flight := booking(t, &l, "flight", func(ctx context.Context) error { return testkit.Pause(ctx, time.Hour) })
		agent := testkit.Agent(t, "trip", core.RetryConfig{MaxAttempts: 1, AttemptTimeout: time.Second}, func(ctx context.Context, _ string) (string, error) {
			if _, err := testkit.Call(ctx, flight); err != nil {
				return "", err
			}
			return "", testkit.Pause(ctx, time.Minute)
		})
		_, err := testkit.Call(ctx, agent)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, "flight in, undo flight-in (in)", l.entries())

		own, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		l.lines = nil
		_, err = testkit.Call(own, testkit.Agent(t, "other", once, func(ctx context.Context, _ string) (string, error) {
			if _, err := testkit.Call(ctx, flight); err != nil {
				return "", err
			}
			return "", testkit.Pause(ctx, time.Minute)
		}))
		testkit.Failed(t, err, record.ReasonDeadline)
		assert.Equal(t, "flight in, undo flight-in (in)", l.entries())
	})
}

func TestCompensationOutsideARun(t *testing.T) {
	var l bookings
	agent := trip(t, booking(t, &l, "flight", atOnce), booking(t, &l, "hotel", atOnce), testkit.Fail(errBoom))
	_, err := testkit.Call(t.Context(), agent)
	require.EqualError(t, err, "trip: permanent: boom")
	assert.Equal(t, "flight oslo, hotel center, hotel fjord, undo hotel-fjord (fjord), undo hotel-center (center), undo flight-oslo (oslo)", l.entries())
}

// An interrupt is not a failure. The compensations are made when the run is resumed.
func TestInterruptedRunCompensatesNothingUntilItIsResumed(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		store := memstore.New()
		interrupt := func() {}
		flight := booking(t, &l, "flight", atOnce)
		hotel := booking(t, &l, "hotel", func(context.Context) error { interrupt(); return nil })
		agent := trip(t, flight, hotel, testkit.Fail(errBoom))
		known := state.WithCompensations(flight, hotel)

		st, err := state.Open(t.Context(), store, "run-1", known)
		require.NoError(t, err)
		interrupt = func() { st.Interrupt(snapshot.Stop{By: "ops"}) }
		_, err = testkit.Call(st.Context(t.Context()), agent)
		testkit.Interrupted(t, err, record.InterruptUser)
		require.NoError(t, st.Close())
		assert.Equal(t, snapshot.StatusInterrupted, st.Status())
		assert.Equal(t, "flight oslo, hotel center, hotel fjord, undo hotel-fjord (fjord)", l.entries())

		interrupt = func() {}
		for range 2 { // the second time there is nothing left to do
			st, err = state.Open(t.Context(), store, "run-1", known)
			require.NoError(t, err)
			_, err = testkit.Call(st.Context(t.Context()), agent)
			require.ErrorContains(t, err, "trip: permanent: boom")
			require.NoError(t, st.Close())
			assert.Equal(t, snapshot.StatusFailed, st.Status())
			assert.Equal(t, "flight oslo, hotel center, hotel fjord, undo hotel-fjord (fjord), undo hotel-center (center), undo flight-oslo (oslo)", l.entries())
		}
	})
}

func TestFailedCompensationsAreReportedAgainByARecall(t *testing.T) {
	var l bookings
	store := memstore.New()
	hotel := booking(t, &l, "hotel", func(context.Context) error { return core.Permanent(errors.New("no refund")) })
	flight := booking(t, &l, "flight", atOnce)
	agent := trip(t, flight, hotel, testkit.Fail(errBoom))
	var texts []string
	for range 2 {
		st, err := state.Open(t.Context(), store, "run-1", state.WithCompensations(flight, hotel))
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), agent)
		require.Error(t, err)
		texts = append(texts, err.Error())
		require.NoError(t, st.Close())
	}
	assert.Contains(t, texts[0], "not compensated: trip/hotel#2@undo/hotel: permanent: no refund; ")
	assert.Equal(t, texts[0], strings.Split(texts[1], " (the recorded failure")[0])
}

// The error of the failed call lists the failed compensations; the errors of the surrounding calls
// do not.
func TestFailedCompensationsAreReportedOnceAfterARestartToo(t *testing.T) {
	var l bookings
	store := memstore.New()
	hotel := booking(t, &l, "hotel", func(context.Context) error { return core.Permanent(errors.New("no refund")) })
	flight := booking(t, &l, "flight", atOnce)
	inner := trip(t, flight, hotel, testkit.Fail(errBoom))
	outer := testkit.Agent(t, "outer", once, func(ctx context.Context, _ string) (string, error) { return testkit.Call(ctx, inner) })
	var texts []string
	for range 2 {
		st, err := state.Open(t.Context(), store, "run-1", state.WithCompensations(flight, hotel))
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), outer)
		require.Error(t, err)
		texts = append(texts, err.Error())
		require.NoError(t, st.Close())
	}
	assert.Equal(t, 1, strings.Count(texts[0], "not compensated"), texts[0])
	assert.Equal(t, texts[0], strings.Split(texts[1], " (the recorded failure")[0])
}

// crashed returns a store with the first records of the run, as after a crash.
func crashed(t testing.TB, of *snapshot.Snapshot, records int) snapshot.Store {
	t.Helper()
	cut := *of
	cut.Status, cut.Stop, cut.Records = snapshot.StatusRunning, snapshot.Stop{}, slices.Clone(of.Records[:records])
	run, err := cut.Run()
	require.NoError(t, err)
	store := memstore.New()
	_, err = store.Create(t.Context(), run)
	require.NoError(t, err)
	return store
}

// No matter where the process ends, each call is eventually undone, and no compensation with an
// outcome is made again.
func TestCompensationContinuesAfterACrashAtEveryRecord(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		flight, hotel := booking(t, &l, "flight", atOnce), booking(t, &l, "hotel", atOnce)
		inner := trip(t, flight, hotel, testkit.Succeed) // completes: its calls are undone when the agent around it fails
		agent := testkit.Agent(t, "outer", once, func(ctx context.Context, _ string) (string, error) {
			if _, err := testkit.Call(ctx, inner); err != nil {
				return "", err
			}
			_, err := testkit.Call(ctx, flight)
			return "", errors.Join(err, errBoom)
		})
		call := func(store snapshot.Store) (*snapshot.Snapshot, error) {
			st, err := state.Open(t.Context(), store, "run-1", state.WithCompensations(flight, hotel))
			require.NoError(t, err)
			_, err = testkit.Call(st.Context(t.Context()), agent)
			require.NoError(t, st.Close())
			return testkit.LoadRun(t, store, "run-1"), err
		}
		whole, err := call(memstore.New())
		require.EqualError(t, err, "outer: permanent: boom")
		undone := func(records []record.Record) (order []string) {
			for _, r := range records {
				if r.Kind == record.KindCompensation && r.IsOutcome() {
					order = append(order, r.Address.String())
				}
			}
			return order
		}
		want := []string{"outer/flight@undo/flight", "outer/trip/hotel#2@undo/hotel", "outer/trip/hotel@undo/hotel", "outer/trip/flight@undo/flight"}
		require.Equal(t, want, undone(whole.Records))
		for k := range whole.Records {
			l.lines = nil
			before := undone(whole.Records[:k])
			got, err := call(crashed(t, whole, k))
			require.EqualError(t, err, "outer: permanent: boom", "cut at %d", k)
			assert.Equal(t, want, undone(got.Records), "cut at %d", k)
			assert.Equal(t, len(want)-len(before), strings.Count(l.entries(), "undo "), "cut at %d: %s", k, l.entries())
		}
	})
}

func TestCompensationThatNobodyKnowsSuspendsTheRun(t *testing.T) {
	var l bookings
	store := memstore.New()
	flight := booking(t, &l, "flight", atOnce)
	agent := testkit.Agent(t, "trip", once, func(ctx context.Context, _ string) (string, error) {
		_, err := testkit.Call(ctx, flight)
		return "", err
	})
	for _, root := range []*testkit.Definition{agent, flight} {
		st, err := state.Open(t.Context(), store, "run-"+root.Spec().Name)
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), root)
		testkit.Interrupted(t, err, record.InterruptReplay)
		assert.ErrorContains(t, err, `"flight" has a compensation, which must be passed when a stored run is opened: pass the actor to state.WithCompensations`)
		require.NoError(t, st.Close())
		assert.Equal(t, snapshot.StatusInterrupted, st.Status())
	}
	assert.Empty(t, l.entries())
	st, err := state.Open(t.Context(), store, "run-trip", state.WithCompensations(flight))
	require.NoError(t, err)
	_, err = testkit.Call(st.Context(t.Context()), agent)
	require.NoError(t, err)
	require.NoError(t, st.Close())
}

func TestReplayAndValidateCompensateNothing(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		store := memstore.New()
		flight, hotel := booking(t, &l, "flight", atOnce), booking(t, &l, "hotel", atOnce)
		agent := trip(t, flight, hotel, testkit.Fail(errBoom))
		st, err := state.Open(t.Context(), store, "run-1", state.WithCompensations(flight, hotel))
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), agent)
		require.Error(t, err)
		require.NoError(t, st.Close())
		whole := testkit.LoadRun(t, store, "run-1")
		for k := range whole.Records {
			cut := crashed(t, whole, k)
			l.lines = nil
			replay, err := state.Replay(t.Context(), cut, "run-1")
			require.NoError(t, err)
			_, _ = testkit.Call(replay.Context(t.Context()), agent)
			require.NoError(t, replay.Close())
			assert.Empty(t, l.entries())
			program := func(ctx context.Context) error { _, err := testkit.Call(ctx, agent); return err }
			_, err = state.Validate(t.Context(), cut, "run-1", program)
			require.NoError(t, err)
			_, err = state.ValidateExecute(t.Context(), cut, "run-1", program)
			require.NoError(t, err)
			assert.NotContains(t, l.entries(), "undo")
		}
		differences, err := state.Validate(t.Context(), store, "run-1", func(ctx context.Context) error { _, err := testkit.Call(ctx, agent); return err })
		require.NoError(t, err)
		assert.Empty(t, differences)
	})
}

// A program that differs from the records is refused. That is not a failure, so nothing is
// compensated.
func TestRefusedReplayCompensatesNothing(t *testing.T) {
	var l bookings
	store := memstore.New()
	flight, hotel := booking(t, &l, "flight", atOnce), booking(t, &l, "hotel", atOnce)
	open := func() (*state.ExecutionState, context.Context) {
		st, err := state.Open(t.Context(), store, "run-1", state.WithCompensations(flight, hotel))
		require.NoError(t, err)
		return st, st.Context(t.Context())
	}
	st, ctx := open()
	_, err := testkit.Call(ctx, trip(t, flight, hotel, func(context.Context, string) (string, error) {
		st.Interrupt(snapshot.Stop{})
		return "", errFlaky
	}))
	testkit.Interrupted(t, err, record.InterruptUser)
	require.NoError(t, st.Close())
	_, ctx = open()
	_, err = testkit.Call(ctx, trip(t, hotel, flight, testkit.Fail(errBoom)))
	testkit.Interrupted(t, err, record.InterruptDiverge)
	assert.NotContains(t, l.entries(), "undo")
}

// A call that was undone is made again if the surrounding call is tried again.
func TestRerunMakesCompensatedCallsAgain(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		store := memstore.New()
		flight, hotel := booking(t, &l, "flight", atOnce), booking(t, &l, "hotel", atOnce)
		call := func(end testkit.Handler, options ...state.Option) error {
			l.lines = nil
			st, err := state.Open(t.Context(), store, "run-1", append(options, state.WithCompensations(flight, hotel))...)
			require.NoError(t, err)
			_, err = testkit.Call(st.Context(t.Context()), trip(t, flight, hotel, end))
			require.NoError(t, st.Close())
			return err
		}
		require.Error(t, call(testkit.Fail(errBoom)))
		const made, undone = "flight oslo, hotel center, hotel fjord", "undo hotel-fjord (fjord), undo hotel-center (center), undo flight-oslo (oslo)"
		assert.Equal(t, made+", "+undone, l.entries())
		require.Error(t, call(testkit.Fail(errBoom), state.WithRerunFailed()))
		assert.Equal(t, made+", "+undone, l.entries())
		require.NoError(t, call(testkit.Succeed, state.WithRerunFailed()))
		assert.Equal(t, made, l.entries())
		require.NoError(t, call(testkit.Fail(errBoom)))
		assert.Empty(t, l.entries())
	})
}

// A compensation also undoes the calls inside the compensated call, so they are made again with it.
func TestRerunMakesTheCallsInsideACompensatedCallAgain(t *testing.T) {
	for name, err := range map[string]error{"completed": nil, "in doubt": core.InDoubt(errBoom)} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				var l bookings
				store, end := memstore.New(), testkit.Fail(errBoom)
				charge := testkit.Tool(t, "charge", steady, func(_ context.Context, in string) (string, error) {
					l.note("charge %s", in)
					return "charged", nil
				})
				book := undoneInDoubt(&l, testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "book", InDoubt: core.InDoubtFail}, func(ctx context.Context, in string) (string, error) {
					if out, err := charge.Event().Execute(ctx, in); err != nil {
						return out, err
					}
					return "booked", err
				}))
				call := func() {
					l.lines = nil
					st, err := state.Open(t.Context(), store, "run-1", state.WithCompensations(book), state.WithRerunFailed())
					require.NoError(t, err)
					_, _ = testkit.Call(st.Context(t.Context()), testkit.Agent(t, "trip", once, func(ctx context.Context, in string) (string, error) {
						if out, err := book.Event().Execute(ctx, "oslo"); err != nil {
							return out, err
						}
						return end(ctx, in)
					}))
					require.NoError(t, st.Close())
				}
				undone := "charge oslo, undo book oslo (booked)"
				if err != nil {
					undone = "charge oslo, undo book oslo in doubt"
				}
				call()
				assert.Equal(t, undone, l.entries())
				call()
				assert.Equal(t, undone, l.entries())
				err, end = nil, testkit.Succeed
				call()
				assert.Equal(t, "charge oslo", l.entries())
				call()
				assert.Empty(t, l.entries())
			})
		})
	}
}

// A call that was undone gets all its attempts again, even if its process ends meanwhile, and even
// if its attempts have new numbers because of the calls inside it.
func TestCallThatWasUndoneGetsAllItsAttemptsAgain(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		store, end, fails := memstore.New(), testkit.Fail(errBoom), 0
		charge := testkit.Tool(t, "charge", steady, testkit.Succeed)
		book := undoneInDoubt(&l, testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "book", Retry: &core.RetryConfig{MaxAttempts: 3}}, func(ctx context.Context, in string) (string, error) {
			if out, err := charge.Event().Execute(ctx, in); err != nil {
				return out, err
			}
			if fails--; fails >= 0 {
				return "", core.Retryable(errBoom)
			}
			return "booked", nil
		}))
		call := func() (string, error) {
			st, err := state.Open(t.Context(), store, "run-1", state.WithCompensations(book), state.WithRerunFailed())
			require.NoError(t, err)
			out, err := testkit.Call(st.Context(t.Context()), testkit.Agent(t, "trip", once, func(ctx context.Context, in string) (string, error) {
				if out, err := book.Event().Execute(ctx, "oslo"); err != nil {
					return out, err
				}
				return end(ctx, in)
			}))
			require.NoError(t, st.Close())
			return out, err
		}
		fails = 2
		_, err := call()
		require.ErrorIs(t, err, errBoom)
		fails, end = 2, testkit.Succeed
		out, err := call()
		testkit.Completed(t, out, err)
	})
}

// A call that is made again because its input has changed took effect twice. Both effects are
// undone, each with its own input and output, no matter where the process ended.
func TestDivergenceRerunCompensatesBothEffects(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		flight, hotel := booking(t, &l, "flight", atOnce), booking(t, &l, "hotel", atOnce)
		call := func(store snapshot.Store, where string, stop bool, options ...state.Option) (*snapshot.Snapshot, error) {
			st, err := state.Open(t.Context(), store, "run-1", append(options, state.WithCompensations(flight, hotel))...)
			require.NoError(t, err)
			agent := testkit.Agent(t, "trip", once, func(ctx context.Context, _ string) (string, error) {
				if _, err := flight.Event().Execute(ctx, where); err != nil {
					return "", err
				}
				if _, err := hotel.Event().Execute(ctx, "center"); err != nil {
					return "", err
				}
				if stop {
					st.Interrupt(snapshot.Stop{By: "ops", Message: "the destination is wrong"})
					return "", ctx.Err()
				}
				return "", errBoom
			})
			_, err = testkit.Call(st.Context(t.Context()), agent)
			require.NoError(t, st.Close())
			return testkit.LoadRun(t, store, "run-1"), err
		}
		store := memstore.New()
		first, err := call(store, "oslo", true)
		require.ErrorIs(t, err, core.ErrInterrupted)
		whole, err := call(store, "rome", false, state.WithDivergence(state.DivergenceRerun))
		require.EqualError(t, err, "trip: permanent: boom")
		assert.Equal(t, "flight oslo, hotel center, flight rome, hotel center, "+
			"undo hotel-center (center), undo flight-rome (rome), undo hotel-center (center), undo flight-oslo (oslo)", l.entries())

		count := func(records []record.Record, is func(*record.Record) bool) (n int) {
			for i := range records {
				if is(&records[i]) {
					n++
				}
			}
			return n
		}
		made := func(r *record.Record) bool { return r.Detail != nil && r.Detail.Compensable }
		undone := func(r *record.Record) bool { return r.Kind == record.KindCompensation && r.IsOutcome() }
		for k := range whole.Records {
			l.lines = nil
			got, err := call(crashed(t, whole, k), "rome", false, state.WithDivergence(state.DivergenceRerun))
			require.EqualError(t, err, "trip: permanent: boom", "cut at %d", k)
			assert.Equal(t, count(got.Records, made), count(got.Records, undone), "cut at %d: %s", k, l.entries())
			assert.Equal(t, count(got.Records, undone)-count(whole.Records[:k], undone), strings.Count(l.entries(), "undo "), "cut at %d: compensations of %s", k, l.entries())
			if k >= len(first.Records) {
				assert.Equal(t, 4, count(got.Records, undone), "cut at %d", k)
			}
		}

		ended := crashed(t, whole, len(whole.Records))
		l.lines = nil
		_, err = call(ended, "rome", false)
		require.ErrorContains(t, err, "trip: permanent: boom")
		assert.Empty(t, l.entries(), "no compensation is made again")
	})
}

func TestCancelledRunIsCompensated(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		for name, open := range map[string]func(...state.Option) *state.ExecutionState{
			"in memory": func(o ...state.Option) *state.ExecutionState { return state.New(o...) },
			"stored": func(o ...state.Option) *state.ExecutionState {
				st, err := state.Open(t.Context(), memstore.New(), "run-1", o...)
				require.NoError(t, err)
				return st
			},
		} {
			var l bookings
			flight, hotel := booking(t, &l, "flight", atOnce), booking(t, &l, "hotel", atOnce)
			st := open(state.WithCompensations(flight, hotel))
			ctx := st.Context(t.Context())
			_, err := testkit.Call(ctx, flight) // a root call that completed
			require.NoError(t, err, name)
			_, err = testkit.Call(ctx, trip(t, flight, hotel, func(ctx context.Context, _ string) (string, error) {
				st.Cancel(snapshot.Stop{By: "ops", Message: "wrong customer"})
				return "", ctx.Err()
			}))
			testkit.Interrupted(t, err, record.InterruptCancel)
			assert.NotContains(t, l.entries(), "undo")
			require.NoError(t, st.Close())
			assert.Equal(t, snapshot.StatusCancelled, st.Status())
			assert.Equal(t, "flight in, flight oslo, hotel center, hotel fjord, "+
				"undo hotel-fjord (fjord), undo hotel-center (center), undo flight-oslo (oslo), undo flight-in (in)", l.entries(), name)
			records, err := st.Records(t.Context())
			require.NoError(t, err)
			assert.Equal(t, record.StatusCancelled, records[len(records)-1].Status, name)
		}
	})
}

// No matter where its process ended, only a program that knows the compensations can end the run.
func TestCancelledRunIsCompensatedByTheNextOpening(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		flight, hotel := booking(t, &l, "flight", atOnce), booking(t, &l, "hotel", atOnce)
		store := memstore.New()
		known := state.WithCompensations(flight, hotel)
		st, err := state.Open(t.Context(), store, askedRun, known)
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), trip(t, flight, hotel, func(ctx context.Context, _ string) (string, error) {
			st.Cancel(snapshot.Stop{By: "ops", Message: "wrong customer"})
			return "", ctx.Err()
		}))
		testkit.Interrupted(t, err, record.InterruptCancel)
		require.NoError(t, st.Close())
		assertCancelled(t, store)
		whole := testkit.LoadRun(t, store, askedRun)
		for k := 3; k < len(whole.Records); k++ {
			l.lines = nil
			store := crashed(t, whole, k)
			completed, undone := 0, 0
			for _, r := range whole.Records[:k] {
				if r.Kind == record.KindTool && r.Status == record.StatusCompleted {
					completed++
				}
				if r.Kind == record.KindCompensation && r.IsOutcome() {
					undone++
				}
			}
			require.NoError(t, cancelRun(t, store))
			if completed > undone {
				info, err := store.Info(t.Context(), askedRun)
				require.NoError(t, err)
				assert.Equal(t, snapshot.StatusInterrupted, info.Status)
				assert.Equal(t, record.InterruptCancel, info.Stop.Reason)
				_, err = state.Open(t.Context(), store, askedRun)
				require.ErrorIs(t, err, state.ErrCancelled)
				require.ErrorContains(t, err, "pass the actor to state.WithCompensations")
				_, err = state.Open(t.Context(), store, askedRun, known)
				require.ErrorIs(t, err, state.ErrCancelled)
			}
			assertCancelled(t, store)
			assert.Equal(t, completed-undone, strings.Count(l.entries(), "undo "), "cut at %d: %s", k, l.entries())
		}
	})
}

// lockedStore is a store in which another process has every run open.
type lockedStore struct{ snapshot.Store }

func (lockedStore) Open(context.Context, string, snapshot.OpenOptions) (snapshot.Journal, error) {
	return nil, snapshot.ErrLocked
}

// The first cancel was posted while another process had the run open. That process has ended since
// then.
func TestTheFirstOfTwoCancelsCounts(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		flight, hotel := booking(t, &l, "flight", atOnce), booking(t, &l, "hotel", atOnce)
		store := memstore.New()
		st, err := state.Open(t.Context(), store, askedRun, state.WithCompensations(flight, hotel))
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), trip(t, flight, hotel, func(ctx context.Context, _ string) (string, error) {
			st.Interrupt(snapshot.Stop{Reason: record.InterruptUser})
			return "", ctx.Err()
		}))
		testkit.Interrupted(t, err, record.InterruptUser)
		require.NoError(t, st.Close())
		require.NoError(t, state.Cancel(t.Context(), lockedStore{store}, askedRun, snapshot.Stop{By: "ann"}))
		require.NoError(t, state.Cancel(t.Context(), store, askedRun, snapshot.Stop{By: "bob"}))
		info, err := store.Info(t.Context(), askedRun)
		require.NoError(t, err)
		assert.Equal(t, snapshot.Stop{Reason: record.InterruptCancel, By: "ann"}, info.Stop)
	})
}

// A cancelled run does not end while a compensation waits for an answer.
func TestCancelledRunWaitsForTheAnswerOfACompensation(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		store := memstore.New()
		flight := booking(t, &l, "flight", func(ctx context.Context) error {
			refund, err := core.Await[string](ctx, "refund?")
			l.note("%s", refund)
			return err
		})
		known := state.WithCompensations(flight)
		st, err := state.Open(t.Context(), store, askedRun, known)
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), flight)
		require.NoError(t, err)
		st.Cancel(snapshot.Stop{By: "ops", Message: "wrong customer"})
		require.NoError(t, st.Close())
		assert.Equal(t, snapshot.StatusPaused, st.Status())
		open, err := state.Questions(t.Context(), store, askedRun)
		require.NoError(t, err)
		require.Len(t, open, 1)
		require.NoError(t, state.Answer(t.Context(), store, askedRun, open[0].ID, "", "yes"))
		_, err = state.Open(t.Context(), store, askedRun, known)
		require.ErrorIs(t, err, state.ErrCancelled)
		assertCancelled(t, store)
		assert.Equal(t, "flight in, , yes, undo flight-in (in)", l.entries())
	})
}

// The question of a call that a cancel has stopped is closed at once, even while the run waits for its
// compensations.
func TestCancelledRunAsksOnlyForItsCompensations(t *testing.T) {
	var l bookings
	store := memstore.New()
	flight := booking(t, &l, "flight", func(ctx context.Context) error {
		_, err := core.Await[string](ctx, "refund?")
		return err
	})
	known := state.WithCompensations(flight)
	st, err := state.Open(t.Context(), store, askedRun, known)
	require.NoError(t, err)
	_, err = testkit.Call(st.Context(t.Context()), testkit.Agent(t, "trip", once, func(ctx context.Context, _ string) (string, error) {
		if _, err := testkit.Call(ctx, flight); err != nil {
			return "", err
		}
		return core.Await[string](ctx, "window or aisle?")
	}))
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())
	open, err := state.Questions(t.Context(), store, askedRun)
	require.NoError(t, err)
	require.Len(t, open, 1)
	seat := open[0].ID

	require.NoError(t, cancelRun(t, store))
	open, err = state.Questions(t.Context(), store, askedRun)
	require.NoError(t, err)
	assert.Empty(t, open)
	require.ErrorIs(t, state.Answer(t.Context(), store, askedRun, seat, "", "aisle"), state.ErrCancelled)

	_, err = state.Open(t.Context(), store, askedRun, known)
	require.ErrorIs(t, err, core.ErrAwaiting)
	open, err = state.Questions(t.Context(), store, askedRun)
	require.NoError(t, err)
	require.Len(t, open, 1)
	assert.Equal(t, "refund?", open[0].Text)
	require.ErrorIs(t, state.Answer(t.Context(), store, askedRun, seat, "", "aisle"), state.ErrCancelled)
	require.NoError(t, state.Answer(t.Context(), store, askedRun, open[0].ID, "", "yes"))
	_, err = state.Open(t.Context(), store, askedRun, known)
	require.ErrorIs(t, err, state.ErrCancelled)
	assertCancelled(t, store)
}

func TestCompensationThatMayHaveRunIsMadeAgainOrFails(t *testing.T) {
	for doubt, want := range map[core.InDoubtPolicy]int{core.InDoubtRetry: 1, core.InDoubtFail: 0} {
		var l bookings
		d := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: doubt}, testkit.Succeed).
			Compensate(func(context.Context, string, string) error { l.note("undo"); return nil })
		agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
			_, err := testkit.Call(ctx, d)
			return "", errors.Join(err, errBoom)
		})
		store := memstore.New()
		call := func(store snapshot.Store) error {
			st, err := state.Open(t.Context(), store, "run-1", state.WithCompensations(d))
			require.NoError(t, err)
			_, err = testkit.Call(st.Context(t.Context()), agent)
			require.NoError(t, st.Close())
			return err
		}
		require.EqualError(t, call(store), "agent: permanent: boom")
		whole := testkit.LoadRun(t, store, "run-1")
		began := slices.IndexFunc(whole.Records, func(r record.Record) bool { return r.Kind == record.KindCompensation })
		l.lines = nil
		err := call(crashed(t, whole, began+1))
		assert.Len(t, l.lines, want)
		assert.Equal(t, want == 0, errors.As(err, new(*core.CompensationError)), "%v", err)
	}
}

func TestIdempotencyKeyOfACompensationIsTheSameAfterARestart(t *testing.T) {
	var keys []string
	d := testkit.Tool(t, "pay", core.RetryConfig{InitialDelay: core.NoDelay}, testkit.Succeed).Compensate(func(ctx context.Context, _, _ string) error {
		key, err := core.IdempotencyKey(ctx)
		keys = append(keys, key)
		return err
	})
	var made string
	d2 := testkit.Tool(t, "other", once, func(ctx context.Context, _ string) (_ string, err error) {
		made, err = core.IdempotencyKey(ctx)
		return "out", err
	})
	agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		_, err := testkit.Call(ctx, d)
		_, other := testkit.Call(ctx, d2)
		return "", errors.Join(err, other, errBoom)
	})
	store := memstore.New()
	for range 2 {
		st, err := state.Open(t.Context(), store, "run-1", state.WithCompensations(d))
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), agent)
		require.EqualError(t, err, "agent: permanent: boom")
		require.NoError(t, st.Close())
		whole := testkit.LoadRun(t, store, "run-1")
		began := slices.IndexFunc(whole.Records, func(r record.Record) bool { return r.Kind == record.KindCompensation })
		store = crashed(t, whole, began+1).(*memstore.Store)
	}
	require.Len(t, keys, 2)
	assert.Equal(t, keys[0], keys[1])
	assert.NotEqual(t, made, keys[0])
}

func TestCompensationsOfAnAgentIncludeThoseOfItsTools(t *testing.T) {
	undone := 0
	pay := decorators.Tool("pay", "", func(context.Context, struct{}) (string, error) { return "", nil }).
		Compensate(func(context.Context, struct{}, string) error { undone++; return nil })
	model := actors.NewLLM("model", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{}, errFlaky
	})
	agent := actors.NewAgent("agent", model, actors.WithTools(pay))
	st, err := state.Open(t.Context(), memstore.New(), "run-1", state.WithCompensations(agent))
	require.NoError(t, err)
	_, err = pay.Call(st.Context(t.Context()), struct{}{})
	require.NoError(t, err)
	st.Cancel(snapshot.Stop{By: "ops"})
	require.NoError(t, st.Close())
	assert.Equal(t, 1, undone)
}

func TestCompensateRefusesWhatCannotWork(t *testing.T) {
	assert.Contains(t, testkit.PanicText(t, func() { testkit.Tool(t, "x", once, testkit.Succeed).Compensate(nil) }), "Compensate needs a function")
	assert.Contains(t, testkit.PanicText(t, func() {
		testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "x", NoStore: true}, testkit.Succeed).
			Compensate(func(context.Context, string, string) error { return nil })
	}), "NoStore")
	plain := testkit.Tool(t, "x", once, testkit.Succeed)
	assert.Contains(t, testkit.PanicText(t, func() { state.New(state.WithCompensations(plain)) }), "actor 1 has no compensation")
	assert.Contains(t, testkit.PanicText(t, func() { state.New(state.WithCompensations(nil)) }), "actor 1 has no compensation")
	undo := func(context.Context, string, string) error { return nil }
	assert.Contains(t, testkit.PanicText(t, func() { state.New(state.WithCompensations(plain.Compensate(undo), plain.Compensate(undo))) }), "two actors")
}
