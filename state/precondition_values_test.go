package state_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// TestAHandlerReadsWhatItsPreconditionsHaveWrittenLast checks that a handler reads what the
// preconditions of its call have written. If they ran again with another input, it reads what they
// wrote the last time.
func TestAHandlerReadsWhatItsPreconditionsHaveWrittenLast(t *testing.T) {
	ran := 0
	type payment struct{ Amount int }
	pay := decorators.Tool("pay", "", func(ctx context.Context, _ payment) (int, error) {
		allowed, _, err := state.Get[int](ctx, "allowed")
		return allowed, err
	}).Require(func(ctx context.Context, in payment) error { ran++; return state.Put(ctx, "allowed", in.Amount) })
	call := func(store snapshot.Store, amount int, options ...state.Option) (int, error) {
		st, err := state.Open(t.Context(), store, "run", options...)
		require.NoError(t, err)
		defer func() { assert.NoError(t, st.Close()) }()
		agent := decorators.Agent("agent", "", func(ctx context.Context, _ struct{}) (int, error) { return pay.Call(ctx, payment{amount}) })
		return agent.Call(st.Context(t.Context()), struct{}{})
	}
	store := memstore.New()
	_, err := call(store, 10)
	require.NoError(t, err)
	for records, cut := range actorstest.AfterEachRecord(t, store, "run") {
		hasStarted, hasEnded := false, false
		for _, r := range records {
			hasStarted = hasStarted || r.Kind == record.KindTool && r.Status == record.StatusStarted
			hasEnded = hasEnded || r.Kind == record.KindAgent && r.Status == record.StatusCompleted
		}
		if hasEnded {
			continue
		}
		var options []state.Option
		if hasStarted {
			options = append(options, state.WithDivergence(state.DivergenceRerun))
		}
		ran = 0
		allowed, err := call(cut, 1000, options...)
		require.NoError(t, err)
		assert.Equal(t, 1, ran)
		assert.Equal(t, 1000, allowed, "after %d records", len(records))
	}
}

func TestValidateExecuteReadsWhatItsPreconditionsWrite(t *testing.T) {
	rate := 1
	pay := decorators.Tool("pay", "", func(ctx context.Context, in struct{ Amount int }) (int, error) {
		rate, _, err := state.Get[int](ctx, "rate")
		return rate * in.Amount, err
	}).Require(func(ctx context.Context, _ struct{ Amount int }) error { return state.Put(ctx, "rate", rate) })
	program := func(ctx context.Context) error { _, err := pay.Call(ctx, struct{ Amount int }{10}); return err }
	store := memstore.New()
	st, err := state.Open(t.Context(), store, "run")
	require.NoError(t, err)
	require.NoError(t, program(st.Context(t.Context())))
	require.NoError(t, st.Close())
	differences, err := state.ValidateExecute(t.Context(), store, "run", program)
	require.NoError(t, err)
	assert.Empty(t, differences)
	rate = 2 // the program has changed
	differences, err = state.ValidateExecute(t.Context(), store, "run", program)
	require.NoError(t, err)
	require.NotEmpty(t, differences)
	assert.Equal(t, "pay: output: recorded 10, now 20", differences[len(differences)-1].String())
}

// The process ends after a precondition has written a value but before the call begins. The
// precondition runs again and writes another value. Later openings restore only the value from this
// second run.
func TestValuesOfPreconditionsThatRanAgainReplaceTheOlderOnes(t *testing.T) {
	key := "a"
	var read []string
	pay := decorators.Tool("pay", "", func(ctx context.Context, _ struct{}) (string, error) {
		read = nil
		for _, key := range []string{"a", "b"} {
			if _, ok, err := state.Get[int](ctx, key); err != nil || ok {
				read = append(read, key)
			}
		}
		if key == "b" {
			state.From(ctx).Interrupt(snapshot.Stop{})
			return "", ctx.Err()
		}
		return "", nil
	}).Require(func(ctx context.Context, _ struct{}) error { return state.Put(ctx, key, 1) })
	open := func(store snapshot.Store) error {
		st, err := state.Open(t.Context(), store, "run")
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		_, err = pay.Call(st.Context(t.Context()), struct{}{})
		return err
	}
	store := memstore.New()
	require.NoError(t, open(store))
	for records, cut := range actorstest.AfterEachRecord(t, store, "run") {
		if last := records[len(records)-1]; last.Kind != record.KindValue {
			continue
		}
		key = "b"
		require.ErrorIs(t, open(cut), core.ErrInterrupted)
		assert.Equal(t, []string{"b"}, read)
		key = "none"
		require.NoError(t, open(cut))
		assert.Equal(t, []string{"b"}, read)
		return
	}
	t.Fatal("the value of the precondition has no record of its own")
}
