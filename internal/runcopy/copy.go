package runcopy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/reprise-go/reprise/snapshot"
)

// Runs copies the given runs, or all runs if none are given. If one run cannot be copied, the
// others are still copied.
func Runs(ctx context.Context, to, from snapshot.Store, ids []string, out io.Writer) error {
	isListed := len(ids) == 0
	if isListed {
		var err error
		if ids, err = list(ctx, from); err != nil {
			return err
		}
		slices.Reverse(ids) // oldest first, to keep the order of the list
	}
	var all []error
	for _, id := range ids {
		err := Run(ctx, to, from, id)
		switch {
		case err == nil:
			fmt.Fprintf(out, "run %s was copied\n", id)
		case ctx.Err() != nil:
			return errors.Join(append(all, context.Cause(ctx))...)
		case isListed && isDeleted(ctx, from, id, err): // after it was listed
		default:
			all = append(all, fmt.Errorf("run %s was not copied: %w", id, err))
		}
	}
	return errors.Join(all...)
}

// list returns the IDs of all runs, most recently updated first.
func list(ctx context.Context, s snapshot.Reader) (ids []string, err error) {
	for info, err := range snapshot.Runs(ctx, s, snapshot.Filter{}) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, info.RunID)
	}
	return ids, nil
}

// isDeleted reports whether err means that the run does not exist. The error for a missing artifact
// also matches ErrNotFound.
func isDeleted(ctx context.Context, s snapshot.Reader, id string, err error) bool {
	if !errors.Is(err, snapshot.ErrNotFound) {
		return false
	}
	_, err = s.Info(ctx, id)
	return errors.Is(err, snapshot.ErrNotFound)
}

// Run copies the artifacts of a run, then the run itself, and then the messages that wait for it.
// Because of this order, a run in the destination is always complete. If a copy was interrupted,
// calling Run again continues it.
func Run(ctx context.Context, to, from snapshot.Store, id string) error {
	// Messages first: an answer that is recorded in the meantime is in the run, or in both.
	messages, err := from.Messages(ctx, id)
	if err != nil {
		return err
	}
	run, err := from.Load(ctx, id)
	if err != nil {
		return err
	}
	if run.Open {
		return &snapshot.LockedError{RunID: id, Owner: run.Owner}
	}
	references, err := Artifacts(run)
	if err != nil {
		return err
	}
	for _, reference := range references {
		data, err := from.Get(ctx, reference)
		if err == nil {
			_, err = to.Put(ctx, data)
		}
		if err != nil {
			return err
		}
	}
	_, err = to.Create(ctx, run)
	if errors.Is(err, snapshot.ErrExists) {
		err = checkCopy(ctx, to, run)
	}
	if err != nil {
		return err
	}
	for i := range messages {
		if posted := to.Post(ctx, id, messages[i]); !errors.Is(posted, snapshot.ErrPosted) {
			err = errors.Join(err, posted)
		}
	}
	return err
}

// checkCopy returns an error that matches ErrExists, unless the store to contains an unchanged copy
// of run under the same ID.
func checkCopy(ctx context.Context, to snapshot.Store, run *snapshot.Run) error {
	there, err := to.Load(ctx, run.RunID)
	if err != nil {
		return err
	}
	same := !there.Open && there.Created.Equal(run.Created) && there.Generation == run.Generation && there.Len() == run.Len()
	for seq := uint64(1); same && seq <= uint64(run.Len()); seq++ {
		same = bytes.Equal(there.Encoded(seq), run.Encoded(seq))
	}
	if !same {
		return fmt.Errorf("%w, and the two copies differ: delete one of them", snapshot.ErrExists)
	}
	return nil
}

// Artifacts returns the references to a run's artifacts. All of the run's records must be readable.
func Artifacts(run *snapshot.Run) ([]string, error) {
	sn, err := run.Snapshot()
	if err != nil {
		return nil, err
	}
	return sn.Artifacts(), nil
}
