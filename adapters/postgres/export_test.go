package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// TakeAway ends a process's lease without the process noticing.
func TakeAway(ctx context.Context, zombie, by *Store) error {
	_, err := by.db.change(ctx, `delete from reprise.processes where id = $1`, zombie.db.process.Load())
	return err
}

// Crash ends the background work of a store, as if its process had been killed.
func Crash(s *Store) {
	s.stop()
	s.lease.Close()
	s.wait.Wait()
	s.closed.Do(func() {})
}

// Expire makes a killed process's lease expire now, by the server's clock.
func Expire(ctx context.Context, s, killed *Store) error {
	_, err := s.db.change(ctx, `update reprise.processes set expires = clock_timestamp() where id = $1`, killed.db.process.Load())
	return err
}

// ProcessOf returns the lease ID of a process.
func ProcessOf(s *Store) int64 { return s.db.process.Load() }

// Reap frees the jobs of expired leases.
func Reap(ctx context.Context, s *Store) (int, error) { return s.reap(ctx) }

// OpenFaulty opens a store. It calls next for each statement, to learn how the statement fails.
func OpenFaulty(ctx context.Context, pool *pgxpool.Pool, o Options, next func() storetest.Fault) (*Store, error) {
	return open(ctx, pool, o, func(d *database) storekit.Backend { return storetest.OnBadConnection(d, next) })
}

// SetMaxSorted replaces the constant maxSorted for one store.
func SetMaxSorted(s *Store, n int) { s.db.maxSorted = n }

// Words returns a run's searched texts, in the form in which they are stored.
func Words(i *snapshot.Info) string { return searchedText(i) }
