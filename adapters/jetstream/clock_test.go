package jetstream_test

import (
	"bufio"
	"context"
	"net"
	"regexp"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/queuetest"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// A later dials connections to a server whose clock seems to be ahead of this process's clock by
// the given duration.
type later time.Duration

func (d later) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &laterConn{Conn: conn, lines: bufio.NewReader(conn), by: time.Duration(d)}, nil
}

// A laterConn reads whole lines, since a message always ends at the end of a line.
type laterConn struct {
	net.Conn
	lines *bufio.Reader
	rest  []byte
	by    time.Duration
}

// timestamp matches the time in an answer, down to the second.
var timestamp = regexp.MustCompile(`"ts":"[0-9-]+T[0-9:]+`)

func (c *laterConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		line, err := c.lines.ReadBytes('\n')
		if err != nil && len(line) == 0 {
			return 0, err
		}
		c.rest = timestamp.ReplaceAllFunc(line, func(found []byte) []byte {
			const layout = `"ts":"2006-01-02T15:04:05`
			at, err := time.Parse(layout, string(found))
			if err != nil {
				return found
			}
			return []byte(at.Add(c.by).Format(layout))
		})
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func TestSchedulesFollowTheClockOfTheServer(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			store := open(t, jstest.Start(t).Connect(nats.SetCustomDialer(later(ahead))), jetstream.Options{Lease: longLease})
			queue, err := jetstream.OpenQueue(t.Context(), store)
			require.NoError(t, err)
			queuetest.RunAhead(t, store, queue, ahead, func(context.Context, struct{}) (string, error) { return "", nil })
		})
	}
}

// A job that is due in an hour by the server's clock is not taken by a worker whose clock is ahead.
func TestJobIsDueByTheClockOfTheServer(t *testing.T) {
	server := jstest.Start(t)
	right := newWorker(t, server, longLease)
	store := open(t, server.Connect(nats.SetCustomDialer(later(-2*time.Hour))), jetstream.Options{Lease: longLease})
	queue, err := jetstream.OpenQueue(t.Context(), store)
	require.NoError(t, err)
	added, err := queue.Add(t.Context(), runner.QueueEntry{RunID: "r", Program: echoID, Due: time.Now().Add(-time.Hour)}) // by the server's clock, it is due in an hour
	require.NoError(t, err)
	require.True(t, added)
	now, err := queue.Now(t.Context())
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now().Add(-2*time.Hour), now, time.Minute)
	due, parked, err := right.queue.Waiting(t.Context(), []runner.ProgramID{echoID})
	require.NoError(t, err)
	assert.Equal(t, 1, due+parked)
	require.NoError(t, right.take(t, echoID).Done(t.Context()), "the job is due by the clock of the server")
}

// The lease of a killed worker expires by the server's clock, even for a worker that has just
// started and has seen only one heartbeat of that lease. The server's clock seems to be an hour
// ahead.
func TestLeaseIsOverForAWorkerThatHasJustBegun(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	killed := open(t, server.Connect(), jetstream.Options{Lease: longLease})
	j := begin(t, killed, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	require.NoError(t, j.Sync(t.Context(), 1))

	early := open(t, server.Connect(), jetstream.Options{Lease: longLease})
	_, err := early.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.ErrorIs(t, err, snapshot.ErrLocked)
	late := open(t, server.Connect(nats.SetCustomDialer(later(time.Hour))), jetstream.Options{Lease: longLease})
	taken, err := late.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	assert.Equal(t, 1, taken.Restored().Len())
	require.NoError(t, taken.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	require.NoError(t, j.Append(storetest.Records(2, 1)...))
	require.ErrorIs(t, j.Sync(t.Context(), 2), snapshot.ErrFenced)
	_ = j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted})
}
