package jetstream_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// fill appends records to a run until the server refuses one, and returns the error.
func fill(t *testing.T, s *jetstream.Store, id string) error {
	t.Helper()
	j, err := s.Open(t.Context(), id, snapshot.OpenOptions{Create: true})
	for seq := uint64(1); err == nil && seq < 100_000; seq++ {
		if err = j.Append(storetest.Records(seq, 1)...); err == nil {
			err = j.Sync(t.Context(), seq)
		}
	}
	if j != nil {
		require.Error(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	}
	require.ErrorIs(t, err, snapshot.ErrUnavailable)
	return err
}

// TestRunContinuesWhenThereIsStorageAgain runs out of storage in the middle of a step, so the
// step's outcome cannot be stored. Everything continues by itself once there is storage again.
func TestRunContinuesWhenThereIsStorageAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, jstest.Start(t).URL(), jetstream.Options{Lease: lease, MaxBytes: 64 << 10})
	worker := s.worker("hold after")
	s.start("r", 4)
	worker.Await("holding")
	require.ErrorContains(t, fill(t, s.client.Store().(*jetstream.Store), "filler"), "maximum bytes exceeded")
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600))
	for {
		line, ok := worker.Line()
		require.True(t, ok)
		if strings.Contains(line, " run r ") { // the run has ended, or could not be closed
			break
		}
	}
	raise(t, s.conn)
	s.check("r", 4, 0)
	assert.Len(t, s.ledger(), 5, "only the step whose outcome could not be stored ran again")
	worker.Stop()
}

// TestNothingIsStoredAfterRecordsThatCouldNotBeStored checks that later records are not stored: the
// run would have a gap and could not be read.
func TestNothingIsStoredAfterRecordsThatCouldNotBeStored(t *testing.T) {
	t.Parallel()
	conn := jstest.Start(t).Connect()
	s := open(t, conn, jetstream.Options{Lease: longLease, MaxBytes: 64 << 10})
	j := begin(t, s, snapshot.OpenOptions{Create: true})
	large := func(seq uint64) []record.Record { // two of them are too large for one message
		records := storetest.Records(seq, 1)
		records[0].Detail = &record.Detail{Input: make([]byte, 600<<10)}
		return records
	}
	require.NoError(t, j.Append(large(1)...))
	if err := j.Append(large(2)...); err != nil { // the server has already refused the first one
		require.ErrorIs(t, err, snapshot.ErrUnavailable)
	}
	require.ErrorIs(t, j.Sync(t.Context(), 2), snapshot.ErrUnavailable)
	raise(t, conn)
	require.ErrorIs(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}), snapshot.ErrUnavailable)
	run, err := s.Load(t.Context(), "run")
	require.NoError(t, err)
	assert.Zero(t, run.Len())
	assert.Equal(t, snapshot.StatusInterrupted, run.Status)
}

// raise raises the size limit of the stream of records.
func raise(t *testing.T, conn *nats.Conn) {
	t.Helper()
	configure(t, conn, "RP_reprise", func(c *njs.StreamConfig) { c.MaxBytes = 10 << 20 })
}

// configure changes the configuration of a stream.
func configure(t *testing.T, conn *nats.Conn, name string, change func(*njs.StreamConfig)) {
	t.Helper()
	js, err := njs.New(conn)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), name)
	require.NoError(t, err)
	config := stream.CachedInfo().Config
	change(&config)
	_, err = js.UpdateStream(t.Context(), config)
	require.NoError(t, err)
}

// TestServerWithoutStorageSaysSo: Open leaves nothing incomplete on such a server.
func TestServerWithoutStorageSaysSo(t *testing.T) {
	t.Parallel()
	s := newSite(t, jstest.Start(t, jstest.WithMaxStore(256<<10)).URL(), jetstream.Options{Lease: lease})
	store := s.client.Store().(*jetstream.Store)
	require.ErrorContains(t, fill(t, store, "filler"), "insufficient resources")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := s.client.Start(ctx, "work", "r", task{"r", 3}, runner.StartOptions{})
	require.ErrorIs(t, err, snapshot.ErrUnavailable)
	require.ErrorContains(t, err, "insufficient resources")
	_, err = store.Info(ctx, "r")
	require.ErrorIs(t, err, snapshot.ErrNotFound)
	_, err = store.Put(ctx, make([]byte, 256<<10))
	require.ErrorIs(t, err, snapshot.ErrUnavailable)
	require.ErrorContains(t, err, "insufficient resources")
	ctx, cancel = context.WithTimeout(t.Context(), patience) // requests without a deadline end after a lease
	defer cancel()
	run, err := store.Load(ctx, "filler")
	require.NoError(t, err, "stored runs can be read")
	assert.Positive(t, run.Len())
}

// A server may have a lower limit for messages than the default. Outputs, and the artifacts that
// hold them, are split accordingly.
func TestOutputsFitTheLargestMessageOfTheServer(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t, jstest.WithMaxPayload(32<<10))
	s := open(t, server.Connect(), jetstream.Options{Lease: longLease})
	data := []byte(strings.Repeat("0123456789", 50_000))
	ref, err := s.Put(t.Context(), data)
	require.NoError(t, err)
	got, err := s.Get(t.Context(), ref)
	require.NoError(t, err)
	assert.Equal(t, data, got)

	j, err := s.Open(t.Context(), "large", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	records := storetest.Records(1, 1)
	records[0].Detail = &record.Detail{Input: data}
	require.NoError(t, j.Append(records...))
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	run, err := s.Load(t.Context(), "large")
	require.NoError(t, err)
	assert.Equal(t, 1, run.Len())
}
