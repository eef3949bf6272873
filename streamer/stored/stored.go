package stored

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/streamer"
)

// Runs are the runs of a store, as a [streamer.Source]. They are for many
// goroutines, and there is nothing to close.
type Runs struct{ store snapshot.Store }

// New returns the runs of the store.
func New(store snapshot.Store) *Runs { return &Runs{store} }

var _ streamer.Source = (*Runs)(nil)

// Runs implements [streamer.Source].
func (s *Runs) Runs(ctx context.Context, limit int) ([]streamer.RunInfo, error) {
	found, err := s.store.List(ctx, snapshot.Filter{Limit: limit})
	if err != nil {
		return nil, err
	}
	infos := make([]streamer.RunInfo, len(found))
	for i := range found {
		infos[i] = infoOf(&found[i])
	}
	return infos, nil
}

// informed is a store that knows of a run without reading its records.
type informed interface {
	Info(ctx context.Context, runID string) (snapshot.Info, error)
}

// Run implements [streamer.Source].
func (s *Runs) Run(ctx context.Context, runID string) (streamer.RunInfo, error) {
	if snapshot.CheckRunID(runID) != nil {
		return streamer.RunInfo{}, streamer.ErrNotFound
	}
	if store, ok := s.store.(informed); ok {
		info, err := store.Info(ctx, runID)
		return infoOf(&info), known(err)
	}
	found, err := s.store.Load(ctx, runID)
	if err != nil {
		return streamer.RunInfo{}, known(err)
	}
	return infoOf(&found.Info), nil
}

// Records implements [streamer.Source].
func (s *Runs) Records(ctx context.Context, runID string, after uint64) iter.Seq2[core.Record, error] {
	return func(yield func(core.Record, error) bool) {
		found, err := s.store.Load(ctx, runID)
		if err != nil {
			yield(core.Record{}, known(err))
			return
		}
		for _, rec := range found.Records {
			if rec.Seq > after && !yield(rec, nil) {
				return
			}
		}
	}
}

func infoOf(i *snapshot.Info) streamer.RunInfo {
	return streamer.RunInfo{
		RunID: i.RunID, ParentID: i.ParentID, Status: string(i.Status),
		Description: i.Metadata.Description, Pipeline: i.Metadata.Pipeline, Tags: i.Metadata.Tags,
		Created: i.Created, Updated: i.Updated, LastSeq: i.LastSeq,
	}
}

// known makes the errors of a store those of a source.
func known(err error) error {
	if errors.Is(err, snapshot.ErrNotFound) {
		return fmt.Errorf("%w: %w", streamer.ErrNotFound, err)
	}
	return err
}
