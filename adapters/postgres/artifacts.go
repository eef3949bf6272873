package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// Put implements [snapshot.ArtifactStore]. An artifact is stored as one value, so its size is
// limited to 1 GB, or to less if the server does not have enough memory.
func (s *Store) Put(ctx context.Context, data []byte) (reference string, err error) {
	reference = storekit.Reference(data)
	_, err = storekit.Retry(ctx, func() (int, error) {
		n, err := s.db.change(ctx, `update reprise.artifacts set put = clock_timestamp() where ref = $1`, reference)
		if n > 0 || err != nil {
			return n, err
		}
		return s.db.change(ctx, `insert into reprise.artifacts (ref, data) values ($1, $2) on conflict (ref) do update set put = clock_timestamp()`,
			reference, append([]byte{}, data...))
	})
	if err != nil {
		return "", err
	}
	return reference, nil
}

// Get implements [snapshot.ArtifactStore].
func (s *Store) Get(ctx context.Context, reference string) ([]byte, error) {
	found, err := storekit.Retry(ctx, func() ([][]byte, error) {
		return query(ctx, s.db, pgx.RowTo[[]byte], `select data from reprise.artifacts where ref = $1`, storableText(reference))
	})
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf("%w: artifact %.80q", snapshot.ErrNotFound, reference)
	case storekit.Reference(found[0]) != reference:
		return nil, fmt.Errorf("%w: artifact %s: the stored data has a different hash", snapshot.ErrCorrupt, reference)
	}
	return found[0], nil
}

// GC removes the artifacts that no run refers to and that were last put more than grace ago, by the
// server's clock. It returns the number of artifacts it removed. Runs may continue in the meantime,
// in any process. If a run cannot be read, GC removes nothing, since the run may refer to any
// artifact.
//
// grace must be longer than the time from the beginning of Put until a record that names the
// artifact is stored; an hour is plenty. A fork names artifacts without putting them, so it must
// not begin while its original is being deleted.
func (s *Store) GC(ctx context.Context, grace time.Duration) (removed int, err error) {
	if grace < 0 {
		return 0, fmt.Errorf("postgres: the grace is %v; want 0 or more", grace)
	}
	old, err := query(ctx, s.db, pgx.RowTo[string], `select ref from reprise.artifacts where put < clock_timestamp() - $1::interval`, grace)
	if err != nil || len(old) == 0 {
		return 0, err
	}
	unused := make(map[string]bool, len(old))
	for _, reference := range old {
		unused[reference] = true
	}
	list := func() ([]string, error) { // List would read page by page, at different times
		return query(ctx, s.db, pgx.RowTo[string], `select id from reprise.runs`)
	}
	if err := storekit.ReadAll(list, func(runID string) error { return s.dropUsed(ctx, unused, runID) }); err != nil {
		return 0, fmt.Errorf("cannot determine which artifacts are in use: %w", err)
	}
	references := make([]string, 0, len(unused))
	for reference := range unused {
		references = append(references, reference)
	}
	return s.db.change(ctx, `delete from reprise.artifacts where ref = any($1::text[]) and put < clock_timestamp() - $2::interval`, references, grace)
}

// dropUsed removes from unused the artifacts that a run refers to.
func (s *Store) dropUsed(ctx context.Context, unused map[string]bool, runID string) error {
	for rec, err := range s.Records(ctx, runID, 0) {
		if err != nil {
			return err
		}
		for reference := range rec.Artifacts() {
			delete(unused, reference)
		}
	}
	return nil
}
