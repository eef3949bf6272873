package service_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/adapters/postgres/internal/pgserver/pgtest"
	"github.com/reprise-go/reprise/adapters/postgres/service"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

func Example() {
	_, _, _, err := service.Open(context.Background(), "mysql://app@db/app")
	fmt.Println(err)
	// Output: the URL of the store is not a PostgreSQL URL; want one such as postgres://app@db/app
}

func TestStoreOfAURLHasItsSchema(t *testing.T) {
	url := pgtest.Start(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	require.NoError(t, postgres.Migrate(t.Context(), conn, "mine"))
	_, _, _, err = service.Open(t.Context(), url)
	require.ErrorIs(t, err, postgres.ErrSchemaOld)
	store, queue, done, err := service.Open(t.Context(), url+"&schema=mine")
	require.NoError(t, err)
	run, err := snapshot.NewRun(snapshot.Info{RunID: "run", Status: snapshot.StatusQueued}, nil)
	require.NoError(t, err)
	_, err = store.Create(t.Context(), run)
	require.NoError(t, err)
	added, err := queue.Add(t.Context(), runner.QueueEntry{RunID: "run"})
	require.NoError(t, err)
	assert.True(t, added)
	require.NoError(t, done())
}

func TestAPasswordIsNotShown(t *testing.T) {
	for _, url := range []string{"postgres://app:secret@%zz/app", "http://app:secret@db/app", "postgres://app:secret@127.0.0.1:1/app"} {
		_, _, _, err := service.Open(t.Context(), url)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "secret")
	}
}
