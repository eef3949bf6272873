package runcopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/reprise-go/reprise/snapshot"
)

// Verify reads the given runs, or all runs if none are given, with their messages and artifacts,
// and writes a verdict for each. If a run is damaged, the others are still verified. The error
// names all damaged runs.
func Verify(ctx context.Context, s snapshot.Store, ids []string, out io.Writer) error {
	isListed := len(ids) == 0
	if isListed {
		var err error
		if ids, err = list(ctx, s); err != nil {
			return err
		}
	}
	known := make(map[string]error) // by artifact
	var all []error
	for _, id := range ids {
		n, err := verify(ctx, s, id, known)
		switch {
		case ctx.Err() != nil:
			return errors.Join(append(all, context.Cause(ctx))...)
		case err == nil:
			fmt.Fprintf(out, "ok       %s: %d records\n", id, n)
		case isListed && isDeleted(ctx, s, id, err): // after it was listed
		default:
			all = append(all, fmt.Errorf("run %s: %w", id, err))
			fmt.Fprintf(out, "damaged  %s\n", id)
		}
	}
	return errors.Join(all...)
}

// verify checks a run and returns the number of its records.
func verify(ctx context.Context, s snapshot.Store, id string, known map[string]error) (records int, err error) {
	run, err := s.Load(ctx, id)
	if err != nil {
		return 0, err
	}
	references := make(map[string]bool)
	for rec, err := range run.Records() {
		if err != nil {
			return 0, err
		}
		if records++; rec.Seq != uint64(records) {
			return 0, &snapshot.CorruptError{RunID: id, LastSeq: uint64(records) - 1, Err: fmt.Errorf("record %d follows", rec.Seq)}
		}
		for reference := range rec.Artifacts() {
			references[reference] = true
		}
	}
	var all []error
	for _, reference := range slices.Sorted(maps.Keys(references)) {
		if _, done := known[reference]; !done {
			_, known[reference] = s.Get(ctx, reference)
		}
		all = append(all, known[reference])
	}
	_, err = s.Messages(ctx, id)
	return records, errors.Join(append(all, err)...)
}
