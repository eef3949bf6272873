package snapshot

import (
	"context"
	"errors"
)

// Info returns what List says of one run; ErrNotFound if there is none.
func (s *FileStore) Info(ctx context.Context, runID string) (Info, error) {
	if err := check(ctx, runID); err != nil {
		return Info{}, err
	}
	info, err := s.about(ctx, runID)
	if errors.Is(err, ErrNotFound) {
		return Info{}, noRun(runID)
	}
	return info, err
}

// Info returns what List says of one run; ErrNotFound if there is none.
func (s *MemoryStore) Info(ctx context.Context, runID string) (Info, error) {
	found, err := s.Load(ctx, runID)
	if err != nil {
		return Info{}, err
	}
	return found.Info, nil
}
