package sqlitestore

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func openTest(t *testing.T, file string, lease time.Duration) *Store {
	t.Helper()
	s, err := open(t.Context(), file, lease)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) snapshot.Store {
		return openTest(t, filepath.Join(t.TempDir(), "runs.db"), lease)
	})
}

func TestSharedStore(t *testing.T) {
	storetest.RunShared(t, func(t *testing.T) func() snapshot.Store {
		file := filepath.Join(t.TempDir(), "runs.db")
		return func() snapshot.Store { return openTest(t, file, lease) }
	})
}

func TestArtifacts(t *testing.T) {
	storetest.RunArtifacts(t, func(t *testing.T) snapshot.ArtifactStore {
		return openTest(t, filepath.Join(t.TempDir(), "runs.db"), lease)
	})
}

// A killed process does not renew its lease. The next process waits until the lease expires.
func TestStoreAfterACrash(t *testing.T) {
	storetest.RunCrash(t, func(t *testing.T) (snapshot.Store, func() snapshot.Store) {
		file := filepath.Join(t.TempDir(), "runs.db")
		killed := openTest(t, file, time.Second)
		return killed, func() snapshot.Store {
			killed.Store = nil
			killed.lease.Close()
			next := openTest(t, file, lease)
			awaitOver(t, next, killed.db.process.Load())
			return next
		}
	})
}

// awaitOver waits until the lease of a process has expired.
func awaitOver(t *testing.T, s *Store, process int64) {
	t.Helper()
	for isOver := false; !isOver; {
		err := s.db.pool.QueryRowContext(t.Context(), `SELECT expires <= ? FROM processes WHERE id = ?`, time.Now().UnixNano(), process).Scan(&isOver)
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestFencing(t *testing.T) {
	for range 10 {
		storetest.RunFencing(t, func(t *testing.T) (first, second snapshot.Store, takeAway func()) {
			file := filepath.Join(t.TempDir(), "runs.db")
			zombie, next := openTest(t, file, time.Hour), openTest(t, file, lease)
			return zombie, next, func() {
				if _, err := next.db.pool.ExecContext(t.Context(), `DELETE FROM processes WHERE id = ?`, zombie.db.process.Load()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A process that cannot renew its lease gives up its runs, and takes a new lease.
func TestALeaseThatIsNotRenewedIsLost(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "runs.db"), 300*time.Millisecond)
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.pool.ExecContext(t.Context(), `DELETE FROM processes`); err != nil {
		t.Fatal(err)
	}
	<-j.Lost()
	if err := j.Append(storetest.Records(1, 1)...); !errors.Is(err, snapshot.ErrLease) {
		t.Errorf("got %v, want ErrLease", err)
	}
	if err := j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}); !errors.Is(err, snapshot.ErrLease) {
		t.Errorf("Close: got %v, want ErrLease", err)
	}
	for err = snapshot.ErrUnavailable; errors.Is(err, snapshot.ErrUnavailable); { // until the process has a new lease
		j, err = s.Open(t.Context(), "run", snapshot.OpenOptions{})
	}
	if err == nil {
		err = errors.Join(j.Append(storetest.Records(1, 1)...), j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	}
	if err != nil {
		t.Error(err)
	}
}

// Processes that write at the same time wait for each other.
func TestConcurrentWritersDoNotFail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs.db")
	var writers sync.WaitGroup
	for n := range 8 {
		writers.Go(func() {
			for i := range 25 {
				s, err := Open(t.Context(), file)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := s.Put(t.Context(), fmt.Append(nil, n, i)); err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
}
