package storetest_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// Each of these stores breaks one rule. Each is checked in a separate process, because the test of
// a broken store fails.

type broken struct{ *memstore.Store }

func newBroken() broken { return broken{memstore.New()} }

// waitsInVain returns only the context's error, without ErrLocked, when a wait ends.
type waitsInVain struct{ broken }

func (s waitsInVain) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.broken.Open(ctx, runID, o)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return j, err
}

// anyGeneration ignores the generation of a cursor.
type anyGeneration struct{ broken }

func (s anyGeneration) Follow(ctx context.Context, runID string, after snapshot.Cursor) iter.Seq2[record.Record, error] {
	return s.broken.Follow(ctx, runID, snapshot.Cursor{Seq: after.Seq})
}

// updatesAlways ignores its context in Update.
type updatesAlways struct{ broken }

func (s updatesAlways) Update(ctx context.Context, runID string, change func(*snapshot.Info) error) (snapshot.Info, error) {
	return s.broken.Update(context.WithoutCancel(ctx), runID, change)
}

// informsAlways ignores its context in Info.
type informsAlways struct{ broken }

func (s informsAlways) Info(ctx context.Context, runID string) (snapshot.Info, error) {
	return s.broken.Info(context.WithoutCancel(ctx), runID)
}

// oneCause returns Err instead of the cause of an ended context.
type oneCause struct{ broken }

func (s oneCause) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.broken.Load(ctx, runID)
}

// anyID returns ErrNotFound for an invalid ID.
type anyID struct{ broken }

func (s anyID) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	if snapshot.CheckRunID(runID) != nil {
		return nil, snapshot.ErrNotFound
	}
	return s.broken.Load(ctx, runID)
}

// watchesExisting refuses to watch a run that does not exist.
type watchesExisting struct{ broken }

func (s watchesExisting) Watch(ctx context.Context, o snapshot.WatchOptions) iter.Seq2[snapshot.Change, error] {
	if o.RunID != "" {
		if _, err := s.Info(ctx, o.RunID); err != nil {
			return func(yield func(snapshot.Change, error) bool) { yield(snapshot.Change{}, err) }
		}
	}
	return s.broken.Watch(ctx, o)
}

// watchesRecords yields records although they were not requested.
type watchesRecords struct{ broken }

func (s watchesRecords) Watch(ctx context.Context, o snapshot.WatchOptions) iter.Seq2[snapshot.Change, error] {
	o.Records = true
	return s.broken.Watch(ctx, o)
}

// syncsOpen refuses to sync after Close.
type syncsOpen struct{ broken }

func (s syncsOpen) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.broken.Open(ctx, runID, o)
	if err != nil {
		return nil, err
	}
	return &openJournal{Journal: j}, nil
}

type openJournal struct {
	snapshot.Journal
	closed bool
}

func (j *openJournal) Sync(ctx context.Context, seq uint64) error {
	if j.closed {
		return snapshot.ErrClosed
	}
	return j.Journal.Sync(ctx, seq)
}

func (j *openJournal) Close(ctx context.Context, end snapshot.End) error {
	j.closed = true
	return j.Journal.Close(ctx, end)
}

// afterCrash returns the store as another process finds it after a crash. Memory does not survive a
// crash, so the result is a copy of the store, in which Create marks running runs as interrupted.
func afterCrash(t *testing.T, s *memstore.Store) *memstore.Store {
	t.Helper()
	next := memstore.New()
	for info, err := range snapshot.Runs(t.Context(), s, snapshot.Filter{}) {
		require.NoError(t, err)
		run, err := s.Load(t.Context(), info.RunID)
		require.NoError(t, err)
		_, err = next.Create(t.Context(), run)
		require.NoError(t, err)
		messages, err := s.Messages(t.Context(), info.RunID)
		require.NoError(t, err)
		for _, m := range messages {
			require.NoError(t, next.Post(t.Context(), info.RunID, m))
		}
	}
	return next
}

// forgetsCrash reports a crashed run as running.
type forgetsCrash struct{ broken }

func (s forgetsCrash) forget(info *snapshot.Info) {
	if info.Stop.Reason == record.InterruptCrash {
		info.Status, info.Stop = snapshot.StatusRunning, snapshot.Stop{}
	}
}

func (s forgetsCrash) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	run, err := s.broken.Load(ctx, runID)
	if err == nil {
		s.forget(&run.Info)
	}
	return run, err
}

// restoresRunning reports a crashed run as running only in Journal.Restored.
type restoresRunning struct{ forgetsCrash }

func (s restoresRunning) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	return s.broken.Load(ctx, runID)
}

func (s restoresRunning) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.broken.Open(ctx, runID, o)
	if err == nil {
		s.forget(&j.Restored().Info)
	}
	return j, err
}

func TestStoreThatCrashesKeepsTheRulesOfCrashes(t *testing.T) {
	storetest.RunCrash(t, func(t *testing.T) (snapshot.Store, func() snapshot.Store) {
		s := memstore.New()
		return s, func() snapshot.Store { return afterCrash(t, s) }
	})
}

// brokenStores maps the name of each test to a broken store whose error the test must find.
var brokenStores = map[string]func() snapshot.Store{
	"WaitingEndsWithItsContext":             func() snapshot.Store { return waitsInVain{newBroken()} },
	"ACursorOfAnotherGenerationIsRefused":   func() snapshot.Store { return anyGeneration{newBroken()} },
	"AContextThatHasEndedIsAnError":         func() snapshot.Store { return updatesAlways{newBroken()} },
	"AContextThatHasEndedIsAnError/Info":    func() snapshot.Store { return informsAlways{newBroken()} },
	"AContextThatHasEndedIsAnError/cause":   func() snapshot.Store { return oneCause{newBroken()} },
	"AnInvalidRunIDIsRefused":               func() snapshot.Store { return anyID{newBroken()} },
	"ARunCanBeWatchedBeforeItExists":        func() snapshot.Store { return watchesExisting{newBroken()} },
	"AWatchWithoutRecordsIgnoresNewRecords": func() snapshot.Store { return watchesRecords{newBroken()} },
	"SyncReturnsAlsoAfterTheEnd":            func() snapshot.Store { return syncsOpen{newBroken()} },
}

var brokenCrashes = map[string]func(*memstore.Store) snapshot.Store{
	"ARunThatHasCrashedIsInterrupted": func(s *memstore.Store) snapshot.Store { return forgetsCrash{broken{s}} },
	"ACrashedRunCanBeOpened":          func(s *memstore.Store) snapshot.Store { return restoresRunning{forgetsCrash{broken{s}}} },
}

const brokenEnv = "REPRISE_BROKEN_STORE"

// TestBroken runs in the processes that TestSuiteFindsWhatIsBroken starts.
func TestBroken(t *testing.T) {
	name := os.Getenv(brokenEnv)
	if name == "" {
		t.Skip("only for TestSuiteFindsWhatIsBroken")
	}
	if open, ok := brokenStores[name]; ok {
		storetest.Run(t, func(*testing.T) snapshot.Store { return open() })
		return
	}
	storetest.RunCrash(t, func(t *testing.T) (snapshot.Store, func() snapshot.Store) {
		s := memstore.New()
		return s, func() snapshot.Store { return brokenCrashes[name](afterCrash(t, s)) }
	})
}

func TestSuiteFindsWhatIsBroken(t *testing.T) {
	var names []string
	for name := range brokenStores {
		names = append(names, name)
	}
	for name := range brokenCrashes {
		names = append(names, name)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test, _, _ := strings.Cut(name, "/")
			run := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestBroken$/^"+test+"$")
			run.Env = append(os.Environ(), brokenEnv+"="+name)
			out, err := run.CombinedOutput()
			require.Error(t, err, "the broken store passes:\n%s", out)
			assert.Contains(t, string(out), fmt.Sprintf("--- FAIL: TestBroken/%s ", test))
		})
	}
}
