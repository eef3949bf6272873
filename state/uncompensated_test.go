package state_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A hotel is a service whose bookings can be cancelled. An agent books a room and then pays.
type hotel struct {
	t        *testing.T
	store    snapshot.Store
	booked   map[string]bool // by idempotency key
	bookings int
	undos    int // number of attempts to cancel a booking
	broken   bool
	pays     bool
	inDoubt  core.InDoubtPolicy
	final    bool // the booking is irreversible
}

func newHotel(t *testing.T) *hotel {
	return &hotel{t: t, store: memstore.New(), booked: make(map[string]bool), broken: true}
}

func (h *hotel) book() *testkit.Definition {
	spec := core.Spec{
		Kind: record.KindTool, Name: "book", Retry: &core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay}, InDoubt: h.inDoubt, Irreversible: h.final,
	}
	return testkit.Define(h.t, spec, func(ctx context.Context, _ string) (string, error) {
		key, err := core.IdempotencyKey(ctx)
		h.booked[key] = true
		h.bookings++
		return key, err
	}).Compensate(func(_ context.Context, _, key string) error {
		if h.undos++; h.broken {
			return core.Retryable(errors.New("the hotel does not answer"))
		}
		delete(h.booked, key)
		return nil
	})
}

// run opens the run and calls the agent.
func (h *hotel) run(options ...state.Option) (string, error) {
	book := h.book()
	st, err := state.Open(h.t.Context(), h.store, "run-1", append(options, state.WithCompensations(book))...)
	if err != nil {
		return "", err
	}
	pay := testkit.Tool(h.t, "pay", once, func(context.Context, string) (string, error) {
		if !h.pays {
			return "", errBoom
		}
		return "paid", nil
	})
	agent := testkit.Agent(h.t, "trip", once, func(ctx context.Context, in string) (string, error) {
		room, err := book.Event().Execute(ctx, in)
		if err != nil {
			return "", err
		}
		paid, err := pay.Event().Execute(ctx, in)
		return fmt.Sprint(room, " ", paid), err
	})
	out, err := testkit.Call(st.Context(h.t.Context()), agent)
	require.NoError(h.t, st.Close())
	return out, err
}

func TestCallWhoseCompensationFailedIsNotMadeAgain(t *testing.T) {
	for name, final := range map[string]bool{"plain": false, "irreversible": true} {
		t.Run(name, func(t *testing.T) {
			h := newHotel(t)
			h.final = final
			_, err := h.run()
			require.ErrorAs(t, err, new(*core.CompensationError))
			require.Equal(t, 2, h.undos)

			_, err = state.Retry(t.Context(), h.store, "run-1")
			require.NoError(t, err)
			_, err = h.run()
			require.ErrorAs(t, err, new(*core.CompensationError))
			assert.Equal(t, 1, h.bookings, "it still has its effect")
			assert.Equal(t, 4, h.undos, "the compensation has all its attempts again")

			h.broken = false
			_, err = h.run(state.WithRerunFailed())
			require.ErrorIs(t, err, errBoom)
			require.NotErrorAs(t, err, new(*core.CompensationError))
			assert.Equal(t, 1, h.bookings)
			assert.Empty(t, h.booked)

			h.pays = true
			out, err := h.run(state.WithRerunFailed())
			require.NoError(t, err)
			assert.Equal(t, 2, h.bookings, "it was compensated")
			require.Len(t, h.booked, 1)
			for key := range h.booked {
				assert.Equal(t, key+" paid", out)
			}
			testkit.RequireLedger(t, testkit.LoadRun(t, h.store, "run-1").Records, func(int) bool { return true })
		})
	}
}

func TestCallWhoseCompensationFailedKeepsItsKeyAndOutput(t *testing.T) {
	h := newHotel(t)
	_, err := h.run()
	require.Error(t, err)
	h.pays = true
	out, err := h.run(state.WithRerunFailed())
	require.NoError(t, err)
	require.Equal(t, 1, h.bookings)
	for key := range h.booked {
		assert.Equal(t, key+" paid", out)
	}
	assert.Equal(t, 2, h.undos, "a run that completes undoes nothing")
}

// The run ends with one booking no matter when the process ends, even during a compensation.
func TestRetryAfterACrashDuringACompensation(t *testing.T) {
	h := newHotel(t)
	_, err := h.run()
	require.Error(t, err)
	_, err = h.run(state.WithRerunFailed())
	require.Error(t, err)
	h.broken = false
	_, err = h.run(state.WithRerunFailed())
	require.Error(t, err)
	whole := testkit.LoadRun(t, h.store, "run-1")
	for k := range whole.Records {
		for _, tookEffect := range []bool{false, true} {
			again := newHotel(t)
			again.broken, again.pays, again.store = false, true, crashed(t, whole, k)
			for _, r := range whole.Records[:k] {
				switch {
				case r.Kind == record.KindTool && r.Name == "book" && r.Status == record.StatusCompleted:
					var key string
					require.NoError(t, record.Decode(r.Encoded(), &key))
					again.booked[key] = true
				case r.Kind == record.KindCompensation && r.Status == record.StatusCompleted:
					clear(again.booked)
				}
			}
			if last := whole.Records[max(k, 1)-1]; tookEffect && last.Kind == record.KindCompensation && last.Status == record.StatusStarted {
				clear(again.booked)
			}
			_, err := again.run(state.WithRerunFailed())
			if err != nil { // this opening completed the compensation
				require.ErrorContains(t, err, errBoom.Error(), "cut at %d", k)
				_, err = again.run(state.WithRerunFailed())
			}
			require.NoError(t, err, "cut at %d", k)
			assert.Len(t, again.booked, 1, "cut at %d", k)
		}
	}
}

func TestForkKeepsACallWhoseCompensationFailed(t *testing.T) {
	h := newHotel(t)
	_, err := h.run()
	require.Error(t, err)
	book, pay := testkit.Address(t, "trip/book"), testkit.Address(t, "trip/pay")
	require.NoError(t, state.Fork(t.Context(), h.store, "run-1", pay, "kept", state.ForkOptions{}))

	left, err := state.EffectsAfter(t.Context(), h.store, "run-1", book, state.ForkOptions{})
	require.NoError(t, err)
	require.Len(t, left, 1)
	assert.Equal(t, "trip/book (its compensation failed)", left[0].String())
	err = state.Fork(t.Context(), h.store, "run-1", book, "again", state.ForkOptions{})
	require.ErrorIs(t, err, state.ErrEffects)
	require.NotContains(t, err.Error(), "cancelling")

	h.broken = false
	_, err = h.run(state.WithRerunFailed())
	require.Error(t, err)
	require.ErrorIs(t, state.Fork(t.Context(), h.store, "run-1", pay, "refused", state.ForkOptions{}), state.ErrCompensated)
}

func TestRetriedRunThatIsCancelledIsCompensated(t *testing.T) {
	h := newHotel(t)
	_, err := h.run()
	require.Error(t, err)
	_, err = state.Retry(t.Context(), h.store, "run-1")
	require.NoError(t, err)
	require.NoError(t, state.Cancel(t.Context(), h.store, "run-1", snapshot.Stop{By: "ops", Message: "wrong customer"}))
	h.broken = false
	_, err = h.run()
	require.ErrorIs(t, err, state.ErrCancelled)
	assert.Empty(t, h.booked)
	assert.Equal(t, 1, h.bookings)
	assertCancelled(t, h.store)
}

// A compensation that failed in doubt has not completed. The call is not repeated, and a warning
// reports that the compensation is made again.
func TestCompensationThatFailedInDoubtIsTriedAgain(t *testing.T) {
	h := newHotel(t)
	h.inDoubt = core.InDoubtFail
	h.broken = false
	_, err := h.run()
	require.ErrorIs(t, err, errBoom)
	whole := testkit.LoadRun(t, h.store, "run-1")
	began := 0
	for i, r := range whole.Records {
		if r.Kind == record.KindCompensation && r.Status == record.StatusStarted {
			began = i
		}
	}
	h.store = crashed(t, whole, began+1)
	h.bookings, h.undos = 0, 0
	_, err = h.run(state.WithRerunFailed())
	require.ErrorAs(t, err, new(*core.CompensationError))
	require.Zero(t, h.undos)
	_, err = h.run(state.WithRerunFailed())
	require.NotErrorAs(t, err, new(*core.CompensationError))
	assert.Zero(t, h.bookings)
	assert.Equal(t, 1, h.undos)
}

func TestResultSaysWhatWasNotCompensated(t *testing.T) {
	h := newHotel(t)
	_, failed := h.run()
	var want, got *core.CompensationError
	require.ErrorAs(t, failed, &want)
	_, err := state.Result[string](t.Context(), h.store, "run-1")
	require.ErrorAs(t, err, &got)
	assert.Equal(t, want, got)
	require.ErrorContains(t, err, failed.Error())
	left, err := state.Uncompensated(t.Context(), h.store, "run-1")
	require.NoError(t, err)
	assert.Equal(t, want.Failed, left)

	_, err = state.Retry(t.Context(), h.store, "run-1")
	require.NoError(t, err)
	require.NoError(t, state.Cancel(t.Context(), h.store, "run-1", snapshot.Stop{By: "ops"}))
	_, err = h.run()
	require.ErrorIs(t, err, state.ErrCancelled)
	require.ErrorAs(t, err, &got)
	assert.Equal(t, want, got)
	_, err = state.Result[string](t.Context(), h.store, "run-1")
	require.ErrorIs(t, err, state.ErrCancelled)
	require.ErrorAs(t, err, &got)
	assert.Equal(t, want, got)
}

// If a compensation failed in a cancelled run, the failure is final, whatever the other
// compensations do.
func TestRerunFailedDoesNotRepeatACompensationOfACancelledRun(t *testing.T) {
	store, refunds := memstore.New(), 0
	pay := decorators.Tool("pay", "", func(context.Context, struct{}) (string, error) { return "", nil }).
		Compensate(func(context.Context, struct{}, string) error {
			refunds++
			return core.Permanent(errors.New("no refund"))
		})
	book := decorators.Tool("book", "", func(context.Context, struct{}) (string, error) { return "", nil }).
		Compensate(func(ctx context.Context, _ struct{}, _ string) error {
			_, err := core.Await[string](ctx, "undone?")
			return err
		})
	trip := decorators.Agent("trip", "", func(ctx context.Context, _ struct{}) (string, error) {
		if _, err := book.Call(ctx, struct{}{}); err != nil {
			return "", err
		}
		if _, err := pay.Call(ctx, struct{}{}); err != nil {
			return "", err
		}
		return core.Await[string](ctx, "go on?")
	})
	options := []state.Option{state.WithCompensations(book, pay), state.WithRerunFailed()}
	st, err := state.Open(t.Context(), store, "run-1", options...)
	require.NoError(t, err)
	_, err = trip.Call(st.Context(t.Context()), struct{}{})
	require.Error(t, err)
	require.NoError(t, st.Close())
	require.NoError(t, state.Cancel(t.Context(), store, "run-1", snapshot.Stop{By: "ops"}))
	for range 3 {
		_, err = state.Open(t.Context(), store, "run-1", options...)
		require.ErrorIs(t, err, state.ErrCancelled)
		require.ErrorContains(t, err, "trip/book@undo/book?1")
	}
	assert.Equal(t, 1, refunds)
}
