package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/adapters/postgres/internal/pgserver"
	"github.com/reprise-go/reprise/internal/ports"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestAWrongURLSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	app, err := asApp(serverURL(t))
	require.NoError(t, err)
	free, err := ports.Free(1)
	require.NoError(t, err)
	for _, test := range []struct {
		url, want string
		passes    bool
	}{
		{fmt.Sprintf("postgres://app@127.0.0.1:%d/app", free[0]), "connection refused", true},
		{"postgres://app@host.invalid/app", "host.invalid", true},
		{strings.Replace(app, "reprise_app@", "nobody@", 1), `role "nobody" does not exist`, false},
		{strings.Replace(app, "/postgres?", "/nothing?", 1), `database "nothing" does not exist`, false},
	} {
		pool, err := poolOf(test.url, 2)
		require.NoError(t, err)
		_, err = postgres.Open(t.Context(), pool, postgres.Options{})
		require.ErrorContains(t, err, test.want, test.url)
		assert.Equal(t, test.passes, errors.Is(err, snapshot.ErrUnavailable), "%v", err)
		pool.Close()
	}
}

// opened returns a store with its own server, and an open run with three records.
func opened(t *testing.T) (*victim, *postgres.Store, snapshot.Journal) {
	t.Helper()
	serverURL(t)
	v := newVictim(t, rand.New(rand.NewPCG(1, 1)), time.Minute)
	s := v.work.Store.(*postgres.Store) //nolint:forcetypeassert // see newVictim
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	require.NoError(t, appendTo(t.Context(), j, 1, 3))
	return v, s, j
}

// appendTo appends n records, beginning with the number from, and waits until they are durable.
func appendTo(ctx context.Context, j snapshot.Journal, from uint64, n int) error {
	return errors.Join(j.Append(storetest.Records(from, n)...), j.Sync(ctx, from+uint64(n)-1))
}

// until repeats do until it succeeds. If it never does, the test fails with the last error.
func until(t *testing.T, do func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := do()
	for err != nil && ctx.Err() == nil {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
		err = do()
	}
	require.NoError(t, err)
}

// A full server does not store what it has refused, and keeps what it has confirmed.
func TestAFullServerLosesNothing(t *testing.T) {
	t.Parallel()
	v, s, j := opened(t)
	if v.small == "" {
		t.Skip("no file system can be mounted here")
	}
	remove := v.takeAllRoom()
	large := storetest.Records(4, 1)
	large[0].Detail = &record.Detail{Message: strings.Repeat("much ", 1<<20)}
	err := errors.Join(j.Append(large...), j.Sync(t.Context(), 4))
	require.ErrorIs(t, err, snapshot.ErrUnavailable)
	require.ErrorContains(t, err, "No space left on device")
	require.Error(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	remove()
	until(t, func() error { // after the end of the lease, if the run could not be closed
		j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{})
		if err != nil {
			return err
		}
		assert.Equal(t, 3, j.Restored().Len())
		return errors.Join(appendTo(t.Context(), j, 4, 1), j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	})
	run, err := s.Load(t.Context(), "run")
	require.NoError(t, err)
	assert.Equal(t, 4, run.Len())
}

// A replica can be read, but cannot be used for work until it is promoted.
func TestAReplicaIsRefusedAndTakesOverWhenItIsPromoted(t *testing.T) {
	t.Parallel()
	v, _, _ := opened(t)
	dir := v.dir + "-replica"
	if v.small != "" {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
	}
	free, err := ports.Free(1)
	require.NoError(t, err)
	v.backup(dir, true)
	replica, err := pgserver.Start(t.Context(), dir, free[0])
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(replica.Stop(), os.RemoveAll(dir))) })
	v.asAdmin(`alter system set synchronous_standby_names = '*'`, `select pg_reload_conf()`)

	app, err := asApp(replica.URL)
	require.NoError(t, err)
	pool, err := poolOf(app, 4)
	require.NoError(t, err)
	_, err = postgres.Open(t.Context(), pool, postgres.Options{})
	pool.Close()
	require.ErrorContains(t, err, "the database is read-only, for example because it is a replica")

	both := strings.Replace(v.app, "?", fmt.Sprintf(",127.0.0.1:%d/postgres?target_session_attrs=read-write&", free[0]), 1)
	both = strings.Replace(both, "/postgres,", ",", 1)
	pool, err = poolOf(both, 8)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s := openOn(t, pool, postgres.Options{Lease: time.Minute})
	j, err := s.Open(t.Context(), "over", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	require.NoError(t, appendTo(t.Context(), j, 1, 3))
	require.NoError(t, v.server.Kill())
	conn, err := pgx.Connect(t.Context(), replica.URL)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `select pg_promote()`)
	require.NoError(t, errors.Join(err, conn.Close(t.Context())))
	require.NoError(t, appendTo(t.Context(), j, 4, 2), "the writer continues with the server that took over")
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	run, err := s.Load(t.Context(), "over")
	require.NoError(t, err)
	assert.Equal(t, 5, run.Len())
	v.start() // the test's cleanups need a server
	v.asAdmin(`alter system reset synchronous_standby_names`, `select pg_reload_conf()`)
}

// The restored backup lacks some confirmed records of one run, and another run entirely. Afterwards
// only the runs in the backup are listed and queued.
func TestARestoredBackupIsWhatCounts(t *testing.T) {
	t.Parallel()
	v, s, j := opened(t)
	ctx := t.Context()
	backup := v.dir + "-backup"
	v.backup(backup, false)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(backup)) })
	forgotten := openOn(t, v.pool(8), postgres.Options{}) // its lease is not in the backup
	watching, stop := context.WithCancel(ctx)
	seen := make(chan snapshot.Change, 100)
	watched := make(chan error, 1)
	go func() {
		for event, err := range s.Watch(watching, snapshot.WatchOptions{}) {
			if err != nil {
				watched <- err
				return
			}
			seen <- event
		}
	}()
	require.NoError(t, appendTo(ctx, j, 4, 2))
	r, err := runner.New(s, runner.Options{Queue: s.Queue()})
	require.NoError(t, err)
	runner.Register(r, programP)
	_, err = r.Start(ctx, "p", "gone", struct{}{}, runner.StartOptions{})
	require.NoError(t, err)
	for event := range seen {
		if event.Info.RunID == "gone" {
			break
		}
	}

	require.NoError(t, v.server.Stop())
	require.NoError(t, os.Rename(v.dir+"/data", v.dir+"/lost"))
	require.NoError(t, os.Rename(backup+"/data", v.dir+"/data"))
	v.start()
	require.NoError(t, j.Append(storetest.Records(6, 1)...))
	err = j.Sync(ctx, 6)
	require.Error(t, err, "records from after the backup are lost")
	require.NotErrorIs(t, err, snapshot.ErrUnavailable)
	_ = j.Close(ctx, snapshot.End{Status: snapshot.StatusCompleted})
	assert.NotEqual(t, postgres.ProcessOf(forgotten), postgres.ProcessOf(openOn(t, v.pool(8), postgres.Options{})), "both processes are alive")
	run, err := s.Load(ctx, "run")
	require.NoError(t, err)
	assert.Equal(t, 3, run.Len())
	_, err = s.Info(ctx, "gone")
	require.ErrorIs(t, err, snapshot.ErrNotFound)
	page, err := s.List(ctx, snapshot.Filter{Count: true})
	require.NoError(t, err)
	assert.Equal(t, []string{"run"}, runIDs(page.Runs))
	for event := range seen { // a watcher that began before the restore is notified
		if event.Info.RunID == "gone" && event.Deleted {
			break
		}
	}
	stop()
	require.ErrorIs(t, <-watched, context.Canceled)

	_, err = s.Queue().Add(ctx, runner.QueueEntry{RunID: "gone", Program: runner.ProgramID{Name: "p", Version: "1"}})
	require.NoError(t, err)
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- r.Serve(serving) }()
	conn, err := pgx.Connect(ctx, v.server.URL)
	require.NoError(t, err)
	until(t, func() error {
		var jobs int
		err := conn.QueryRow(ctx, `select count(*) from reprise.jobs where run = 'gone'`).Scan(&jobs)
		if err == nil && jobs > 0 {
			err = errors.New("the job of a lost run exists")
		}
		return err
	})
	stop()
	require.NoError(t, errors.Join(<-served, conn.Close(ctx)))
}
