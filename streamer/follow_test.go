package streamer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// followed returns the deltas and the numbers of the records that Follow yields until
// the run completes.
func followed(t *testing.T, h *streamer.Handler, runID string, caughtUp func()) (all []string, seqs []uint64) {
	t.Helper()
	for e, err := range h.Follow(t.Context(), runID) {
		require.NoError(t, err)
		switch {
		case e.CaughtUp:
			caughtUp()
		case e.Delta != nil:
			all = append(all, fmt.Sprint(e.Delta.Address, " ", e.Delta.Part, " ", e.Delta.Text))
		default:
			seqs = append(seqs, e.Record.Seq)
			if e.Record.Kind == record.KindRun && e.Record.Status == record.StatusCompleted {
				return all, seqs
			}
		}
	}
	return all, seqs
}

func TestFollowYieldsEachRecordOnceAndDeltasBetweenThem(t *testing.T) {
	store := memstore.New()
	h, err := streamer.New(stored.New(store), streamer.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close(context.WithoutCancel(t.Context()))) }()
	st, err := state.Open(t.Context(), store, "r", state.WithPublisher(h))
	require.NoError(t, err)
	began, proceed := make(chan struct{}), make(chan struct{})
	tool := decorators.Tool("tool", "", func(ctx context.Context, _ struct{}) (string, error) {
		live.Emit(ctx, live.Delta{Part: live.PartText, Text: "half"})
		close(began)
		<-proceed
		live.Emit(ctx, live.Delta{Part: live.PartText, Text: " and whole"})
		return "done", nil
	})
	done := make(chan error, 1)
	go func() {
		_, err := tool.Call(live.Watch(st.Context(t.Context()), h.PublishDelta), struct{}{})
		done <- errors.Join(err, st.Close())
	}()
	<-began
	deltas, seqs := followed(t, h, "r", func() { close(proceed) })
	require.NoError(t, <-done)
	assert.Equal(t, []string{"tool begin ", "tool text half", "tool text  and whole", "tool end "}, deltas)
	assert.Equal(t, []uint64{1, 2, 3, 4}, seqs)

	deltas, again := followed(t, h, "r", func() {})
	assert.Empty(t, deltas, "the run is over")
	assert.Equal(t, seqs, again)
}

// After the deletion, no record arrives unless another run with the same ID begins.
func TestFollowEndsWhenTheRunIsDeletedOrReplaced(t *testing.T) {
	for name, replaced := range map[string]bool{"deleted": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				h, err := streamer.New(stored.New(store), streamer.Options{})
				require.NoError(t, err)
				defer func() { require.NoError(t, h.Close(context.WithoutCancel(t.Context()))) }()
				run := func(options ...state.Option) {
					st, err := state.Open(t.Context(), store, "r", options...)
					require.NoError(t, err)
					require.NoError(t, st.Close())
				}
				run(state.WithPublisher(h))
				var ended error
				for e, err := range h.Follow(t.Context(), "r") {
					if e.CaughtUp {
						require.NoError(t, store.Delete(t.Context(), "r"))
						if replaced {
							<-time.After(time.Second) // on the fake clock
							run()
						}
						h.PublishDeletion(t.Context(), "r")
					}
					ended = err
				}
				assert.ErrorIs(t, ended, streamer.ErrNotFound)
			})
		})
	}
}

// The handler learns of the deletion only from the records of another run with the same ID.
func TestFollowEndsWhenAnotherRunWithTheIDIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := streamer.New(nil, streamer.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, h.Close(context.WithoutCancel(t.Context()))) }()
		publish := func(seq uint64) {
			h.Publish(record.Record{RunID: "r", Generation: 1, Seq: seq, Kind: record.KindRun, Status: record.StatusStarted, Time: time.Now()})
		}
		var seqs []uint64
		for e, err := range h.Follow(t.Context(), "r") {
			switch {
			case err != nil:
				require.ErrorIs(t, err, streamer.ErrNotFound)
			case e.CaughtUp:
				publish(1)
			default:
				seqs = append(seqs, e.Record.Seq)
				<-time.After(time.Second) // on the fake clock
				publish(1)
			}
		}
		assert.Equal(t, []uint64{1}, seqs)
	})
}

// Once an agent's attempt has failed, the dashboard no longer shows the attempt's output.
func TestAttemptOfAnAgentDropsWhatCallsOfEarlierOnesHaveProduced(t *testing.T) {
	h, err := streamer.New(nil, streamer.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close(context.WithoutCancel(t.Context()))) }()
	st := state.New(state.WithRunID("r"), state.WithPublisher(h))
	defer st.Close()
	var kept []string
	agent := decorators.Agent("agent", "", func(ctx context.Context, _ struct{}) (string, error) {
		if core.ScopeOf(ctx).Attempt() == 0 {
			// this call is abandoned and never reports its end
			h.PublishDelta(live.Delta{RunID: "r", Address: address(t, "agent/model"), Part: live.PartText, Text: "void"})
			return "", core.Retryable(errors.New("oh"))
		}
		stop, cancel := context.WithCancel(ctx)
		defer cancel()
		for e := range h.Follow(stop, "r") {
			if e.Delta != nil {
				kept = append(kept, e.Delta.Text)
			}
			if e.CaughtUp {
				break
			}
		}
		return "done", nil
	}, actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
	_, err = agent.Call(live.Watch(st.Context(t.Context()), h.PublishDelta), struct{}{})
	require.NoError(t, err)
	assert.Empty(t, kept)
}
