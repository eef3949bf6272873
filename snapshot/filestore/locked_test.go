package filestore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// Update has locked the run, but no process has it open.
func TestARunThatIsBeingUpdatedCountsAsClosed(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, s *filestore.Store) error{
		"open": func(t *testing.T, s *filestore.Store) error {
			j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{})
			if err != nil {
				return err
			}
			return closeAs(j, snapshot.StatusPaused)
		},
		"update": func(t *testing.T, s *filestore.Store) error {
			_, err := s.Update(t.Context(), "run", func(i *snapshot.Info) error {
				require.False(t, i.Open)
				require.True(t, i.Pinned, "this update comes after the other one")
				return nil
			})
			return err
		},
		"delete": func(t *testing.T, s *filestore.Store) error { return s.Delete(t.Context(), "run") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s := newFileStore(t, dir, filestore.WithPolling(time.Second))
				require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))
				other := newFileStore(t, dir, filestore.WithPolling(time.Second))
				used := make(chan error, 1)
				_, err := s.Update(t.Context(), "run", func(i *snapshot.Info) error {
					go func() { used <- use(t, other) }()
					synctest.Wait()
					i.Pinned = true
					return nil
				})
				require.NoError(t, err)
				require.NoError(t, <-used)
			})
		})
	}
}

// The update of a run does not end, for example because its disk hangs.
func TestAnOpeningDoesNotWaitForEver(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newFileStore(t, dir, filestore.WithPolling(time.Second))
		require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))
		_, err := s.Update(t.Context(), "run", func(*snapshot.Info) error {
			_, err := s.Open(t.Context(), "run", snapshot.OpenOptions{})
			require.ErrorIs(t, err, snapshot.ErrLocked)
			return nil
		})
		require.NoError(t, err)
	})
}
