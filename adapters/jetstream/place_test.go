package jetstream_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// write writes records to a run, a few in each message, and reopens the run from time to time.
// Between the messages, it writes those of another run.
func write(t *testing.T, s *jetstream.Store, runID string, records uint64) {
	t.Helper()
	between, err := s.Open(t.Context(), runID+"-other", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	other := between.Restored().LastSeq
	for seq := uint64(1); seq <= records; {
		j, err := s.Open(t.Context(), runID, snapshot.OpenOptions{Create: true})
		require.NoError(t, err)
		for end := min(seq+40, records+1); seq < end; {
			n := min(seq%3+1, end-seq)
			all := storetest.Records(seq, int(n))
			for i := range all {
				all[i].Generation = j.Restored().Generation
			}
			require.NoError(t, j.Append(all...))
			seq += n
			require.NoError(t, j.Sync(t.Context(), seq-1))
			other++
			require.NoError(t, between.Append(storetest.Records(other, 1)...))
		}
		require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusPaused}))
	}
	require.NoError(t, between.Close(t.Context(), snapshot.End{Status: snapshot.StatusPaused}))
}

// first returns the numbers of the first n records, or of all records before the first
// error.
func first(n int, records iter.Seq2[record.Record, error]) (seqs []uint64, err error) {
	for rec, err := range records {
		if err != nil {
			return seqs, err
		}
		if seqs = append(seqs, rec.Seq); len(seqs) == n {
			break
		}
	}
	return seqs, nil
}

// TestPlaceOfEachRecordIsFound also looks in a run that was deleted and created again while the old
// messages could not be removed.
func TestPlaceOfEachRecordIsFound(t *testing.T) {
	t.Parallel()
	s := open(t, jstest.Start(t).Connect(), jetstream.Options{})
	const records = 150
	write(t, s, "r", 200)
	require.NoError(t, jetstream.DeleteOnly(t.Context(), s, "r"))
	write(t, s, "r", records)
	run, err := s.Load(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, records, run.Len())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	afters := []uint64{0, 1, 2, 50}
	for after := uint64(98); after <= records+1; after++ { // far enough to be searched
		afters = append(afters, after)
	}
	for _, after := range afters {
		var want []record.Record
		for rec, err := range run.RecordsAfter(after) {
			require.NoError(t, err)
			want = append(want, rec)
		}
		var got []record.Record
		for rec, err := range s.Records(ctx, "r", after) {
			require.NoError(t, err)
			got = append(got, rec)
		}
		require.Equal(t, want, got, "after %d", after)
	}
	for after := uint64(1); after < records; after += 23 {
		rec, err := run.Record(after)
		require.NoError(t, err)
		seqs, err := first(2, s.Follow(ctx, "r", snapshot.Cursor{Generation: rec.Generation, Seq: after}))
		require.NoError(t, err, "after %d", after)
		require.Equal(t, []uint64{after + 1, after + 2}[:len(seqs)], seqs)
		_, err = first(1, s.Follow(ctx, "r", snapshot.Cursor{Generation: rec.Generation + 1, Seq: after}))
		require.ErrorIs(t, err, snapshot.ErrReset, "after %d", after)
	}
	_, err = first(1, s.Follow(ctx, "r", snapshot.Cursor{Seq: records + 1}))
	require.ErrorIs(t, err, snapshot.ErrReset)
	ended := errors.New("enough")
	ending, end := context.WithCancelCause(ctx)
	end(ended)
	_, err = first(1, s.Follow(ending, "r", snapshot.Cursor{Seq: records}))
	require.ErrorIs(t, err, ended)
}

// TestTailIsReadAlone checks that a client that continues near the end of a long run does not read
// the earlier messages.
func TestTailIsReadAlone(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	const records = 500
	write(t, open(t, server.Connect(), jetstream.Options{}), "r", records)
	conn := server.Connect()
	s := open(t, conn, jetstream.Options{})
	read := func(do func()) (messages, bytes uint64) {
		before := conn.Stats()
		do()
		return conn.Stats().InMsgs - before.InMsgs, conn.Stats().InBytes - before.InBytes
	}
	_, whole := read(func() {
		_, err := s.Load(t.Context(), "r")
		require.NoError(t, err)
	})
	for name, records := range map[string]iter.Seq2[record.Record, error]{
		"records": s.Records(t.Context(), "r", records-5),
		"follow":  s.Follow(t.Context(), "r", snapshot.Cursor{Seq: records - 5}),
	} {
		messages, bytes := read(func() {
			seqs, err := first(5, records)
			require.NoError(t, err)
			require.Equal(t, []uint64{496, 497, 498, 499, 500}, seqs)
		})
		t.Logf("%s: %d messages, %d bytes; the whole run is %d bytes", name, messages, bytes, whole)
		assert.Less(t, messages, uint64(60), name)
		assert.Less(t, bytes, whole/5, name)
	}
}
