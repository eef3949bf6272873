package state_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

func TestPublisherThatPanicsChangesNothingAndIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		quiet, ctx := run(t, state.WithRunID("run-1"))
		_, _ = call(ctx, actor(t, "tool", steady, attempts(fail(errFlaky), succeed)))

		heard := 0
		st, ctx := run(t, state.WithRunID("run-1"),
			state.WithPublisher(publish(func(core.Record) { panic(errBoom) })),
			state.WithPublisher(publish(func(core.Record) { heard++ })))
		out, err := call(ctx, actor(t, "tool", steady, attempts(fail(errFlaky), succeed)))
		completed(t, out, err)
		equal(t, "records", len(st.Records()), len(quiet.Records()))
		equal(t, "panics", st.Stats().PublisherPanics, int64(len(st.Records())))
		equal(t, "heard by the other", heard, len(st.Records()))
		st.Close()
		equal(t, "status", st.Status(), state.StatusCompleted)
		equal(t, "panics in the end", st.Stats().PublisherPanics, int64(st.Stats().Records))
	})
}

func TestPublisherMayInterruptTheRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var st *state.ExecutionState
		st, ctx := run(t, state.WithPublisher(publish(func(r core.Record) {
			if r.Status == core.StatusStarted && r.Kind.IsCall() {
				st.Interrupt(core.InterruptUser, "seen enough", "watcher")
			}
		})))
		_, err := call(ctx, actor(t, "tool", steady, func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}))
		interrupted(t, err, core.InterruptUser)
	})
}

func TestPublisherMayLogAndReadTheRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var st *state.ExecutionState
		var seen []uint64
		ready := false
		st = state.New(state.WithPublisher(publish(func(r core.Record) {
			seen = append(seen, r.Seq)
			if !ready || !r.Kind.IsCall() {
				return
			}
			st.Log(core.SeverityInfo, fmt.Sprintf("saw %d", r.Seq), nil)
			_, _, _ = st.Records(), st.Status(), st.Stats()
			_ = state.Put(st.Context(t.Context()), "seen", r.Seq)
			ready = r.Status != core.StatusCompleted
		})))
		ready = true
		out, err := call(st.Context(t.Context()), actor(t, "tool", once, succeed))
		completed(t, out, err)
		ready = false
		st.Close()
		for i, seq := range seen {
			equal(t, "number", seq, uint64(i+1))
		}
		equal(t, "seen", len(seen), len(st.Records()))
	})
}

func TestPublisherThatCallsAnActorDoesNotDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var st *state.ExecutionState
		nested := false
		st = state.New(state.WithPublisher(publish(func(r core.Record) {
			if r.Kind.IsCall() && !nested {
				nested = true
				out, err := call(st.Context(t.Context()), actor(t, "audit", once, succeed))
				completed(t, out, err)
			}
		})))
		out, err := call(st.Context(t.Context()), actor(t, "tool", once, succeed))
		completed(t, out, err)
		st.Close()
		told(t, st, "run started", "tool_call tool started", "tool_call audit started", "tool_call audit completed", "tool_call tool completed", "run completed")
	})
}

func TestEveryPublisherIsToldEveryRecordOnce(t *testing.T) {
	var one, two []uint64
	st := state.New(
		state.WithPublisher(publish(func(r core.Record) { one = append(one, r.Seq) })),
		state.WithPublisher(publish(func(r core.Record) { two = append(two, r.Seq) })))
	out, err := call(st.Context(t.Context()), actor(t, "tool", once, succeed))
	completed(t, out, err)
	st.Close()
	equal(t, "first", fmt.Sprint(one), "[1 2 3 4]")
	equal(t, "second", fmt.Sprint(two), "[1 2 3 4]")
}
