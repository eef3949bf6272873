package runcopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// FromDir copies the given runs from the store in dir, which must exist. It copies all runs if none
// are given.
func FromDir(ctx context.Context, to snapshot.Store, dir string, ids []string, out io.Writer) error {
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	if err := CheckStore(dir, "name the directory that the program gave to filestore.New"); err != nil {
		return err
	}
	return inDir(dir, func(from snapshot.Store) error { return Runs(ctx, to, from, ids, out) })
}

// CheckStore returns an error if dir, which exists, is not a store. The error ends with advice.
// Without this check, filestore.New would turn any directory into a store.
func CheckStore(dir, advice string) error {
	stat, err := os.Stat(filepath.Join(dir, "runs"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !stat.IsDir() {
		return fmt.Errorf("%s is not a store: it has no directory \"runs\"; %s", dir, advice)
	}
	return err
}

// ToDir copies runs to the store in dir, which it creates if it does not exist.
func ToDir(ctx context.Context, dir string, from snapshot.Store, ids []string, out io.Writer) error {
	return inDir(dir, func(to snapshot.Store) error { return Runs(ctx, to, from, ids, out) })
}

func inDir(dir string, do func(snapshot.Store) error) error {
	store, err := filestore.New(dir)
	if err != nil {
		return err
	}
	return errors.Join(do(store), store.Close())
}

// List prints one line for each run, most recently updated first.
func List(ctx context.Context, s snapshot.Store, out io.Writer) error {
	for info, err := range snapshot.Runs(ctx, s, snapshot.Filter{}) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%d records\n", info.RunID, info.Status, info.Updated.Format(time.RFC3339), info.LastSeq)
	}
	return nil
}

// Grace parses the argument of the gc command. Without an argument, it returns one hour.
func Grace(args []string) (time.Duration, error) {
	if len(args) == 0 {
		return time.Hour, nil
	}
	grace, err := time.ParseDuration(args[0])
	if err != nil || grace < 0 {
		return 0, fmt.Errorf("gc %q: want a duration of 0 or more, such as 1h", args[0])
	}
	return grace, nil
}
