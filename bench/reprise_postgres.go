package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	storepostgres "github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/state"
)

// newPostgresStore is a store in an empty database.
func newPostgresStore(ctx context.Context) (*storepostgres.Store, func() error, error) {
	pool, err := newDatabase(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := storepostgres.Migrate(ctx, pool, ""); err != nil {
		return nil, nil, err
	}
	store, err := storepostgres.Open(ctx, pool, storepostgres.Options{})
	return store, func() error {
		err := store.Close()
		pool.Close()
		return err
	}, err
}

// openRunnerOnPostgres is a runner on a database, with its queue.
func openRunnerOnPostgres(agent func(handled func()) runner.Actor[int, int]) func(context.Context, func()) (service, error) {
	return func(ctx context.Context, handled func()) (service, error) {
		store, end, err := newPostgresStore(ctx)
		if err != nil {
			return service{}, err
		}
		return serve(ctx, store, store.Queue(), agent(handled), end)
	}
}

// startDurablePostgres makes calls in a run in a database.
func startDurablePostgres(parallel int) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		n, err := bytesOfCall()
		if err != nil {
			return broken(err)
		}
		store, end, err := newPostgresStore(ctx)
		if err != nil {
			return broken(err)
		}
		d, err := openRunIn(ctx, store, state.SyncOutcomes)
		if err != nil {
			return broken(errors.Join(err, end()))
		}
		d.end = end
		return d.instance(w, parallel, n)
	}
}

// startInserts inserts a row for each call, in a transaction of its own.
func startInserts(parallel int) func(context.Context, *work) instance {
	return startKeeper(func(_ string, data []byte) (keeper, error) {
		ctx := context.Background()
		pool, err := newDatabase(ctx)
		if err != nil {
			return keeper{}, err
		}
		if _, err := pool.Exec(ctx, "CREATE TABLE steps (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, data bytea NOT NULL)"); err != nil {
			return keeper{}, err
		}
		return inserter(ctx, pool, data), nil
	}, parallel)
}

func inserter(ctx context.Context, pool *pgxpool.Pool, data []byte) keeper {
	return keeper{
		keep: func(int64) error {
			_, err := pool.Exec(ctx, "INSERT INTO steps (data) VALUES ($1)", data)
			return err
		},
		kept: func() (int, error) {
			rows, err := pool.Query(ctx, "SELECT count(*)::int FROM steps")
			if err != nil {
				return 0, err
			}
			return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
		},
		close: func() error {
			pool.Close()
			return nil
		},
	}
}
