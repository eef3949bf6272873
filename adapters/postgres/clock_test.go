package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

// later returns a pool for whose connections the clock of the server is ahead of that of
// this process by as much: functions of a schema of that name come before those of the
// server.
func later(t *testing.T, schema string, by time.Duration) *pgxpool.Pool {
	t.Helper()
	in := pgx.Identifier{schema}.Sanitize()
	shift := `interval '` + by.String() + `'`
	shared.mu.Lock()
	_, err := shared.admin.Exec(t.Context(), `create schema `+in+`;
		create function `+in+`.clock_timestamp() returns timestamptz volatile language sql as 'select pg_catalog.clock_timestamp() + `+quoted(shift)+`';
		create function `+in+`.now() returns timestamptz stable language sql as 'select pg_catalog.now() + `+quoted(shift)+`';
		grant usage on schema `+in+` to reprise_app`)
	shared.mu.Unlock()
	require.NoError(t, err)
	config := shared.pool.Config()
	config.ConnConfig.RuntimeParams["search_path"] = in + ", pg_catalog"
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func quoted(s string) string {
	out := ""
	for _, c := range s {
		if c == '\'' {
			out += "'"
		}
		out += string(c)
	}
	return out
}

// TestScheduleFollowsTheClockOfTheServer, for a worker that is an hour behind, and one that
// is an hour ahead; and what is due is due by that clock, too.
func TestScheduleFollowsTheClockOfTheServer(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"clock_ahead": time.Hour, "clock_behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			schema := newSchema(t)
			store := openOn(t, later(t, name, ahead), postgres.Options{Schema: schema, Poll: 100 * time.Millisecond})
			r, err := runner.New(store, runner.Options{Queue: store.Queue(), ParkAfter: time.Millisecond})
			require.NoError(t, err)
			nap := runner.Register(r, decorators.Agent("nap", "", func(ctx context.Context, in struct{}) (string, error) {
				return "", core.Sleep(ctx, time.Second)
			}))
			here := time.Now().Add(2 * time.Second).Truncate(time.Second)
			require.NoError(t, nap.Schedule(struct{}{}, runner.Schedule{Name: "here", At: here}))
			require.NoError(t, nap.Schedule(struct{}{}, runner.Schedule{Name: "server", At: here.Add(ahead).Add(2 * time.Second)}))
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- r.Serve(ctx) }()
			defer func() {
				cancel()
				assert.NoError(t, <-served)
			}()
			id := "server-" + here.Add(ahead).Add(2*time.Second).UTC().Format("20060102T150405Z")
			awaitCompleted(t, store, id)
			_, err = r.Info(t.Context(), "here-"+here.UTC().Format("20060102T150405Z"))
			require.ErrorIs(t, err, snapshot.ErrNotFound, "its time is over, or has not come")
			assert.LessOrEqual(t, r.Stats().Began, int64(3), "it is not opened again and again")
		})
	}
}

// awaitCompleted waits until a run has completed.
func awaitCompleted(t *testing.T, store *postgres.Store, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for event, err := range store.Watch(ctx, snapshot.WatchOptions{}) {
		require.NoError(t, err)
		if event.Info.RunID == id && event.Info.Status == snapshot.StatusCompleted {
			return
		}
	}
	t.Fatalf("run %s was not completed", id)
}
