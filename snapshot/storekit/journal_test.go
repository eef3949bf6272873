package storekit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// A writer keeps the batches that a Journal writes.
type writer struct {
	write  func(ctx context.Context) error // called by Write; nil to succeed
	finish func(rest storekit.Batch) error // called by Finish; nil to succeed

	batches []storekit.Batch
	end     snapshot.End
	closed  []error
}

func (w *writer) Write(ctx context.Context, b storekit.Batch) error {
	if w.write != nil {
		if err := w.write(ctx); err != nil {
			return err
		}
	}
	w.batches = append(w.batches, b)
	return nil
}

func (w *writer) Finish(_ context.Context, end snapshot.End, rest storekit.Batch) error {
	if w.finish != nil {
		if err := w.finish(rest); err != nil {
			return err
		}
	}
	w.batches, w.end = append(w.batches, rest), end
	return nil
}

func (w *writer) Closed(err error) { w.closed = append(w.closed, err) }

func newJournal(t *testing.T, w *writer, o storekit.JournalOptions) *storekit.Journal {
	t.Helper()
	run, err := snapshot.NewRun(snapshot.Info{RunID: "run", Status: snapshot.StatusRunning}, nil)
	require.NoError(t, err)
	return storekit.NewJournal(run, w, o)
}

// sized returns a record with an input of n bytes.
func sized(seq uint64, n int) record.Record {
	r := storetest.Records(seq, 1)[0]
	r.Detail = &record.Detail{Input: make([]byte, n)}
	return r
}

var completed = snapshot.End{Status: snapshot.StatusCompleted}

func TestBatchesHaveAtMostTheirSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{}
		j := newJournal(t, w, storekit.JournalOptions{MaxBatchBytes: 1000})
		for seq := uint64(1); seq <= 5; seq++ {
			require.NoError(t, j.Append(sized(seq, 300)))
		}
		require.NoError(t, j.Append(sized(6, 900), sized(7, 900)), "they are stored together although they are too large")
		require.NoError(t, j.Sync(t.Context(), 7))
		for seq := uint64(8); seq <= 11; seq++ {
			require.NoError(t, j.Append(sized(seq, 300)))
		}
		require.NoError(t, j.Close(t.Context(), completed))
		prev := uint64(0)
		var lasts []uint64
		for _, b := range w.batches {
			assert.Equal(t, prev, b.Prev)
			prev = b.Last
			lasts = append(lasts, b.Last)
			n := uint64(0)
			for rec, err := range snapshot.DecodeRecords(b.Data) {
				require.NoError(t, err)
				n++
				assert.Equal(t, b.Prev+n, rec.Seq)
			}
			assert.Equal(t, b.Last, b.Prev+n)
		}
		assert.Equal(t, []uint64{2, 4, 5, 7, 9, 11}, lasts)
	})
}

func TestCloseDoesNotWaitForAWriteWhenItsContextHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{write: func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		j := newJournal(t, w, storekit.JournalOptions{})
		require.NoError(t, j.Append(sized(1, 1)))
		synced := make(chan error)
		go func() { synced <- j.Sync(context.WithoutCancel(t.Context()), 1) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, j.Close(ctx, completed), context.Canceled)
		require.Error(t, <-synced)
		assert.Len(t, w.closed, 1)
	})
}

func TestSyncReturnsAfterACloseThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{finish: func(storekit.Batch) error { return snapshot.ErrUnavailable }}
		j := newJournal(t, w, storekit.JournalOptions{})
		require.NoError(t, j.Append(sized(1, 1)))
		require.ErrorIs(t, j.Close(t.Context(), completed), snapshot.ErrUnavailable)
		require.ErrorIs(t, j.Sync(context.WithoutCancel(t.Context()), 1), snapshot.ErrUnavailable)
		require.ErrorIs(t, j.Close(t.Context(), completed), snapshot.ErrUnavailable)
		assert.Len(t, w.closed, 1)
	})
}

func TestRunWhoseLastRecordsCannotBeStoredIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errTooLarge := errors.New("too large")
		w := &writer{finish: func(rest storekit.Batch) error {
			if rest.Last > 0 {
				return errTooLarge
			}
			return nil
		}}
		j := newJournal(t, w, storekit.JournalOptions{})
		require.NoError(t, j.Append(sized(1, 1)))
		require.ErrorIs(t, j.Close(t.Context(), completed), errTooLarge)
		assert.Equal(t, snapshot.StatusInterrupted, w.end.Status)
		assert.Equal(t, record.InterruptStore, w.end.Stop.Reason)
	})
}

func TestJournalThatWasClosedIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, &writer{}, storekit.JournalOptions{})
		require.NoError(t, j.Append(sized(1, 1)))
		require.NoError(t, j.Close(t.Context(), completed))
		j.Lose()
		require.NoError(t, j.Sync(t.Context(), 1))
		require.ErrorIs(t, j.Append(sized(2, 1)), snapshot.ErrClosed)
		assert.Empty(t, j.Lost())
	})
}
