package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/internal/durable"
	"github.com/reprise-go/reprise/internal/needed"
	"github.com/reprise-go/reprise/snapshot"
)

// Retention sets which runs are removed from the store. A run can be removed only if a runner
// started it, it has completed or failed or was cancelled, it is not pinned, and nothing will read
// it anymore. This means that the run that called it (see [Call]) must have ended too, and also the
// later turns of its conversation. Since a later turn that failed may be retried, the earlier turns
// are kept as long as that turn is. A run that can be removed is removed if it exceeds one of the
// limits, or if its own time limit (snapshot.Info.Expires) has passed. The zero Retention sets no
// limits.
//
// If a run is pinned, resumed or replaced after retention has listed it, the run is kept, unless
// the change happens at the very moment at which it is removed.
type Retention struct {
	Age   time.Duration // maximum time since the run ended; 0 means no limit
	Runs  int           // maximum number of ended runs, keeping the latest; 0 for no limit
	Bytes int64         // maximum total size of the records of these runs; 0 for no limit

	// Archive is called with each run before the run is removed, for one run at a time. It must write
	// durably, since the run may be gone as soon as it returns. If Archive returns an error, the run
	// is kept. If Archive is nil, runs are not archived. See [ArchiveTo].
	Archive func(ctx context.Context, run *snapshot.Run) error

	// Every is the interval at which the store is searched. Defaults to 10 minutes.
	Every time.Duration
}

func (p *Retention) check() error {
	switch {
	case p.Age < 0:
		return fmt.Errorf("runner: Retention.Age is %v; want 0 or more", p.Age)
	case p.Runs < 0:
		return fmt.Errorf("runner: Retention.Runs is %d; want 0 or more", p.Runs)
	case p.Bytes < 0:
		return fmt.Errorf("runner: Retention.Bytes is %d; want 0 or more", p.Bytes)
	case p.Every < 0:
		return fmt.Errorf("runner: Retention.Every is %v; want more than 0, or 0 for the default, 10m", p.Every)
	}
	return nil
}

// ArchiveTo returns a function that writes a run to the file <run ID>.reprise in dir, which is
// created if it does not exist. The file has the format that `reprise export --format msgpack`
// writes and `reprise import` reads. Artifacts remain in the store.
func ArchiveTo(dir string) func(context.Context, *snapshot.Run) error {
	return func(_ context.Context, run *snapshot.Run) error {
		if err := durable.MkdirAll(dir); err != nil {
			return err
		}
		return run.WriteFile(filepath.Join(dir, run.RunID+".reprise"))
	}
}

// retainLoop removes runs until ctx ends.
func (r *Runner) retainLoop(ctx context.Context) {
	timer := time.NewTimer(min(r.options.Retention.Every, time.Minute))
	defer timer.Stop()
	sizes := make(map[string]sizeAt)
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		looked, err := r.retain(ctx, sizes)
		if err != nil && ctx.Err() == nil {
			r.observe(Notice{Type: NoticeTrouble, Err: fmt.Errorf("runner: retention: %w", err)})
		}
		timer.Reset(max(r.options.Retention.Every, 20*looked))
	}
}

// retain removes the runs that currently exceed a limit. It returns how long it took to list the
// ended runs, since the time that it takes to remove runs should not delay the next search. sizes
// contains the sizes of runs from earlier calls of retain.
func (r *Runner) retain(ctx context.Context, sizes map[string]sizeAt) (looked time.Duration, err error) {
	began := time.Now()
	var ended []*snapshot.Info // the runs that ended last come first
	for info, err := range snapshot.Runs(ctx, r.store, snapshot.Filter{Status: []snapshot.Status{
		snapshot.StatusCompleted, snapshot.StatusFailed, snapshot.StatusCancelled,
	}}) {
		if err != nil {
			return 0, err
		}
		ended = append(ended, &info)
	}
	looked = time.Since(began)
	p := &r.options.Retention
	kept, bytes, there := 0, int64(0), make(map[string]bool)
	var over []*snapshot.Info
	for _, info := range ended {
		if ctx.Err() != nil {
			return looked, context.Cause(ctx)
		}
		if info.Pinned || info.Program == "" || info.Open {
			continue
		}
		size, err := r.sizeOf(ctx, info, sizes)
		if errors.Is(err, snapshot.ErrNotFound) {
			continue // another process has removed the run
		} else if err != nil {
			if ctx.Err() == nil {
				r.observe(Notice{Type: NoticeTrouble, RunID: info.RunID, Err: fmt.Errorf("runner: retention: %w", err)})
			}
			continue
		}
		if isOver(info, p) || p.Runs > 0 && kept >= p.Runs || p.Bytes > 0 && bytes+size > p.Bytes {
			over = append(over, info)
			continue
		}
		kept++
		bytes += size
		there[info.RunID] = true
	}
	maps.DeleteFunc(sizes, func(id string, _ sizeAt) bool { return !there[id] })
	if over, err = needed.WithoutTurns(ctx, r.store, over); err != nil {
		return looked, err
	}
	r.removeRuns(ctx, over)
	return looked, nil
}

// removedTogether is the maximum number of runs that are removed at the same time, so that a
// database can remove all of them with one statement.
const removedTogether = 32

func (r *Runner) removeRuns(ctx context.Context, over []*snapshot.Info) {
	var wait sync.WaitGroup
	var archiving sync.Mutex
	var next atomic.Int64
	groups := needed.Together(over)
	for range min(removedTogether, len(groups)) {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(groups)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				for _, info := range groups[i] {
					if !r.removeRun(ctx, info, &archiving) {
						break // the next run is an earlier turn, which this run may read
					}
				}
			}
		})
	}
	wait.Wait()
}

// A sizeAt is the total size of the records of a run at the time when the run had the given
// Updated.
type sizeAt struct {
	size    int64
	updated time.Time
}

// isOver reports whether a time limit for keeping the run has passed.
func isOver(info *snapshot.Info, p *Retention) bool {
	now := time.Now()
	return p.Age > 0 && now.Sub(info.Updated) >= p.Age || !info.Expires.IsZero() && !now.Before(info.Expires)
}

// sizeOf returns the total size of the records of a run, or 0 if no limit depends on the size.
func (r *Runner) sizeOf(ctx context.Context, info *snapshot.Info, sizes map[string]sizeAt) (size int64, err error) {
	if r.options.Retention.Bytes == 0 {
		return 0, nil
	}
	if known, ok := sizes[info.RunID]; ok && known.updated.Equal(info.Updated) {
		return known.size, nil
	}
	run, err := r.store.Load(ctx, info.RunID)
	if err != nil {
		return 0, err
	}
	for seq := uint64(1); seq <= uint64(run.Len()); seq++ {
		size += int64(len(run.Encoded(seq)))
	}
	sizes[info.RunID] = sizeAt{size, info.Updated}
	return size, nil
}

// removeRun archives a run and removes it, unless it has changed since it was listed. It may have
// been pinned or resumed, or replaced by another run with the same ID. removeRun reports whether the
// run is known to be gone.
func (r *Runner) removeRun(ctx context.Context, info *snapshot.Info, archiving *sync.Mutex) bool {
	notice := Notice{Type: NoticeRemoved, RunID: info.RunID, Program: info.Program, Version: info.Version, Status: info.Status}
	if isAwaited, err := needed.ByCaller(ctx, r.store, info); err != nil {
		notice.Type, notice.Err = NoticeTrouble, fmt.Errorf("runner: retention: %w", err)
	} else if isAwaited {
		return false
	} else if err := r.archive(ctx, info.RunID, archiving); err != nil {
		notice.Type, notice.Err = NoticeTrouble, err
	} else if same, err := r.isAsListed(ctx, info); err != nil {
		notice.Type, notice.Err = NoticeTrouble, err
	} else if !same {
		return false
	} else if err := r.store.Delete(ctx, info.RunID); errors.Is(err, snapshot.ErrNotFound) {
		return true // another process has removed the run
	} else if errors.Is(err, snapshot.ErrLocked) {
		return false // another process has opened the run
	} else if err != nil {
		notice.Type, notice.Err = NoticeTrouble, err
	}
	if notice.Err != nil && ctx.Err() != nil {
		return false // the runner is stopping
	}
	r.observe(notice)
	return notice.Err == nil
}

func (r *Runner) isAsListed(ctx context.Context, listed *snapshot.Info) (bool, error) {
	now, err := r.store.Info(ctx, listed.RunID)
	if errors.Is(err, snapshot.ErrNotFound) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("runner: retention: run %s: %w", listed.RunID, err)
	}
	return now.Created.Equal(listed.Created) && now.Updated.Equal(listed.Updated) && !now.Open, nil
}

func (r *Runner) archive(ctx context.Context, runID string, archiving *sync.Mutex) error {
	archive := r.options.Retention.Archive
	if archive == nil {
		return nil
	}
	run, err := r.store.Load(ctx, runID)
	if errors.Is(err, snapshot.ErrNotFound) {
		return nil
	} else if err != nil {
		return fmt.Errorf("runner: archive run %s: %w", runID, err)
	}
	archiving.Lock()
	defer archiving.Unlock()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := archive(ctx, run); err != nil {
		return fmt.Errorf("runner: archive run %s: %w", runID, err)
	}
	return nil
}
