package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	storepostgres "github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/state"
)

// newPostgresStores returns n stores that use the same new database and share a pool. The function
// end closes the stores and the pool.
func newPostgresStores(ctx context.Context, n int) (stores []*storepostgres.Store, end func() error, err error) {
	pool, err := newDatabase(ctx)
	if err != nil {
		return nil, nil, err
	}
	end = func() error {
		var errs []error
		for _, s := range stores {
			errs = append(errs, s.Close())
		}
		pool.Close()
		return errors.Join(errs...)
	}
	if err := storepostgres.Migrate(ctx, pool, ""); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	for range n {
		s, err := storepostgres.Open(ctx, pool, storepostgres.Options{})
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		stores = append(stores, s)
	}
	return stores, end, nil
}

// openPostgres opens runners on a new database, which also contains their
// queue.
func openPostgres(agent agentOf, workers int) opener {
	return func(ctx context.Context, runs int, handled func()) (service, error) {
		stores, end, err := newPostgresStores(ctx, workers)
		if err != nil {
			return service{}, err
		}
		var all []worker
		for _, s := range stores {
			all = append(all, worker{s, s.Queue(), func() error { return nil }})
		}
		all[workers-1].close = end
		return serve(ctx, runs, agent(handled), all...)
	}
}

// startDurablePostgres makes calls in a run that is stored in a database.
func startDurablePostgres(parallel int) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		n, err := bytesOfCall()
		if err != nil {
			return broken(err)
		}
		stores, end, err := newPostgresStores(ctx, 1)
		if err != nil {
			return broken(err)
		}
		d, err := openRunIn(ctx, stores[0], state.SyncOutcomes)
		if err != nil {
			return broken(errors.Join(err, end()))
		}
		d.end = end
		return d.instance(w, parallel, n)
	}
}

// startInserts inserts a row for each call, each in its own transaction.
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
