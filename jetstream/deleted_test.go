package jetstream_test

import (
	"testing"

	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/jetstream"
	"github.com/reprise-go/reprise/jetstream/jstest"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// deleteStreams deletes all that a store has on a server.
func deleteStreams(t *testing.T, server *jstest.Server) {
	t.Helper()
	js, err := njs.New(server.Connect())
	require.NoError(t, err)
	names := js.StreamNames(t.Context())
	for name := range names.Name() {
		require.NoError(t, js.DeleteStream(t.Context(), name))
	}
	require.NoError(t, names.Err())
}

// TestStoreThatIsDeletedUnderAWorkerIsAnErrorAtOnce: nothing is taken for stored,
// and nobody waits.
func TestStoreThatIsDeletedUnderAWorkerIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	s := open(t, server.Connect(), jetstream.Options{Lease: lease})
	j := begin(t, s, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	require.NoError(t, j.Sync(t.Context(), 3))
	deleteStreams(t, server)
	err := j.Append(storetest.Records(4, 1)...)
	if err == nil {
		err = j.Sync(t.Context(), 4)
	}
	require.Error(t, err)
	require.Error(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	_, loadErr := s.Load(t.Context(), "run")
	_, listErr := s.List(t.Context(), snapshot.Filter{})
	_, openErr := s.Open(t.Context(), "other", snapshot.OpenOptions{Create: true})
	_, putErr := s.Put(t.Context(), []byte("data"))
	for _, err := range []error{loadErr, listErr, openErr, putErr} {
		require.ErrorIs(t, err, snapshot.ErrUnavailable)
		require.ErrorContains(t, err, "stream not found")
	}
}

// TestRunOfAStoreThatWasMadeAnewDoesNotGoOnInTheMiddle: without the records
// before, those that come now are of no run.
func TestRunOfAStoreThatWasMadeAnewDoesNotGoOnInTheMiddle(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	s := open(t, server.Connect(), jetstream.Options{Lease: 10 * lease})
	j := begin(t, s, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	require.NoError(t, j.Sync(t.Context(), 3))
	deleteStreams(t, server)
	again := open(t, server.Connect(), jetstream.Options{Lease: 10 * lease})
	err := j.Append(storetest.Records(4, 1)...)
	if err == nil {
		err = j.Sync(t.Context(), 4)
	}
	require.Error(t, err)
	require.Error(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	for _, s := range []*jetstream.Store{s, again} {
		_, err := s.Load(t.Context(), "run")
		require.ErrorIs(t, err, snapshot.ErrNotFound)
		page, err := s.List(t.Context(), snapshot.Filter{})
		require.NoError(t, err)
		assert.Empty(t, page.Runs)
	}
	next := begin(t, again, snapshot.OpenOptions{Create: true})
	assert.Zero(t, next.Restored().Len())
	require.NoError(t, next.Append(storetest.Records(1, 2)...))
	require.NoError(t, next.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	run, err := s.Load(t.Context(), "run")
	require.NoError(t, err)
	assert.Equal(t, 2, run.Len())
}
