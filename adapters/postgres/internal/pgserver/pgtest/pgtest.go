// Package pgtest starts servers for tests.
package pgtest

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/reprise-go/reprise/adapters/postgres/internal/pgserver"
	"github.com/reprise-go/reprise/internal/ports"
)

// Start starts a server that runs until the end of the test, and returns its URL for the superuser.
// If PostgreSQL is not installed, the test is skipped.
func Start(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "reprise-postgres") //nolint:usetesting // other users must be able to access it
	if err != nil {
		t.Fatal(err)
	}
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := pgserver.Start(context.Background(), dir, free[0]) //nolint:usetesting // the server must still be running during cleanups
	if errors.Is(err, pgserver.ErrNotInstalled) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Stop(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return s.URL
}
