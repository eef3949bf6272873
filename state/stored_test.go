package state_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// A run with a store keeps little of its history in memory and reads the rest from the store.

func fileStore(t testing.TB, dir string) *filestore.Store {
	t.Helper()
	s, err := filestore.New(dir, filestore.WithPolling(time.Hour))
	require.NoError(t, err)
	return s
}

// heard is a publisher that keeps all records.
type heard struct {
	mu      sync.Mutex
	records []record.Record
}

func (h *heard) Publish(r record.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, r)
}

// facts returns one line for each record, with the fields that every store keeps.
func facts(records []record.Record) (lines []string) {
	for _, r := range records {
		lines = append(lines, fmt.Sprintln(r.RunID, r.Seq, r.Time.UnixNano(), r.Address, r.Kind, r.Name, r.Status, r.Attempt, r.Delay, r.Err, record.Preview(r.Encoded())))
	}
	return lines
}

func TestRecordsOfAStoredRunAreThePublishedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fileStore(t, t.TempDir())
		var before []record.Record
		for opening := range uint64(3) { // a new run, which is then resumed twice
			published := new(heard)
			st, err := state.Open(t.Context(), s, "run-1", state.WithPublisher(published), state.WithFurtherCalls())
			require.NoError(t, err)
			check := func() {
				records, err := st.Records(t.Context())
				require.NoError(t, err)
				assert.Equal(t, facts(slices.Concat(before, published.records)), facts(records))
				assert.Equal(t, uint64(len(records)), st.Report().Records)
			}
			check()
			for seed := range 3 * (opening + 1) { // this recalls the calls of earlier openings
				_, err := newEffects().call(t, st.Context(t.Context()), randomTree(rand.New(rand.NewPCG(seed, 5)), 1))
				require.NoError(t, err)
				published.records = slices.DeleteFunc(published.records, func(r record.Record) bool { return r.Replayed })
				check()
			}
			st.Log(slog.LevelInfo, "the end", nil)
			require.NoError(t, st.Close())
			check()
			before = testkit.Records(t, st)
		}
	})
}

// lossy is a store that fails on demand.
type lossy struct {
	snapshot.Store
	broken error // the error of Append, from now on
	lost   error // of Load
}

type lossyJournal struct {
	snapshot.Journal
	store *lossy
}

func (s *lossy) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.Store.Open(ctx, runID, o)
	return lossyJournal{j, s}, err
}

func (s *lossy) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	if s.lost != nil {
		return nil, s.lost
	}
	return s.Store.Load(ctx, runID)
}

func (j lossyJournal) Append(records ...record.Record) error {
	if j.store.broken != nil {
		return j.store.broken
	}
	return j.Journal.Append(records...)
}

// A publisher must not see a call as completed if the call will run again when the run is resumed.
func TestRecordsThatCouldNotBeStoredAreInTheRunAndNotPublished(t *testing.T) {
	s := &lossy{Store: fileStore(t, t.TempDir())}
	var published []string
	st, err := state.Open(t.Context(), s, "run-1", state.WithPublisher(testkit.Publisher(func(r record.Record) {
		published = append(published, fmt.Sprint(r.Kind, " ", r.Address, " ", r.Status))
	})))
	require.NoError(t, err)
	ctx := st.Context(t.Context())
	out, err := testkit.Call(ctx, testkit.Tool(t, "first", once, testkit.Succeed))
	testkit.Completed(t, out, err)
	s.broken = errors.New("no space left")
	_, err = testkit.Call(ctx, testkit.Tool(t, "second", once, testkit.Succeed))
	require.ErrorIs(t, err, state.ErrStore)
	want := []string{"run started", "tool_call first started", "tool_call first completed", "tool_call second started"}
	wantRecords(t, st, want...)
	require.ErrorIs(t, st.Close(), state.ErrStore)
	wantRecords(t, st, append(want, "run interrupted")...)
	assert.Equal(t, []string{"run  started", "tool_call first started", "tool_call first completed", "run  interrupted"}, published)
}

func TestACallWhoseOutcomeCouldNotBeStoredIsNotPublishedAsCompleted(t *testing.T) {
	s := &lossy{Store: fileStore(t, t.TempDir())}
	var published []string
	st, err := state.Open(t.Context(), s, "run-1", state.WithPublisher(testkit.Publisher(func(r record.Record) {
		published = append(published, fmt.Sprint(r.Kind, " ", r.Address, " ", r.Status))
	})))
	require.NoError(t, err)
	_, err = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "only", once, func(context.Context, string) (string, error) {
		s.broken = errors.New("no space left")
		return "done", nil
	}))
	require.ErrorIs(t, err, state.ErrStore)
	require.ErrorIs(t, st.Close(), state.ErrStore)
	assert.Equal(t, []string{"run  started", "tool_call only started", "run  interrupted"}, published)
}

func TestStoreThatCannotReadBackIsAnError(t *testing.T) {
	s := &lossy{Store: fileStore(t, t.TempDir())}
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	defer st.Close()
	out, err := testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, testkit.Succeed))
	testkit.Completed(t, out, err)
	s.lost = errors.New("out of reach")
	records, err := st.Records(t.Context())
	require.ErrorIs(t, err, s.lost)
	assert.ErrorContains(t, err, "run-1")
	assert.Empty(t, records)
	_, err = st.Questions(t.Context())
	require.ErrorIs(t, err, s.lost)

	s.lost = nil
	s.Store = memstore.New() // a store that contains another run with that ID
	j, err := s.Store.Open(t.Context(), "run-1", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	defer j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted})
	_, err = st.Records(t.Context())
	assert.ErrorContains(t, err, "0 of 3 records are left")
}

// TestMemoryOfAStoredRunDoesNotGrowWithIt makes calls that each leave two records and have their
// own addresses. There are too few records for a compaction, which would need memory while it runs.
func TestMemoryOfAStoredRunDoesNotGrowWithIt(t *testing.T) {
	s := fileStore(t, t.TempDir())
	st, err := state.Open(t.Context(), s, "run-1", state.WithSync(state.SyncNever), state.WithPublisher(testkit.Publisher(func(record.Record) {})))
	require.NoError(t, err)
	defer st.Close()
	ctx := st.Context(t.Context())
	big := testkit.Tool(t, "big", once, func(context.Context, string) (string, error) { return strings.Repeat("x", 50), nil })
	calls := func(n int) {
		for range n {
			_, err := testkit.Call(ctx, big)
			require.NoError(t, err)
		}
	}
	memory := func() uint64 {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	calls(500)
	before := memory()
	const n = 2000
	calls(n)
	grown := int64(memory()) - int64(before)
	require.Equal(t, uint64(1+2*(500+n)), st.Report().Records)
	if grown > n*16 {
		t.Errorf("%d calls have taken %d bytes", n, grown)
	}
}

func TestSlowPublisherOfAStoredRunGetsEverythingInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var published []uint64
		slow := state.WithPublisher(testkit.Publisher(func(r record.Record) {
			if len(published)%100 == 0 {
				<-time.After(time.Second)
			}
			published = append(published, r.Seq)
		}))
		st, err := state.Open(t.Context(), fileStore(t, t.TempDir()), "run-1", state.WithSync(state.SyncNever), slow)
		require.NoError(t, err)
		tool := testkit.Tool(t, "tool", once, testkit.Succeed)
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				for range 100 {
					_, err := testkit.Call(st.Context(t.Context()), tool)
					assert.NoError(t, err)
				}
			})
		}
		wait.Wait()
		require.NoError(t, st.Close())
		require.Len(t, published, 1602)
		for i, seq := range published {
			require.Equal(t, uint64(i)+1, seq)
		}
	})
}

// framesOf returns the offsets of the frames in a run's journal, and the end of the last frame.
func framesOf(data []byte) (offsets []int) {
	at := 0
	for ; at < len(data) && binary.BigEndian.Uint32(data[at:]) != 0; at += 16 + int(binary.BigEndian.Uint32(data[at+4:])) {
		offsets = append(offsets, at)
	}
	return append(offsets, at)
}

// TestStoredRunCutAnywhereResumesToTheSameResult is like TestRunCutAnywhereResumesToTheSameResult,
// but resumes from the files that a process would leave if it were killed after any of its writes.
func TestStoredRunCutAnywhereResumesToTheSameResult(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			program := randomTree(rand.New(rand.NewPCG(seed, 11)), 2)
			dir := t.TempDir()
			st, err := state.Open(t.Context(), fileStore(t, dir), "run-1", state.WithSync(state.SyncNever), state.WithSeed(1))
			require.NoError(t, err)
			want, err := newEffects().call(t, st.Context(t.Context()), program)
			require.NoError(t, err)
			files := os.DirFS(filepath.Join(dir, "runs", "run-1"))
			journal, err := os.ReadFile(filepath.Join(dir, "runs", "run-1", "00000001.journal"))
			require.NoError(t, err)
			records := testkit.Records(t, st)

			for _, end := range framesOf(journal)[2:] {
				cut := t.TempDir()
				left := filepath.Join(cut, "runs", "run-1")
				require.NoError(t, os.CopyFS(left, files))
				require.NoError(t, os.Truncate(filepath.Join(left, "00000001.journal"), int64(end)))
				found := testkit.LoadRun(t, fileStore(t, cut), "run-1")
				requireResumed(t, cut, program, found, want)
				require.Equal(t, facts(records[:len(found.Records)]), facts(found.Records))
			}
			require.NoError(t, st.Close())
		})
	}
}

// requireResumed resumes the run in a directory and checks its result. found is the run as it was
// before the resume.
func requireResumed(t *testing.T, dir string, program *node, found *snapshot.Snapshot, want string) {
	t.Helper()
	published, again := new(heard), newEffects()
	st, err := state.Open(t.Context(), fileStore(t, dir), "run-1", state.WithSync(state.SyncNever), state.WithSeed(1), state.WithPublisher(published))
	require.NoError(t, err)
	got, err := again.call(t, st.Context(t.Context()), program)
	require.NoError(t, err)
	require.Equal(t, want, got, "cut after record %d", len(found.Records))
	for address := range completedLeaves(found.Records) {
		require.Zero(t, again.ran[address], "%s had ended before the cut after record %d", address, len(found.Records))
	}
	require.NoError(t, st.Close())
	live := slices.DeleteFunc(published.records, func(r record.Record) bool { return r.Replayed })
	require.Equal(t, facts(slices.Concat(found.Records, live)), facts(testkit.Records(t, st)))
}

// slow is a store whose syncs take a second.
type slow struct{ snapshot.Store }

type slowJournal struct{ snapshot.Journal }

func (s slow) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.Store.Open(ctx, runID, o)
	return slowJournal{j}, err
}

func (j slowJournal) Sync(ctx context.Context, seq uint64) error {
	<-time.After(time.Second)
	return j.Journal.Sync(ctx, seq)
}

// If the time of a slow sync counted, the handler's context would have expired before the handler
// began.
func TestStoringTheBeginningDoesNotCountAgainstTheAttempt(t *testing.T) {
	for name, limit := range map[string]core.RetryConfig{
		"AttemptTimeout": {MaxAttempts: 1, AttemptTimeout: 100 * time.Millisecond},
		"RetryTimeout":   {MaxAttempts: 1, RetryTimeout: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: core.InDoubtAsk, Retry: &limit}, func(ctx context.Context, _ string) (string, error) {
					end, ok := ctx.Deadline()
					assert.True(t, ok)
					assert.Equal(t, 100*time.Millisecond, time.Until(end))
					return "paid", ctx.Err()
				})
				st, err := state.Open(t.Context(), slow{memstore.New()}, "run-1")
				require.NoError(t, err)
				_, err = testkit.Call(st.Context(t.Context()), pay)
				require.NoError(t, err)
				require.NoError(t, st.Close())
			})
		})
	}
}

func TestStoringARecordDoesNotCountAgainstTheNextAttempt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, err := state.Open(t.Context(), slow{memstore.New()}, "run-1")
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", core.RetryConfig{InitialDelay: core.NoDelay}, testkit.Fail(errFlaky)))
		require.ErrorIs(t, err, core.ErrExhausted)
		require.NoError(t, st.Close())
		failures := 0
		for _, r := range testkit.Records(t, st) {
			if r.Kind.IsCall() && r.Status == record.StatusFailed {
				failures++
				assert.Zero(t, r.Duration)
			}
		}
		assert.Equal(t, 3, failures)
	})
}
