package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
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
			t.Fatal("the store was opened")
		}
		return err
	}
	assert.ErrorContains(t, refused(postgres.Options{Schema: "a.b"}), `schema "a.b"; want 1 to 40 letters`)
	assert.ErrorContains(t, refused(postgres.Options{Lease: time.Millisecond}), "Lease is 1ms; want 1s or more")
	err = refused(postgres.Options{Schema: "none"})
	require.ErrorIs(t, err, postgres.ErrSchemaOld)
	assert.ErrorContains(t, err, "schema none has no tables; create them with `reprise-postgres -store URL -schema none migrate`")

	exec(`insert into %s.migrations (version) values (99)`, in)
	require.ErrorIs(t, refused(postgres.Options{Schema: schema}), postgres.ErrSchemaNew)
	require.ErrorIs(t, postgres.Migrate(ctx, admin, schema), postgres.ErrSchemaNew)
	exec(`delete from %s.migrations where version = 99`, in)

	exec(`alter table %s.migrations rename to others`, in)
	require.ErrorIs(t, refused(postgres.Options{Schema: schema}), postgres.ErrSchemaOld)
	exec(`alter table %s.others rename to migrations; update %[1]s.migrations set version = 0`, in)
	err = refused(postgres.Options{Schema: schema})
	require.ErrorIs(t, err, postgres.ErrSchemaOld)
	assert.ErrorContains(t, err, "migrate it with `reprise-postgres -store URL -schema "+schema+" migrate`")
	exec(`update %s.migrations set version = 1`, in)

	exec(`revoke usage on schema %s from reprise_app`, in)
	assert.ErrorContains(t, refused(postgres.Options{Schema: schema}), "the role lacks a privilege")
	exec(`grant usage on schema %s to reprise_app`, in)
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

	exec(`create database latin encoding 'LATIN1' locale 'C' template template0`)
	defer exec(`drop database latin`)
	latin, err := poolOf(strings.Replace(serverURL(t), "/postgres?", "/latin?", 1), 2)
	require.NoError(t, err)
	defer latin.Close()
	require.NoError(t, postgres.Migrate(ctx, latin, ""))
	_, err = postgres.Open(ctx, latin, postgres.Options{})
	assert.ErrorContains(t, err, "the database has the encoding LATIN1; want UTF8")
}

// A pooler in transaction mode shares one connection among clients that have prepared different
// statements.
func TestPoolerThatForgetsPreparedStatementsIsNamed(t *testing.T) {
	t.Parallel()
	schema := newSchema(t)
	app, err := asApp(serverURL(t))
	require.NoError(t, err)
	pool, err := poolOf(app, 1)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s := openOn(t, pool, postgres.Options{Schema: schema, Mute: true})
	_, err = s.Info(t.Context(), "none")
	require.ErrorIs(t, err, snapshot.ErrNotFound)
	_, err = pool.Exec(t.Context(), `deallocate all`)
	require.NoError(t, err)
	_, err = s.Info(t.Context(), "none")
	require.ErrorContains(t, err, "add default_query_exec_mode=cache_describe to the pool's URL")
}

// Of several concurrent migrations, one migrates while the others wait.
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

var programP = decorators.Agent("p", "", func(context.Context, struct{}) (string, error) { return "", nil })
