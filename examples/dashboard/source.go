package main

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/streamer"
)

// storedRuns lets the dashboard read what its handler no longer keeps, or was
// not told of: an answer is written into a run that nobody has open.
type storedRuns struct{ store snapshot.Store }

func (s storedRuns) Runs(ctx context.Context, limit int) ([]streamer.RunInfo, error) {
	stored, err := s.store.List(ctx, snapshot.Filter{Limit: limit})
	infos := make([]streamer.RunInfo, len(stored))
	for i := range stored {
		infos[i] = infoOf(&stored[i])
	}
	return infos, err
}

func (s storedRuns) Run(ctx context.Context, runID string) (streamer.RunInfo, error) {
	run, err := s.load(ctx, runID)
	if err != nil {
		return streamer.RunInfo{}, err
	}
	return infoOf(&run.Info), nil
}

func (s storedRuns) Records(ctx context.Context, runID string, after uint64) iter.Seq2[core.Record, error] {
	return func(yield func(core.Record, error) bool) {
		run, err := s.load(ctx, runID)
		if err != nil {
			yield(core.Record{}, err)
			return
		}
		for _, rec := range run.Records {
			if rec.Seq > after && !yield(rec, nil) {
				return
			}
		}
	}
}

func (s storedRuns) load(ctx context.Context, runID string) (*snapshot.Snapshot, error) {
	run, err := s.store.Load(ctx, runID)
	if errors.Is(err, snapshot.ErrNotFound) {
		return nil, fmt.Errorf("%w: run %s", streamer.ErrNotFound, runID)
	}
	return run, err
}

func infoOf(i *snapshot.Info) streamer.RunInfo {
	return streamer.RunInfo{
		RunID: i.RunID, ParentID: i.ParentID, Status: string(i.Status),
		Description: i.Metadata.Description, Pipeline: i.Metadata.Pipeline, Tags: i.Metadata.Tags,
		Created: i.Created, Updated: i.Updated, LastSeq: i.LastSeq,
	}
}
