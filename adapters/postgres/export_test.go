package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// TakeAway ends the lease of a process that goes on as if nothing had happened.
func TakeAway(ctx context.Context, zombie, by *Store) error {
	_, err := by.db.change(ctx, `delete from reprise.processes where id = $1`, zombie.db.process.Load())
	return err
}

// Crash ends what a store does in the background, as if its process was killed.
func Crash(s *Store) {
	s.stop()
	s.lease.Close()
	s.wait.Wait()
	s.closed.Do(func() {})
}

// AwaitOver waits until the lease of a process is over.
func AwaitOver(ctx context.Context, s, killed *Store) error {
	for {
		n, err := s.db.change(ctx, `select from reprise.processes where id = $1 and expires > clock_timestamp()`, killed.db.process.Load())
		if err != nil || n == 0 {
			return err
		}
	}
}

// ProcessOf is the number of the lease of a process.
func ProcessOf(s *Store) int64 { return s.db.process.Load() }

// Reap frees what expired leases have held.
func Reap(ctx context.Context, s *Store) (int, error) { return s.reap(ctx) }

// OpenFaulty opens a store of which each statement fails as next says.
func OpenFaulty(ctx context.Context, pool *pgxpool.Pool, o Options, next func() storetest.Fault) (*Store, error) {
	return open(ctx, pool, o, func(d *database) storekit.Backend { return storetest.OnBadConnection(d, next) })
}

// SetFew has a store take so many runs for few.
func SetFew(s *Store, few int) { s.db.few = few }

// Words are the texts that are searched of a run, as they are stored.
func Words(i *snapshot.Info) string { return words(i) }
