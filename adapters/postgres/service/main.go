package service

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/adapters/postgres/internal/storeurl"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/snapshot"
)

// Main is like Main in package runner/service, but adds the flag -store.
func Main(register func(*runner.Runner) error) {
	service.MainWith(service.Options{OpenStore: Open}, register)
}

// Open opens the store that a URL such as postgres://app@db/app?schema=runs names, for use in
// [service.Options]. It creates a separate pool for the store. done closes the store and the pool.
func Open(ctx context.Context, storeURL string) (store snapshot.Store, queue runner.Queue, done func() error, err error) {
	database, schema, err := storeurl.Parse(storeURL)
	if err != nil {
		return nil, nil, nil, err
	}
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the store: %w", err)
	}
	s, err := postgres.Open(ctx, pool, postgres.Options{Schema: schema})
	if err != nil {
		pool.Close()
		return nil, nil, nil, err
	}
	queue, done = s.Queue(), func() error {
		defer pool.Close()
		return s.Close()
	}
	return s, queue, done, nil
}
