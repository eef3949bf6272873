package live_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/state"
)

// seen collects deltas.
type seen struct {
	mu     sync.Mutex
	deltas []live.Delta
}

func (s *seen) watch(d live.Delta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deltas = append(s.deltas, d)
}

// text returns all text that was shown for a part, joined.
func (s *seen) text(part live.Part) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, d := range s.deltas {
		if d.Part == part {
			b.WriteString(d.Text)
		}
	}
	return b.String()
}

type nothing struct{}

// emitting returns a tool that emits deltas, and fails the given number of times.
func emitting(failures int) actors.Tool[nothing, string] {
	return decorators.Tool("emitting", "", func(ctx context.Context, _ nothing) (string, error) {
		live.Emit(ctx, live.Delta{Part: live.PartProgress, Text: "half"})
		if failures--; failures >= 0 {
			return "", core.Retryable(errors.New("oh"))
		}
		return "done", nil
	}, actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
}

func TestADeltaHasTheRunTheAddressAndTheAttempt(t *testing.T) {
	st := state.New(state.WithRunID("r"))
	defer st.Close()
	var s seen
	outer := decorators.Agent("outer", "", func(ctx context.Context, _ nothing) (string, error) {
		return emitting(1).Call(ctx, nothing{})
	})
	_, err := outer.Call(live.Watch(st.Context(t.Context()), s.watch), nothing{})
	require.NoError(t, err)
	var attempts []int
	for _, d := range s.deltas {
		assert.Equal(t, "r", d.RunID)
		assert.Equal(t, "outer/emitting", d.Address.String())
		attempts = append(attempts, d.Attempt)
	}
	assert.Equal(t, []int{0, 1, 1, 1}, attempts, "progress; begin, end and progress")
	assert.Equal(t, "halfhalf", s.text(live.PartProgress))
}

func TestEveryWatcherSeesADeltaAndOneThatPanicsIsLeftOut(t *testing.T) {
	var inner, outer seen
	panics := 0
	ctx := live.Watch(t.Context(), outer.watch)
	ctx = live.Watch(ctx, func(live.Delta) { panics++; panic("oh") })
	ctx = live.Watch(ctx, inner.watch)
	_, err := emitting(1).Call(ctx, nothing{})
	require.NoError(t, err)
	assert.Equal(t, "halfhalf", inner.text(live.PartProgress))
	assert.Equal(t, inner.deltas, outer.deltas)
	assert.Equal(t, 1, panics)
	assert.Equal(t, ctx, live.Watch(ctx, nil))
}

func TestWhatIsEmittedAfterTheAttemptIsDropped(t *testing.T) {
	st := state.New()
	defer st.Close()
	var s seen
	var late context.Context
	tool := decorators.Tool("late", "", func(ctx context.Context, _ nothing) (int, error) { late = ctx; return 0, nil })
	_, err := tool.Call(live.Watch(st.Context(t.Context()), s.watch), nothing{})
	require.NoError(t, err)
	live.Emit(late, live.Delta{Part: live.PartText, Text: "too late"})
	assert.Empty(t, s.deltas)
	assert.Nil(t, live.Emitter(t.Context()), "nobody watches")
}

func TestARecalledCallEmitsNothing(t *testing.T) {
	store := memstore.New()
	for _, want := range []int{1, 0} {
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		var s seen
		_, err = emitting(0).Call(live.Watch(st.Context(t.Context()), s.watch), nothing{})
		require.NoError(t, err)
		require.NoError(t, st.Close())
		assert.Len(t, s.deltas, want)
	}
}

func TestWatchingChangesNoRecord(t *testing.T) {
	settled := func(watch func(live.Delta)) (all []string) {
		st := state.New()
		defer st.Close()
		_, err := emitting(1).Call(live.Watch(st.Context(t.Context()), watch), nothing{})
		require.NoError(t, err)
		for _, r := range testkit.Records(t, st) {
			all = append(all, r.Address.String()+" "+r.Status.String())
		}
		return all
	}
	assert.Equal(t, settled(nil), settled(new(seen).watch))
}
