package jetstream_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// hereAndThere returns two workers, only one of which reaches the server through a proxy.
func hereAndThere(t *testing.T, lease time.Duration) (here, there *jetstream.Store, between *proxy) {
	server := jstest.Start(t)
	between = newProxy(t, server.URL())
	o := jetstream.Options{Lease: lease}
	return open(t, jstest.Connect(t, between.url()), o), open(t, server.Connect(), o), between
}

func begin(t *testing.T, s snapshot.Store, o snapshot.OpenOptions) snapshot.Journal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	j, err := s.Open(ctx, "run", o)
	require.NoError(t, err)
	return j
}

// TestRunIsLoadedOverASlowConnection reads a run over a connection so slow that this takes much
// longer than any single answer may take.
func TestRunIsLoadedOverASlowConnection(t *testing.T) {
	t.Parallel()
	slow, fast, between := hereAndThere(t, lease/2)
	j := begin(t, fast, snapshot.OpenOptions{Create: true})
	for seq := range uint64(40) {
		records := storetest.Records(seq+1, 1)
		records[0].Detail = &record.Detail{Input: make([]byte, 50<<10)}
		require.NoError(t, j.Append(records...))
		require.NoError(t, j.Sync(t.Context(), seq+1))
	}
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	between.Delay(20 * time.Millisecond) // at most 1.6 MB/s
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	run, err := slow.Load(ctx, "run")
	require.NoError(t, err)
	assert.Equal(t, 40, run.Len())
	between.Delay(0)
}

// TestReadingContinuesWhenTheServerAnswersAgain lets no server answer the requests for messages for
// a while.
func TestReadingContinuesWhenTheServerAnswersAgain(t *testing.T) {
	t.Parallel()
	conn := jstest.Start(t).Connect()
	s := open(t, conn, jetstream.Options{Lease: longLease})
	j := begin(t, s, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	answerReads(t, conn, false)
	asked := conn.Stats().OutMsgs
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var list snapshot.Page
	var err error
	listed := make(chan struct{})
	go func() {
		defer close(listed)
		list, err = s.List(ctx, snapshot.Filter{})
	}()
	require.Eventually(t, func() bool { return conn.Stats().OutMsgs >= asked+100 }, patience, 10*time.Millisecond)
	assert.False(t, isClosed(listed))
	answerReads(t, jstest.Connect(t, conn.ConnectedUrl()), true)
	<-listed
	require.NoError(t, err)
	assert.Len(t, list.Runs, 1)
}

// answerReads sets whether the server answers requests for messages in the index.
func answerReads(t *testing.T, conn *nats.Conn, answers bool) {
	t.Helper()
	configure(t, conn, "RPI_reprise", func(c *njs.StreamConfig) { c.AllowDirect = answers })
}

func TestWorkerThatIsCutOffWritesNothing(t *testing.T) {
	t.Parallel()
	here, there, between := hereAndThere(t, 2*lease)
	other, err := there.Open(t.Context(), "other", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	j := begin(t, here, snapshot.OpenOptions{Create: true, Owner: "here"})
	require.NoError(t, j.Append(storetest.Records(1, 2)...))
	require.NoError(t, j.Sync(t.Context(), 2))

	type opening struct {
		journal snapshot.Journal
		err     error
	}
	opened := make(chan opening, 1)
	go func() {
		j, err := there.Open(t.Context(), "run", snapshot.OpenOptions{Wait: true})
		opened <- opening{j, err}
	}()
	between.Set(true, false)
	require.NoError(t, j.Append(storetest.Records(3, 1)...)) // only queued, since the worker is cut off
	require.ErrorIs(t, j.Sync(t.Context(), 3), snapshot.ErrMaybeStored)
	<-j.Lost()
	assert.Empty(t, opened, "the worker stops before others continue its run")
	require.ErrorIs(t, j.Append(storetest.Records(4, 1)...), snapshot.ErrMaybeStored)

	taken := <-opened
	require.NoError(t, taken.err)
	next := taken.journal
	assert.EqualValues(t, 2, next.Restored().Generation)
	assert.Equal(t, 2, next.Restored().Len())
	assert.Equal(t, snapshot.StatusInterrupted, next.Restored().Status)
	require.NoError(t, next.Append(storetest.Records(3, 2)...))

	between.Set(false, false)
	require.ErrorIs(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}), snapshot.ErrMaybeStored)
	require.NoError(t, next.Sync(t.Context(), 4))
	info, err := there.Info(t.Context(), "run")
	require.NoError(t, err)
	assert.True(t, info.Open)
	assert.EqualValues(t, 4, info.LastSeq)
	require.NoError(t, next.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))

	again := begin(t, here, snapshot.OpenOptions{}) // with a new lease
	assert.Equal(t, 4, again.Restored().Len())
	require.NoError(t, other.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	require.NoError(t, again.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
}

func TestIdleWorkerThatIsCutOffSaysThatItsLeaseIsOver(t *testing.T) {
	t.Parallel()
	here, _, between := hereAndThere(t, lease)
	j := begin(t, here, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	require.NoError(t, j.Sync(t.Context(), 1))
	between.Set(true, false)
	<-j.Lost()
	require.ErrorIs(t, j.Append(storetest.Records(2, 1)...), snapshot.ErrLease)
	require.ErrorIs(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}), snapshot.ErrLease)
}

func TestConnectionThatComesBackInTimeLosesNothing(t *testing.T) {
	t.Parallel()
	here, there, between := hereAndThere(t, longLease)
	j := begin(t, here, snapshot.OpenOptions{Create: true})
	for n := range uint64(20) {
		require.NoError(t, j.Append(storetest.Records(n+1, 1)...))
		if n%5 == 2 {
			between.Set(true, false)
			between.Set(false, false)
		}
		require.NoError(t, j.Sync(t.Context(), n+1))
	}
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	run, err := there.Load(t.Context(), "run")
	require.NoError(t, err)
	assert.Equal(t, 20, run.Len())
	assert.EqualValues(t, 1, run.Generation)
}

// TestRunThatCouldNotBeClosedIsOpenedAgain opens a run again in a process that is alive and whose
// lease has not expired.
func TestRunThatCouldNotBeClosedIsOpenedAgain(t *testing.T) {
	t.Parallel()
	here, there, between := hereAndThere(t, longLease)
	j := begin(t, here, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 2)...))
	require.NoError(t, j.Sync(t.Context(), 2))
	between.Set(true, false)
	ending, end := context.WithCancel(t.Context())
	end()
	require.Error(t, j.Close(ending, snapshot.End{Status: snapshot.StatusPaused}))
	between.Set(false, false)
	info, err := there.Info(t.Context(), "run")
	require.NoError(t, err)
	assert.True(t, info.Open, "another process does not know that the run may be opened")
	_, err = there.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.ErrorIs(t, err, snapshot.ErrLocked)

	next, err := here.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusInterrupted, next.Restored().Status)
	assert.Equal(t, 2, next.Restored().Len())
	_, err = here.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.ErrorIs(t, err, snapshot.ErrLocked, "the run is open now")
	require.NoError(t, next.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
}

// TestLostAcknowledgementStoresNothingTwice lets the server store messages while its answers are
// lost for a while.
func TestLostAcknowledgementStoresNothingTwice(t *testing.T) {
	t.Parallel()
	here, there, between := hereAndThere(t, longLease)
	j := begin(t, here, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	require.NoError(t, j.Sync(t.Context(), 1))
	between.Set(false, true)
	require.NoError(t, j.Append(storetest.Records(2, 3)...))
	stored := func() bool {
		info, err := there.Info(t.Context(), "run")
		return err == nil && info.LastSeq == 4
	}
	require.Eventually(t, stored, patience, 5*time.Millisecond)
	between.Set(false, false) // the client has to reconnect
	require.NoError(t, j.Sync(t.Context(), 4))
	require.NoError(t, j.Append(storetest.Records(5, 1)...))
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusPaused}))
	run, err := there.Load(t.Context(), "run")
	require.NoError(t, err)
	assert.Equal(t, 5, run.Len())
}

func TestFencedWorkerLearnsThatItIsFenced(t *testing.T) {
	here, there, _ := hereAndThere(t, longLease)
	j := begin(t, here, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	require.NoError(t, j.Sync(t.Context(), 1))
	fence(t, there, "run")
	require.NoError(t, j.Append(storetest.Records(2, 1)...))
	require.ErrorIs(t, j.Sync(t.Context(), 2), snapshot.ErrFenced)
	require.ErrorIs(t, j.Append(storetest.Records(3, 1)...), snapshot.ErrFenced)
	require.ErrorIs(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}), snapshot.ErrFenced)
	run, err := there.Load(t.Context(), "run")
	require.NoError(t, err)
	assert.Equal(t, 1, run.Len())
}

func TestStoreThatIsClosedLetsOthersContinueAtOnce(t *testing.T) {
	here, there, _ := hereAndThere(t, longLease)
	j := begin(t, here, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	require.NoError(t, j.Sync(t.Context(), 1))
	require.NoError(t, here.Close())
	require.Error(t, j.Append(storetest.Records(2, 1)...))
	next, err := there.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	assert.Equal(t, 1, next.Restored().Len())
	require.NoError(t, next.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	_, err = here.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.Error(t, err)
}

// TestPositionIsValidInAnyProcess continues a watch in another process, without a gap or a
// duplicate.
func TestPositionIsValidInAnyProcess(t *testing.T) {
	here, there, _ := hereAndThere(t, longLease)
	j := begin(t, here, snapshot.OpenOptions{Create: true})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	require.NoError(t, j.Sync(ctx, 1))
	var last uint64
	position := ""
	for seq := uint64(2); seq <= 10; seq++ {
		s := []*jetstream.Store{here, there}[seq%2]
		if position != "" {
			require.NoError(t, j.Append(storetest.Records(seq, 1)...))
			require.NoError(t, j.Sync(ctx, seq))
		}
		for e, err := range s.Watch(ctx, snapshot.WatchOptions{After: position, Records: true}) {
			require.NoError(t, err)
			if position = e.Position; position == "" { // events of existing runs have no position
				require.NoError(t, j.Append(storetest.Records(seq, 1)...))
				last = 1
				continue
			}
			require.Len(t, e.Records, 1)
			require.Equal(t, last+1, e.Records[0].Seq)
			last++
			break
		}
	}
	require.NoError(t, j.Close(ctx, snapshot.End{Status: snapshot.StatusCompleted}))
	for _, err := range here.Watch(ctx, snapshot.WatchOptions{After: "1-1"}) {
		require.ErrorIs(t, err, snapshot.ErrReset)
	}
}

func TestLargeRecordsGoIntoTheBucket(t *testing.T) {
	t.Parallel()
	here, there, _ := hereAndThere(t, longLease)
	large := storetest.Records(1, 3)
	for i := range large {
		if large[i].Detail != nil {
			large[i].Detail.Output = make([]byte, 3<<20)
		}
	}
	j := begin(t, here, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(large...))
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	run, err := there.Load(t.Context(), "run")
	require.NoError(t, err)
	sn, err := run.Snapshot()
	require.NoError(t, err)
	require.Len(t, sn.Records, 3)
	assert.Len(t, sn.Records[1].Encoded(), 3<<20)
}
