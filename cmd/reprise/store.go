package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/reprise-go/reprise/internal/runcopy"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

func (a *app) runsDir() string { return filepath.Join(a.dir, "runs") }

// store opens the existing store in the directory. It never creates a store, because a missing
// directory is probably a typo.
func (a *app) store() (*filestore.Store, error) {
	if a.dir == "" {
		return nil, usageErrorf("--dir is empty; name the directory that the program gave to filestore.New")
	}
	const which = "name the directory that the program gave to filestore.New, with --dir or REPRISE_DIR"
	stat, err := os.Stat(a.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no directory %s; %s", a.dir, which)
	case err != nil:
		return nil, err
	case !stat.IsDir():
		return nil, fmt.Errorf("%s is not a directory; %s", a.dir, which)
	}
	if err := runcopy.CheckStore(a.dir, which); err != nil {
		return nil, err
	}
	return a.openStore()
}

// storeToFill is like store, but creates a store if the directory does not exist.
func (a *app) storeToFill() (*filestore.Store, error) {
	if _, err := os.Stat(a.dir); a.dir == "" || !errors.Is(err, fs.ErrNotExist) {
		return a.store()
	}
	if !a.json {
		fmt.Fprintf(a.stderr, "reprise: created a new store in %s\n", a.dir)
	}
	return a.openStore()
}

// storeToServe is like store, but creates a store in an empty directory, because the programs whose
// runs are served may be started later.
func (a *app) storeToServe() (*filestore.Store, error) {
	if entries, err := os.ReadDir(a.dir); a.dir == "" || err != nil || len(entries) > 0 {
		return a.store()
	}
	return a.openStore()
}

func (a *app) openStore() (*filestore.Store, error) {
	s, err := filestore.New(a.dir, filestore.WithWarnings(func(runID string, err error) {
		if errors.Is(err, snapshot.ErrCorrupt) || errors.Is(err, snapshot.ErrFormat) {
			a.unreadable.Store(runID, true)
		}
		if a.json {
			return
		}
		var damage *snapshot.CorruptError
		if errors.As(err, &damage) { // the command has its own hint, so omit the library's
			fmt.Fprintf(a.stderr, "reprise: %s\n", printable(message(damage)))
			return
		}
		fmt.Fprintf(a.stderr, "reprise: run %s: %s\n", runID, printable(message(err)))
	}))
	if err == nil {
		a.opened = append(a.opened, s)
	}
	return s, err
}

// checkRunID returns a usage error if runID is not a valid run ID.
func checkRunID(runID string) error {
	if err := snapshot.CheckRunID(runID); err != nil {
		return usageErrorf("%s", message(err))
	}
	return nil
}

// storeOf opens the store for a command about the given run, which need not exist.
func (a *app) storeOf(runID string) (*filestore.Store, error) {
	if err := checkRunID(runID); err != nil {
		return nil, err
	}
	return a.store()
}

// load opens the store and reads a run with its records.
func (a *app) load(ctx context.Context, runID string) (*filestore.Store, *snapshot.Snapshot, error) {
	store, _, found, err := a.loadRun(ctx, runID)
	return store, found, err
}

// loadRun is like load, and also returns the run with its records as they are stored.
func (a *app) loadRun(ctx context.Context, runID string) (*filestore.Store, *snapshot.Run, *snapshot.Snapshot, error) {
	store, err := a.storeOf(runID)
	if err != nil {
		return nil, nil, nil, err
	}
	run, err := store.Load(ctx, runID)
	if err != nil {
		return nil, nil, nil, a.explain(runID, err)
	}
	found, err := run.Snapshot()
	if err != nil {
		return nil, nil, nil, a.explain(runID, err)
	}
	return store, run, found, nil
}
