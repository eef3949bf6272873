package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/reprise-go/reprise/internal/runcopy"
	"github.com/reprise-go/reprise/snapshot"
)

// export writes a run to a file. An existing file is replaced when the new one is
// complete.
func export(ctx context.Context, s snapshot.Store, id, file string) error {
	run, err := s.Load(ctx, id)
	if err != nil {
		return err
	}
	return run.WriteFile(file)
}

// importRuns stores the runs that the files contain. If a run cannot be stored, importRuns
// continues with the others.
func importRuns(ctx context.Context, s snapshot.Store, files []string, out io.Writer) error {
	var all error
	for _, file := range files {
		run, missing, err := importRun(ctx, s, file)
		if err != nil {
			all = errors.Join(all, fmt.Errorf("%s was not imported: %w", file, err))
			continue
		}
		fmt.Fprintf(out, "run %s was imported\n", run.RunID)
		if run.Status == snapshot.StatusInterrupted {
			fmt.Fprintf(out, "run %s is interrupted, and does not continue by itself\n", run.RunID)
		}
		if missing > 0 {
			fmt.Fprintf(out, "run %s: %d of its artifacts are not in this store; copy-from and copy-to copy artifacts, too\n", run.RunID, missing)
		}
	}
	return all
}

// importRun stores the run that a file contains. It returns the number of the run's artifacts that
// the store lacks.
func importRun(ctx context.Context, s snapshot.Store, file string) (run *snapshot.Run, missing int, err error) {
	document, err := os.ReadFile(file)
	if err != nil {
		return nil, 0, err
	}
	if run, err = snapshot.Decode(document); err != nil {
		return nil, 0, err
	}
	references, err := runcopy.Artifacts(run)
	if err != nil {
		return nil, 0, err
	}
	runcopy.Hold(&run.Info)
	if _, err := s.Create(ctx, run); err != nil {
		return nil, 0, err
	}
	for _, reference := range references {
		_, err := s.Get(ctx, reference)
		if errors.Is(err, snapshot.ErrNotFound) {
			missing++
		} else if err != nil {
			return nil, 0, fmt.Errorf("run %s is stored, but its artifacts cannot be checked: %w", run.RunID, err)
		}
	}
	return run, missing, nil
}
