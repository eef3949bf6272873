package jetstream_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// deleteStreams deletes everything that a store has on a server.
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

// TestStoreThatIsDeletedUnderAWorkerIsAnErrorAtOnce checks that nothing counts as stored, and that
// nobody keeps waiting.
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

// readers begins to read in each of the ways that follow changes. For each way, it returns a
// channel that receives the error when reading ends.
func readers(t *testing.T, s *jetstream.Store) map[string]<-chan error {
	t.Helper()
	ended := make(map[string]<-chan error)
	begin := func(name string, read func(yield func() bool) error) {
		begun, end := make(chan struct{}), make(chan error, 1)
		go func() {
			once := sync.OnceFunc(func() { close(begun) })
			end <- read(func() bool { once(); return true })
		}()
		<-begun
		ended[name] = end
	}
	begin("follow", func(yield func() bool) error {
		for _, err := range s.Follow(t.Context(), "run", snapshot.Cursor{}) {
			if err != nil || !yield() {
				return err
			}
		}
		return nil
	})
	for name, o := range map[string]snapshot.WatchOptions{"watch all": {Records: true}, "watch one": {RunID: "run"}} {
		begin(name, func(yield func() bool) error {
			for _, err := range s.Watch(t.Context(), o) {
				if err != nil || !yield() {
					return err
				}
			}
			return nil
		})
	}
	return ended
}

func endOf(t *testing.T, name string, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		t.Fatalf("%s waits for messages that cannot arrive", name)
		return nil
	}
}

func TestReadersOfAStoreThatIsDeletedGetAnError(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	s := open(t, server.Connect(), jetstream.Options{Lease: longLease})
	j := begin(t, s, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	require.NoError(t, j.Sync(t.Context(), 3))
	all := readers(t, s)
	deleteStreams(t, server)
	for name, ended := range all {
		err := endOf(t, name, ended)
		require.ErrorIs(t, err, snapshot.ErrUnavailable, name)
		require.ErrorContains(t, err, "stream not found", name)
	}
	select { // without the stream, the journal would not notice messages for the run
	case <-j.Lost():
	case <-time.After(patience):
		t.Fatal("the journal still has its run")
	}
}

// TestReadersOfARecreatedStoreGetAnError has readers that are cut off while the store is created
// again. They would otherwise continue with another stream, whose messages have other numbers.
func TestReadersOfARecreatedStoreGetAnError(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	between := newProxy(t, server.URL())
	o := jetstream.Options{Lease: lease}
	s := open(t, jstest.Connect(t, between.url()), o)
	j := begin(t, s, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	all := readers(t, s)
	between.Set(true, false)
	deleteStreams(t, server)
	open(t, server.Connect(), o)
	between.Set(false, false)
	for name, ended := range all {
		require.ErrorIs(t, endOf(t, name, ended), snapshot.ErrReset, name)
	}
	j = begin(t, s, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	require.NoError(t, j.Sync(t.Context(), 1))
	for name, ended := range readers(t, s) { // the readers of the new stream
		assert.Empty(t, ended, name)
	}
}

// TestQueueThatIsDeletedIsAnError checks that Take returns an error, and that it works again after
// the queue has been opened again.
func TestQueueThatIsDeletedIsAnError(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	w := newWorker(t, server, longLease)
	w.takesNothing(t, echoID)
	taken := make(chan error, 1)
	go func() {
		_, err := w.queue.Take(t.Context(), []runner.ProgramID{echoID}, 1)
		taken <- err
	}()
	deleteStreams(t, server)
	err := endOf(t, "take", taken)
	require.ErrorIs(t, err, snapshot.ErrUnavailable)
	require.ErrorContains(t, err, "stream not found")
	_, err = w.queue.Add(t.Context(), runner.QueueEntry{RunID: "r", Program: echoID})
	require.ErrorIs(t, err, snapshot.ErrUnavailable)

	again := newWorker(t, server, longLease)
	added, err := again.queue.Add(t.Context(), runner.QueueEntry{RunID: "r", Program: echoID})
	require.NoError(t, err)
	assert.True(t, added)
	for {
		jobs, err := w.queue.Take(t.Context(), []runner.ProgramID{echoID}, 1)
		if errors.Is(err, snapshot.ErrUnavailable) {
			continue // the deletion was already noticed
		}
		require.NoError(t, err)
		require.NoError(t, jobs[0].Done(t.Context()))
		break
	}
}

// TestRunOfARecreatedStoreDoesNotContinueInTheMiddle checks that new records are not stored without
// the earlier ones, since they would belong to no run.
func TestRunOfARecreatedStoreDoesNotContinueInTheMiddle(t *testing.T) {
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
