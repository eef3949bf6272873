package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "verify [RUN…]",
		GroupID: groupKeep,
		Short:   "Read all data and report what is damaged",
		Long: "Read runs, or all runs, to the last byte, and the artifacts that they refer to:\n" +
			"checksums of the files, the order of the records, the hashes of the artifacts and\n" +
			"of the inputs that were kept. Nothing is changed. It exits with 1 if anything is damaged.",
		Example: "  reprise verify\n" +
			"  reprise verify weather-42 weather-43\n" +
			"  reprise verify --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.verify(cmd.Context(), args)
		},
		ValidArgsFunction: a.completeRuns(0),
	}
}

// verdict is what was found of one run.
type verdict struct {
	RunID     string   `json:"run_id"`
	OK        bool     `json:"ok"`
	Records   int      `json:"records"`
	Artifacts int      `json:"artifacts"`
	Torn      string   `json:"torn,omitempty"` // an end that a crash left, which is not a problem
	Problems  []string `json:"problems,omitempty"`
}

func (a *app) verify(ctx context.Context, runIDs []string) error {
	for _, id := range runIDs {
		if err := checkRunID(id); err != nil {
			return err
		}
	}
	store, err := a.store()
	if err != nil {
		return err
	}
	if len(runIDs) == 0 {
		page, err := store.List(ctx, snapshot.Filter{})
		if err != nil {
			return err
		}
		for i := range page.Runs {
			runIDs = append(runIDs, page.Runs[i].RunID)
		}
	}
	check := &checker{store: store, artifacts: make(map[string]error)}
	all, failed := []verdict{}, 0
	for _, id := range runIDs {
		v, err := check.run(ctx, id)
		if err != nil {
			return a.explain(id, err)
		}
		if !v.OK {
			failed++
		}
		all = append(all, v)
		if !a.json {
			a.tell(v)
		}
	}
	if a.json {
		if err := a.writeJSON(all); err != nil {
			return err
		}
	}
	switch {
	case failed == 0:
		return nil
	case a.json:
		return errReported
	}
	return fmt.Errorf("%d of %s damaged or unreadable; `%s repair RUN` saves what can be read of a damaged run",
		failed, plural(len(all), "run"), a.command)
}

func (a *app) tell(v verdict) {
	if v.OK {
		a.printf("ok       %s (%s, %s)\n", v.RunID, plural(v.Records, "record"), plural(v.Artifacts, "artifact"))
	}
	if v.Torn != "" {
		a.printf("torn     %s: %s; the next opening cuts them off\n", v.RunID, v.Torn)
	}
	for _, problem := range v.Problems {
		a.printf("BAD      %s: %s\n", v.RunID, printable(problem))
	}
}

// A checker reads runs. Artifacts that several of them share are read once.
type checker struct {
	store     *filestore.Store
	artifacts map[string]error
}

// run checks a run. The error is that there is none, or an interrupt.
func (c *checker) run(ctx context.Context, runID string) (verdict, error) {
	v := verdict{RunID: runID}
	run, torn, err := c.store.Verify(ctx, runID)
	var found *snapshot.Snapshot
	if err == nil {
		found, err = run.Snapshot()
	}
	switch {
	case err == nil:
	case errors.Is(err, snapshot.ErrNotFound), ctx.Err() != nil:
		return v, err
	default:
		v.Problems = append(v.Problems, message(unadvised(err)))
		return v, nil
	}
	v.Records = len(found.Records)
	if torn != nil {
		v.Torn = fmt.Sprintf("%s ends with %d bytes that a crash left unfinished, from byte %d", torn.File, torn.Size, torn.Offset)
	}
	seen := make(map[string]bool)
	for i := range found.Records {
		r := &found.Records[i]
		if r.Detail == nil {
			continue
		}
		v.Problems = append(v.Problems, unreadable(r)...)
		ref := r.Detail.Artifact
		if ref == "" || seen[ref] {
			continue
		}
		seen[ref] = true
		err := c.artifact(ctx, ref)
		if err != nil && ctx.Err() != nil {
			return v, context.Cause(ctx)
		}
		v.Artifacts++
		if err != nil {
			v.Problems = append(v.Problems, fmt.Sprintf("record %d, %s: %s", r.Seq, where(r), message(err)))
		}
	}
	v.OK = len(v.Problems) == 0
	return v, nil
}

func (c *checker) artifact(ctx context.Context, ref string) error {
	if err, known := c.artifacts[ref]; known {
		return err
	}
	_, err := c.store.Get(ctx, ref) // which compares the hash
	if ctx.Err() == nil {
		c.artifacts[ref] = err
	}
	return err
}

// unreadable tells which values of a record are none.
func unreadable(r *record.Record) (problems []string) {
	const none = "(unreadable)" // what record.Preview says then; a text would be in quotes
	if record.Preview(r.Detail.Input) == none {
		problems = append(problems, fmt.Sprintf("record %d, %s: the input is no msgpack", r.Seq, where(r)))
	}
	if record.Preview(r.Detail.Output) == none {
		problems = append(problems, fmt.Sprintf("record %d, %s: the output is no msgpack", r.Seq, where(r)))
	}
	return problems
}

// where is what a record is about.
func where(r *record.Record) string {
	if r.Address.IsZero() {
		return r.Kind.String()
	}
	return r.Address.String()
}
