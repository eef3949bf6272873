package core_test

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
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/state"
)

// seen collects deltas.
type seen struct {
	mu     sync.Mutex
	deltas []core.Delta
}

func (s *seen) watch(d core.Delta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deltas = append(s.deltas, d)
}

// text is what was shown of a part, in one piece.
func (s *seen) text(part core.Part) string {
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

// emitting is a tool that emits and fails as often as it says.
func emitting(failures int) actors.Tool[nothing, string] {
	return decorators.Tool("emitting", "", func(ctx context.Context, _ nothing) (string, error) {
		core.Emit(ctx, core.Delta{Part: core.PartProgress, Text: "half"})
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
	_, err := outer.Call(core.Watch(st.Context(t.Context()), s.watch), nothing{})
	require.NoError(t, err)
	require.Len(t, s.deltas, 2)
	for attempt, d := range s.deltas {
		assert.Equal(t, "r", d.RunID)
		assert.Equal(t, "outer/emitting", d.Address.String())
		assert.Equal(t, attempt, d.Attempt)
		assert.Equal(t, "half", d.Text)
	}
}

func TestEveryWatcherSeesADeltaAndOneThatPanicsIsLeftOut(t *testing.T) {
	var inner, outer seen
	panics := 0
	ctx := core.Watch(t.Context(), outer.watch)
	ctx = core.Watch(ctx, func(core.Delta) { panics++; panic("oh") })
	ctx = core.Watch(ctx, inner.watch)
	_, err := emitting(1).Call(ctx, nothing{})
	require.NoError(t, err)
	assert.Len(t, inner.deltas, 2)
	assert.Len(t, outer.deltas, 2)
	assert.Equal(t, 1, panics)
	assert.Equal(t, ctx, core.Watch(ctx, nil))
}

func TestWhatIsEmittedAfterTheAttemptIsDropped(t *testing.T) {
	st := state.New()
	defer st.Close()
	var s seen
	var late context.Context
	tool := decorators.Tool("late", "", func(ctx context.Context, _ nothing) (int, error) { late = ctx; return 0, nil })
	_, err := tool.Call(core.Watch(st.Context(t.Context()), s.watch), nothing{})
	require.NoError(t, err)
	core.Emit(late, core.Delta{Part: core.PartText, Text: "too late"})
	assert.Empty(t, s.deltas)
	assert.Nil(t, core.Emitter(t.Context()), "nobody watches")
}

func TestARecalledCallEmitsNothing(t *testing.T) {
	store := memstore.New()
	for _, want := range []int{1, 0} {
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		var s seen
		_, err = emitting(0).Call(core.Watch(st.Context(t.Context()), s.watch), nothing{})
		require.NoError(t, err)
		require.NoError(t, st.Close())
		assert.Len(t, s.deltas, want)
	}
}

func TestWatchingChangesNoRecord(t *testing.T) {
	settled := func(watch func(core.Delta)) (all []string) {
		st := state.New()
		defer st.Close()
		_, err := emitting(1).Call(core.Watch(st.Context(t.Context()), watch), nothing{})
		require.NoError(t, err)
		for _, r := range testkit.Records(t, st) {
			all = append(all, r.Address.String()+" "+r.Status.String())
		}
		return all
	}
	assert.Equal(t, settled(nil), settled(new(seen).watch))
}

func TestRedactionSeesASecretThatLiesOverDeltas(t *testing.T) {
	const secret = "sk-0123456789abcdef"
	redact := func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") }
	text := strings.Repeat("Ääh, ", 40) + "the key is " + secret + strings.Repeat(", as you know", 20)
	for size := 1; size < 40; size++ {
		var s seen
		watch := core.RedactDeltas(redact, s.watch)
		watch(core.Delta{Part: core.PartBegin})
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			for _, part := range []core.Part{core.PartText, core.PartReasoning, core.PartToolCall} {
				watch(core.Delta{Part: part, Text: rest[:n]})
			}
			rest = rest[n:]
		}
		watch(core.Delta{Part: core.PartProgress, Text: "with " + secret})
		watch(core.Delta{Part: core.PartEnd})
		for _, part := range []core.Part{core.PartText, core.PartReasoning, core.PartToolCall} {
			assert.Equal(t, redact(text), s.text(part), "%v in pieces of %d bytes", part, size)
		}
		assert.Equal(t, "with [redacted]", s.text(core.PartProgress))
		for _, d := range s.deltas {
			assert.NotContains(t, d.Text, "0123456789abcdef")
		}
	}
}

// An attempt that was abandoned never says that it ended.
func TestRedactionShowsNothingOfAnAbandonedAttemptLater(t *testing.T) {
	var s seen
	watch := core.RedactDeltas(func(text string) string { return text }, s.watch)
	watch(core.Delta{Part: core.PartBegin})
	watch(core.Delta{Part: core.PartText, Text: "half"})
	watch(core.Delta{Part: core.PartBegin, Attempt: 1})
	watch(core.Delta{Part: core.PartText, Attempt: 1, Text: "whole"})
	watch(core.Delta{Part: core.PartEnd, Attempt: 1})
	watch(core.Delta{Part: core.PartEnd})
	assert.Equal(t, "whole", s.text(core.PartText))
}

// More was shown than the redaction would have: no more is.
func TestRedactionThatComesTooLateShowsNoMore(t *testing.T) {
	text := "BEGIN" + strings.Repeat("x", 200) + "END and more"
	redact := func(text string) string {
		if strings.HasPrefix(text, "BEGIN") && strings.Contains(text, "END") {
			return "[redacted]"
		}
		return text
	}
	var s seen
	watch := core.RedactDeltas(redact, s.watch)
	for _, r := range text {
		watch(core.Delta{Part: core.PartText, Text: string(r)})
	}
	watch(core.Delta{Part: core.PartEnd})
	assert.NotContains(t, s.text(core.PartText), "END")
}
