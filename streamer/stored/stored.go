package stored

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
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
	infos := []streamer.RunInfo{}
	for info, err := range snapshot.Runs(ctx, s.store, snapshot.Filter{Limit: limit}) {
		if err != nil {
			return nil, err
		}
		infos = append(infos, infoOf(&info))
	}
	return infos, nil
}

// Run implements [streamer.Source].
func (s *Runs) Run(ctx context.Context, runID string) (streamer.RunInfo, error) {
	if snapshot.CheckRunID(runID) != nil {
		return streamer.RunInfo{}, streamer.ErrNotFound
	}
	info, err := s.store.Info(ctx, runID)
	return infoOf(&info), known(err)
}

// Records implements [streamer.Source].
func (s *Runs) Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for rec, err := range s.store.Records(ctx, runID, after) {
			if !yield(rec, known(err)) {
				return
			}
		}
	}
}

func infoOf(i *snapshot.Info) streamer.RunInfo {
	caller, _ := state.CallerOf(&i.Metadata)
	return streamer.RunInfo{
		RunID: i.RunID, ParentID: i.ParentID, CalledBy: caller.RunID, Status: string(i.Status), Stop: stopOf(i.Stop),
		Description: i.Metadata.Description, Pipeline: i.Metadata.Pipeline, Tags: i.Metadata.Tags,
		Created: i.Created, Updated: i.Updated, LastSeq: i.LastSeq, Usage: i.Usage,
	}
}

// Answered implements [streamer.Source].
func (s *Runs) Answered(ctx context.Context, runID string) ([]string, error) {
	waiting, err := s.store.Messages(ctx, runID)
	var ids []string
	for i := range waiting {
		if m := &waiting[i]; m.IsAnswer() {
			ids = append(ids, m.Record.Name)
		}
	}
	return ids, known(err)
}

// stopOf is nil where nothing is known.
func stopOf(s snapshot.Stop) *streamer.Stop {
	if s == (snapshot.Stop{}) {
		return nil
	}
	return &streamer.Stop{Reason: string(s.Reason), By: s.By, Message: s.Message}
}

// known makes the errors of a store those of a source.
func known(err error) error {
	if errors.Is(err, snapshot.ErrNotFound) {
		return fmt.Errorf("%w: %w", streamer.ErrNotFound, err)
	}
	return err
}
