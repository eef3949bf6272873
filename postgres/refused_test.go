package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/postgres"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestWhatCannotBeOpenedSaysWhy(t *testing.T) {
	t.Parallel()
	schema := newSchema(t)
	ctx := t.Context()
	admin, err := pgx.Connect(ctx, serverURL(t))
	require.NoError(t, err)
	defer func() { _ = admin.Close(t.Context()) }()
	exec := func(statement string, args ...any) {
		t.Helper()
		_, err := admin.Exec(ctx, fmt.Sprintf(statement, args...))
		require.NoError(t, err)
	}
	in := pgx.Identifier{schema}.Sanitize()
	refused := func(o postgres.Options) error {
		t.Helper()
		s, err := postgres.Open(ctx, shared.pool, o)
		if err == nil {
			_ = s.Close()
			t.Fatal("it is opened")
		}
		return err
	}
	assert.ErrorContains(t, refused(postgres.Options{Schema: "a.b"}), `schema "a.b"; want 1 to 40 letters`)
	assert.ErrorContains(t, refused(postgres.Options{Lease: time.Millisecond}), "Lease is 1ms; want 1s or more")
	require.ErrorIs(t, refused(postgres.Options{Schema: "none"}), postgres.ErrSchemaOld)

	exec(`insert into %s.migrations (version) values (99)`, in)
	require.ErrorIs(t, refused(postgres.Options{Schema: schema}), postgres.ErrSchemaNew)
	require.ErrorIs(t, postgres.Migrate(ctx, admin, schema), postgres.ErrSchemaNew)
	exec(`delete from %s.migrations where version = 99`, in)

	exec(`revoke insert on %s.processes from reprise_app`, in)
	assert.ErrorContains(t, refused(postgres.Options{Schema: schema}), "the role lacks a privilege")
	exec(`grant insert on %s.processes to reprise_app`, in)

	for setting, want := range map[string]string{"default_transaction_read_only=on": "read-only", "synchronous_commit=off": "synchronous_commit is off"} {
		app, err := asApp(serverURL(t))
		require.NoError(t, err)
		pool, err := poolOf(app+"&options=-c%20"+setting, 2)
		require.NoError(t, err)
		_, err = postgres.Open(ctx, pool, postgres.Options{Schema: schema})
		assert.ErrorContains(t, err, want)
		pool.Close()
	}
	require.NoError(t, open(t, postgres.Options{Schema: schema}).Close())
}

// Of several who migrate at once, one does, and the others wait.
func TestMigrationsAreLocked(t *testing.T) {
	t.Parallel()
	url := serverURL(t)
	schema := fmt.Sprintf("migrated-%d", time.Now().UnixNano())
	done := make(chan error)
	for range 5 {
		go func() {
			conn, err := pgx.Connect(t.Context(), url)
			if err == nil {
				err = postgres.Migrate(t.Context(), conn, schema)
				_ = conn.Close(t.Context())
			}
			done <- err
		}()
	}
	for range 5 {
		require.NoError(t, <-done)
	}
}

// A backup was restored in which a run is older than what was confirmed, and another is not
// there: what is listed is what is there, and the queue has nothing else.
func TestARestoredBackupIsWhatCounts(t *testing.T) {
	t.Parallel()
	schema := newSchema(t)
	s := open(t, postgres.Options{Schema: schema, Mute: true})
	ctx := t.Context()
	j, err := s.Open(ctx, "run", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	require.NoError(t, j.Append(storetest.Records(1, 3)...))
	require.NoError(t, j.Sync(ctx, 3))
	require.NoError(t, j.Append(storetest.Records(4, 2)...))
	require.NoError(t, j.Sync(ctx, 5))
	admin, err := pgx.Connect(ctx, serverURL(t))
	require.NoError(t, err)
	defer func() { _ = admin.Close(t.Context()) }()
	in := pgx.Identifier{schema}.Sanitize()
	_, err = admin.Exec(ctx, fmt.Sprintf(`begin; delete from %[1]s.batches where last = 5; update %[1]s.runs set last_seq = 3; commit`, in))
	require.NoError(t, err)
	require.NoError(t, j.Append(storetest.Records(6, 1)...))
	require.ErrorIs(t, j.Sync(ctx, 6), snapshot.ErrFenced, "what came before is gone")
	_ = j.Close(ctx, snapshot.End{Status: snapshot.StatusCompleted})
	run, err := s.Load(ctx, "run")
	require.NoError(t, err)
	assert.Equal(t, 3, run.Len())

	_, err = s.Queue().Add(ctx, runner.Entry{RunID: "gone", Program: runner.ProgramID{Name: "p", Version: "1"}})
	require.NoError(t, err)
	r, err := runner.New(s, runner.Options{Queue: s.Queue()})
	require.NoError(t, err)
	runner.Register(r, programP)
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- r.Serve(serving) }()
	require.Eventually(t, func() bool {
		var jobs int
		err := admin.QueryRow(ctx, `select count(*) from `+in+`.jobs`).Scan(&jobs)
		return err == nil && jobs == 0
	}, patience, 10*time.Millisecond)
	stop()
	require.NoError(t, <-served)
	_, err = s.Info(ctx, "gone")
	require.ErrorIs(t, err, snapshot.ErrNotFound)
}

var programP = decorators.Agent("p", "", func(context.Context, struct{}) (string, error) { return "", nil })
