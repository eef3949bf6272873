package filestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/snapshot"
)

// List implements [snapshot.Reader]. It reads the meta file of each run, and
// the records only of those whose process has ended without closing them. A run
// that is damaged or cannot be read is listed with its ID, as interrupted; Load
// says what is wrong, and so do the warnings.
func (s *Store) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	if err := context.Cause(ctx); err != nil {
		return snapshot.Page{}, err
	}
	ids, err := s.runIDs()
	if err != nil {
		return snapshot.Page{}, fmt.Errorf("snapshot: list: %w", err)
	}
	var all []snapshot.Info
	for _, id := range ids {
		if err := context.Cause(ctx); err != nil {
			return snapshot.Page{}, err
		}
		info, err := s.about(ctx, id)
		switch {
		case err == nil:
			all = append(all, info)
		case errors.Is(err, snapshot.ErrNotFound):
		case ctx.Err() != nil:
			return snapshot.Page{}, context.Cause(ctx)
		default:
			s.warn(id, err)
			all = append(all, snapshot.Info{RunID: id, Status: snapshot.StatusInterrupted})
		}
	}
	return f.Page(all)
}

// runIDs are those of the directories of runs. Links are none.
func (s *Store) runIDs() ([]string, error) {
	entries, err := s.disk.ReadDir(s.path("runs"))
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if id, ok := runIDOf(e.Name()); ok && e.IsDir() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
