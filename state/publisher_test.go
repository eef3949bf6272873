package state_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func TestPublisherThatPanicsChangesNothingAndIsCounted(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		quiet, ctx := testkit.Run(t, state.WithRunID("run-1"))
		_, _ = testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Attempts(testkit.Fail(errFlaky), testkit.Succeed)))

		heard := 0
		st, ctx := testkit.Run(t, state.WithRunID("run-1"),
			state.WithPublisher(testkit.Publisher(func(record.Record) { panic(errBoom) })),
			state.WithPublisher(testkit.Publisher(func(record.Record) { heard++ })))
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Attempts(testkit.Fail(errFlaky), testkit.Succeed)))
		testkit.Completed(t, out, err)
		assert.Len(t, testkit.Records(t, st), len(testkit.Records(t, quiet)), "records")
		assert.Equal(t, int64(len(testkit.Records(t, st))), st.Report().PublisherPanics, "panics")
		assert.Equal(t, len(testkit.Records(t, st)), heard, "records published to the other publisher")
		st.Close()
		assert.Equal(t, snapshot.StatusCompleted, st.Status(), "status")
		assert.Equal(t, int64(st.Report().Records), st.Report().PublisherPanics, "panics at the end")
	})
}

func TestPublisherMayInterruptTheRun(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var st *state.ExecutionState
		st, ctx := testkit.Run(t, state.WithPublisher(testkit.Publisher(func(r record.Record) {
			if r.Status == record.StatusStarted && r.Kind.IsCall() {
				st.Interrupt(snapshot.Stop{By: "watcher", Message: "seen enough"})
			}
		})))
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}))
		testkit.Interrupted(t, err, record.InterruptUser)
	})
}

func TestPublisherMayLogAndReadTheRun(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var st *state.ExecutionState
		var seen []uint64
		ready := false
		st = state.New(state.WithPublisher(testkit.Publisher(func(r record.Record) {
			seen = append(seen, r.Seq)
			if !ready || !r.Kind.IsCall() {
				return
			}
			st.Log(slog.LevelInfo, fmt.Sprintf("saw %d", r.Seq), nil)
			_, _, _ = testkit.Records(t, st), st.Status(), st.Report()
			_ = state.Put(st.Context(t.Context()), "seen", r.Seq)
			ready = r.Status != record.StatusCompleted
		})))
		ready = true
		out, err := testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, testkit.Succeed))
		testkit.Completed(t, out, err)
		ready = false
		st.Close()
		for i, seq := range seen {
			assert.Equal(t, uint64(i+1), seq, "number")
		}
		assert.Len(t, seen, len(testkit.Records(t, st)), "seen")
	})
}

func TestPublisherThatCallsAnActorDoesNotDeadlock(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var st *state.ExecutionState
		nested := false
		st = state.New(state.WithPublisher(testkit.Publisher(func(r record.Record) {
			if r.Kind.IsCall() && !nested {
				nested = true
				out, err := testkit.Call(st.Context(t.Context()), testkit.Tool(t, "audit", once, testkit.Succeed))
				testkit.Completed(t, out, err)
			}
		})))
		out, err := testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, testkit.Succeed))
		testkit.Completed(t, out, err)
		st.Close()
		wantRecords(t, st, "run started", "tool_call tool started", "tool_call audit started", "tool_call audit completed", "tool_call tool completed", "run completed")
	})
}

func TestEveryPublisherGetsEveryRecordOnce(t *testing.T) {
	var one, two []uint64
	st := state.New(
		state.WithPublisher(testkit.Publisher(func(r record.Record) { one = append(one, r.Seq) })),
		state.WithPublisher(testkit.Publisher(func(r record.Record) { two = append(two, r.Seq) })))
	out, err := testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, testkit.Succeed))
	testkit.Completed(t, out, err)
	st.Close()
	assert.Equal(t, "[1 2 3 4]", fmt.Sprint(one), "first")
	assert.Equal(t, "[1 2 3 4]", fmt.Sprint(two), "second")
}

// histories returns functions that begin a run, in memory or in one of several stores.
func histories(t *testing.T) map[string]func(...state.Option) *state.ExecutionState {
	open := func(s snapshot.Store) func(...state.Option) *state.ExecutionState {
		return func(options ...state.Option) *state.ExecutionState {
			st, err := state.Open(t.Context(), s, "run-1", options...)
			require.NoError(t, err)
			return st
		}
	}
	return map[string]func(...state.Option) *state.ExecutionState{
		"none": func(options ...state.Option) *state.ExecutionState {
			return state.New(append(options, state.WithRunID("run-1"))...)
		},
		"memory": open(memstore.New()),
		"files":  open(fileStore(t, t.TempDir())),
	}
}

func TestPublishedRecordsAreTheKeptOnes(t *testing.T) {
	for name, open := range histories(t) {
		t.Run(name, func(t *testing.T) {
			published := new(heard)
			st := open(state.WithPublisher(published))
			tool := testkit.Tool(t, "tool", core.RetryConfig{InitialDelay: core.NoDelay}, func(ctx context.Context, _ string) (string, error) {
				switch core.ScopeOf(ctx).Attempt() {
				case 0:
					core.AddUsage(ctx, core.Usage{InputTokens: 1})
					return "", errFlaky
				case 1:
					return "", errFlaky
				}
				return "out", state.Put(ctx, "key", "value")
			})
			out, err := testkit.Call(st.Context(t.Context()), tool)
			testkit.Completed(t, out, err)
			require.NoError(t, st.Close())
			kept := testkit.Records(t, st)
			require.Len(t, kept, 11)
			require.Len(t, published.records, len(kept))
			for i := range kept {
				assert.Equal(t, fmt.Sprint(kept[i].Err), fmt.Sprint(published.records[i].Err))
				kept[i].Err, published.records[i].Err = nil, nil
				assert.Equal(t, kept[i], published.records[i])
			}
		})
	}
}

func TestCallsOfManyGoroutinesArePublishedInOrder(t *testing.T) {
	for name, open := range histories(t) {
		t.Run(name, func(t *testing.T) {
			var published []uint64 // no lock is needed: only one goroutine at a time publishes
			st := open(state.WithPublisher(testkit.Publisher(func(r record.Record) {
				published = append(published, r.Seq)
				if r.Seq%7 == 0 {
					runtime.Gosched()
				}
			})))
			ctx := st.Context(t.Context())
			tool := testkit.Tool(t, "tool", core.RetryConfig{InitialDelay: core.NoDelay}, func(ctx context.Context, _ string) (string, error) {
				if core.ScopeOf(ctx).Attempt() == 0 {
					return "", errFlaky
				}
				return "out", nil
			})
			var wait sync.WaitGroup
			for range 8 {
				wait.Go(func() {
					for range 25 {
						out, err := testkit.Call(ctx, tool)
						testkit.Completed(t, out, err)
					}
				})
			}
			wait.Wait()
			require.NoError(t, st.Close())
			require.Len(t, published, 2+8*25*5)
			for i, seq := range published {
				require.Equal(t, uint64(i)+1, seq)
			}
		})
	}
}

// leave ends the first goroutine that calls it, as t.FailNow does in a test.
func leave(once *sync.Once) { once.Do(runtime.Goexit) }

func TestPublisherThatLeavesItsGoroutineAtAFailureLosesNoRetry(t *testing.T) {
	for name, open := range histories(t) {
		t.Run(name, func(t *testing.T) {
			var once sync.Once
			published := new(heard)
			st := open(state.WithPublisher(published), state.WithPublisher(testkit.Publisher(func(r record.Record) {
				if r.WillRetry {
					leave(&once)
				}
			})))
			tool := testkit.Tool(t, "tool", core.RetryConfig{InitialDelay: core.NoDelay}, testkit.Attempts(testkit.Fail(errFlaky), testkit.Succeed))
			var left sync.WaitGroup
			left.Go(func() { _, _ = testkit.Call(st.Context(t.Context()), tool) })
			left.Wait()
			out, err := testkit.Call(st.Context(t.Context()), tool)
			testkit.Completed(t, out, err)
			require.NoError(t, st.Close())
			require.Len(t, published.records, len(testkit.Records(t, st)))
			for i, r := range published.records {
				assert.Equal(t, uint64(i)+1, r.Seq)
			}
		})
	}
}

func TestRedactionThatLeavesItsGoroutineDoesNotStopThePublishing(t *testing.T) {
	var once sync.Once
	published := new(heard)
	st := state.New(state.WithPublisher(published), state.WithRedaction(func(text string) string {
		leave(&once)
		return text
	}))
	var left sync.WaitGroup
	left.Go(func() {
		_, _ = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", steady, testkit.Fail(errBoom)))
	})
	left.Wait()
	out, err := testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", steady, testkit.Succeed))
	testkit.Completed(t, out, err)
	require.NoError(t, st.Close())
	last := published.records[len(published.records)-1]
	assert.Equal(t, record.KindRun, last.Kind)
	assert.Equal(t, uint64(len(testkit.Records(t, st))), last.Seq)
}
