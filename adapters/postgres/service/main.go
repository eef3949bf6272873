package service

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/snapshot"
)

// Main is service.Main of package runner/service, with the flag -store.
func Main(register func(*runner.Runner) error) {
	service.MainWith(service.Options{OpenStore: Open}, register)
}

// Open opens the store of a URL such as postgres://app@db/app?schema=runs, with a pool of
// its own, for [service.Options]. done closes both.
func Open(ctx context.Context, storeURL string) (store snapshot.Store, queue runner.Queue, done func() error, err error) {
	u, err := url.Parse(storeURL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" { // an error of Parse may show a password
		return nil, nil, nil, errors.New("the URL of the store is not a PostgreSQL URL; want one such as postgres://app@db/app")
	}
	parameters := u.Query()
	schema := parameters.Get("schema")
	parameters.Del("schema")
	u.RawQuery = parameters.Encode()
	pool, err := pgxpool.New(ctx, u.String())
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
