package jetstream_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// create creates a closed run.
func create(t testing.TB, s *jetstream.Store, id string, status snapshot.Status, due time.Time) {
	t.Helper()
	run, err := snapshot.NewRun(snapshot.Info{RunID: id, Status: status, Due: due, Created: time.Now()}, nil)
	require.NoError(t, err)
	_, err = s.Create(t.Context(), run)
	require.NoError(t, err)
}

func ids(page snapshot.Page) []string {
	var all []string
	for i := range page.Runs {
		all = append(all, page.Runs[i].RunID)
	}
	slices.Sort(all)
	return all
}

// sweeping returns the filter that a sweep uses.
func sweeping() snapshot.Filter {
	return snapshot.Filter{DueBy: time.Now(), Status: []snapshot.Status{
		snapshot.StatusQueued, snapshot.StatusPaused, snapshot.StatusInterrupted, snapshot.StatusRunning,
	}}
}

// TestListsReadWhatTheyShow checks that a sweep does not read runs that have ended or are waiting,
// and that a list of one status does not read runs with another status.
func TestListsReadWhatTheyShow(t *testing.T) {
	t.Parallel()
	conn := jstest.Start(t).Connect()
	s := open(t, conn, jetstream.Options{Lease: longLease})
	now := time.Now()
	for i := range 600 {
		create(t, s, fmt.Sprint("ended", i), snapshot.StatusCompleted, time.Time{})
		create(t, s, fmt.Sprint("parked", i), snapshot.StatusPaused, now.Add(48*time.Hour))
		create(t, s, fmt.Sprint("asks", i), snapshot.StatusPaused, time.Time{})
	}
	create(t, s, "failed", snapshot.StatusFailed, time.Time{})
	create(t, s, "queued", snapshot.StatusQueued, time.Time{})
	create(t, s, "later", snapshot.StatusQueued, now.Add(48*time.Hour))
	create(t, s, "due", snapshot.StatusPaused, now.Add(-time.Minute))
	create(t, s, "overdue", snapshot.StatusPaused, now.AddDate(-1, -1, -1))
	create(t, s, "interrupted", snapshot.StatusInterrupted, time.Time{})
	require.NoError(t, s.Post(t.Context(), "asks7", storetest.Answer("asks7?1", "yes")))
	require.NoError(t, s.Post(t.Context(), "asks8", storetest.Answer("asks8?1", "yes")))
	m, err := s.Messages(t.Context(), "asks8")
	require.NoError(t, err)
	require.NoError(t, s.Remove(t.Context(), "asks8", m[0].ID()))
	j := begin(t, s, snapshot.OpenOptions{Create: true})
	for i := range 600 {
		create(t, s, fmt.Sprint("also", i), snapshot.StatusCompleted, time.Time{})
	}
	list := func(f snapshot.Filter) (listed []string, messages uint64) {
		before := conn.Stats().InMsgs
		page, err := s.List(t.Context(), f)
		require.NoError(t, err)
		return ids(page), conn.Stats().InMsgs - before
	}
	due, messages := list(sweeping())
	assert.Equal(t, []string{"asks7", "due", "interrupted", "overdue", "queued", "run"}, due)
	assert.Less(t, messages, uint64(60))
	for _, test := range []struct {
		status snapshot.Status
		want   []string
	}{
		{snapshot.StatusFailed, []string{"failed"}},
		{snapshot.StatusQueued, []string{"later", "queued"}},
		{snapshot.StatusRunning, []string{"run"}},
		{snapshot.StatusInterrupted, []string{"interrupted"}},
	} {
		for _, f := range []snapshot.Filter{{}, {Limit: 50}, {Sort: snapshot.SortCreated, Limit: 50}} {
			f.Status = []snapshot.Status{test.status}
			listed, messages := list(f)
			assert.Equal(t, test.want, listed)
			assert.Less(t, messages, uint64(60), "%+v", f)
		}
	}
	before := conn.Stats().InMsgs
	page, err := s.List(t.Context(), snapshot.Filter{Limit: 1, Count: true})
	require.NoError(t, err)
	assert.Less(t, conn.Stats().InMsgs-before, uint64(200), "of 2,408 runs")
	assert.Equal(t, map[snapshot.Status]int{
		snapshot.StatusCompleted: 1200, snapshot.StatusPaused: 1202, snapshot.StatusFailed: 1,
		snapshot.StatusQueued: 2, snapshot.StatusInterrupted: 1, snapshot.StatusRunning: 1,
	}, page.Counts)
	page, err = s.List(t.Context(), snapshot.Filter{Limit: 1, Count: true, Text: "also7"})
	require.NoError(t, err)
	assert.Equal(t, map[snapshot.Status]int{snapshot.StatusCompleted: 11}, page.Counts)

	_, messages = list(snapshot.Filter{Status: []snapshot.Status{snapshot.StatusCompleted}, Limit: 50})
	assert.Less(t, messages, uint64(200))
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
}

// TestRunIsListedOnceAfterItsProcessWasKilledWhileItMoved moves a run in the index, from one status
// to another. Instead of killing the process, it uses a user that is not allowed to remove the old
// message.
func TestRunIsListedOnceAfterItsProcessWasKilledWhileItMoved(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t, withConfig(t, authorization(user(t, "some", jetstream.RoleWorker, "$JS.API.STREAM.MSG.DELETE.RPI_reprise"))))
	conn := server.Connect(nats.UserInfo("root", "secret"))
	s := open(t, conn, jetstream.Options{Lease: lease})
	js, err := njs.New(conn)
	require.NoError(t, err)
	_, err = jetstream.OpenQueue(t.Context(), s)
	require.NoError(t, err)
	killed := func(do func(*jetstream.Store)) {
		conn := server.Connect(nats.UserInfo("some", "secret"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		some, err := jetstream.Open(t.Context(), conn, jetstream.Options{Lease: lease})
		require.NoError(t, err)
		do(some)
		require.NoError(t, some.Close())
	}
	listed := func(status ...snapshot.Status) string {
		page, err := s.List(t.Context(), snapshot.Filter{Status: status})
		require.NoError(t, err)
		return strings.Join(ids(page), " ")
	}
	messages := func() uint64 {
		stream, err := js.Stream(t.Context(), "RPI_reprise")
		require.NoError(t, err)
		return stream.CachedInfo().State.Msgs
	}

	create(t, s, "cancelled", snapshot.StatusPaused, time.Time{})
	killed(func(some *jetstream.Store) {
		_, err := some.Update(t.Context(), "cancelled", func(i *snapshot.Info) error { i.Status = snapshot.StatusCancelled; return nil })
		require.NoError(t, err)
	})
	require.EqualValues(t, 2, messages(), "the run is in the index twice")
	assert.Empty(t, listed(snapshot.StatusPaused))
	assert.Equal(t, "cancelled", listed(snapshot.StatusCancelled))
	assert.Equal(t, "cancelled", listed())
	require.Eventually(t, func() bool { return messages() == 1 }, patience, 10*time.Millisecond, "listing the run corrects the index")

	create(t, s, "ended", snapshot.StatusQueued, time.Time{})
	killed(func(some *jetstream.Store) {
		j, err := some.Open(t.Context(), "ended", snapshot.OpenOptions{})
		require.NoError(t, err)
		require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	})
	require.EqualValues(t, 3, messages())
	assert.Equal(t, "cancelled ended", listed())
	require.Eventually(t, func() bool { // the process may end without a last heartbeat
		_, err := s.List(t.Context(), sweeping())
		return assert.NoError(t, err) && messages() == 2
	}, patience, 10*time.Millisecond)
	assert.Empty(t, listed(snapshot.StatusQueued, snapshot.StatusRunning))

	create(t, s, "again", snapshot.StatusQueued, time.Time{})
	killed(func(some *jetstream.Store) {
		j, err := some.Open(t.Context(), "again", snapshot.OpenOptions{})
		require.NoError(t, err)
		require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusFailed}))
	})
	r, err := s.Repair(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, r.Shown)
	assert.EqualValues(t, 3, messages())
}

// TestReadOnlyDashboardOpensAStoreThatNeedsRepair opens a store that the dashboard is not allowed
// to correct. A worker corrects it later.
func TestReadOnlyDashboardOpensAStoreThatNeedsRepair(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t, withConfig(t, authorization(user(t, "some", jetstream.RoleDashboard, ""))))
	conn := server.Connect(nats.UserInfo("root", "secret"))
	s := open(t, conn, jetstream.Options{Lease: longLease})
	create(t, s, "r", snapshot.StatusQueued, time.Time{})
	_, err := conn.Request("$JS.API.STREAM.PURGE.RPI_reprise", nil, time.Minute)
	require.NoError(t, err)
	shown := open(t, server.Connect(nats.UserInfo("some", "secret"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})), jetstream.Options{Lease: longLease})
	page, err := shown.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	assert.Empty(t, page.Runs)
	open(t, conn, jetstream.Options{Lease: longLease})
	page, err = shown.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	assert.Equal(t, []string{"r"}, ids(page))
}

// TestDamagedMessageOfTheIndexIsReportedAtOnce expects an immediate error, since reading the
// message again would not help.
func TestDamagedMessageOfTheIndexIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	conn := jstest.Start(t).Connect()
	s := open(t, conn, jetstream.Options{Lease: longLease})
	require.NoError(t, conn.Publish("rpi.reprise.active.0.0.0.0.run", []byte("damaged")))
	require.NoError(t, conn.Flush())
	ctx, cancel := context.WithTimeout(t.Context(), longLease)
	defer cancel()
	_, err := s.Repair(ctx)
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
	require.NotErrorIs(t, err, snapshot.ErrUnavailable)
	_, err = s.List(ctx, sweeping())
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
	require.NotErrorIs(t, err, snapshot.ErrUnavailable)
	require.NoError(t, ctx.Err())
}
