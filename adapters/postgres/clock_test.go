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
	"github.com/reprise-go/reprise/runner/queuetest"
)

// later returns a pool on whose connections the server's clock is ahead of this process's clock:
// functions in the given schema take precedence over the server's own.
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

func TestSchedulesFollowTheClockOfTheServer(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"clock_ahead": time.Hour, "clock_behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			schema := newSchema(t)
			store := openOn(t, later(t, name, ahead), postgres.Options{Schema: schema, Poll: 100 * time.Millisecond})
			stats := queuetest.RunAhead(t, store, store.Queue(), ahead, func(ctx context.Context, _ struct{}) (string, error) {
				return "", core.Sleep(ctx, time.Second)
			})
			assert.LessOrEqual(t, stats.Opened, int64(3), "the run is not opened repeatedly")
		})
	}
}
