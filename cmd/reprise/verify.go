package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "verify [RUN…]",
		GroupID: groupMaintain,
		Short:   "Read all data and report damage",
		Long: "Read the given runs, or all runs, completely, with the artifacts that they refer to.\n" +
			"The command checks the checksums of the files, the order of the records, and the hashes\n" +
			"of artifacts and recorded inputs. It also reads the messages that wait for the runs.\n" +
			"Nothing is changed, except that a file which waits among the messages, but is not one,\n" +
			"is renamed. Exits with 1 if anything is damaged.",
		Example: "  reprise verify\n" +
			"  reprise verify weather-42 weather-43\n" +
			"  reprise verify --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.verify(cmd.Context(), args)
		},
		ValidArgsFunction: a.completeRuns(0),
	}
}

// A verdict is the result of checking one run.
type verdict struct {
	RunID     string   `json:"run_id"`
	OK        bool     `json:"ok"`
	Records   int      `json:"records"`
	Artifacts int      `json:"artifacts"`
	Torn      string   `json:"torn,omitempty"` // incomplete data left by a crash, which is not a problem
	Problems  []string `json:"problems,omitempty"`

	isDamaged      bool // repair saves what can be read
	lacksArtifacts bool
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
	isListed := len(runIDs) == 0
	if isListed {
		for info, err := range snapshot.Runs(ctx, store, snapshot.Filter{}) {
			if err != nil {
				return err
			}
			runIDs = append(runIDs, info.RunID)
		}
	}
	check := &checker{store: store, artifacts: make(map[string]error)}
	all, failed := []verdict{}, 0
	var isDamaged, lacksArtifacts bool
	for _, id := range runIDs {
		v, err := check.run(ctx, id)
		if isListed && errors.Is(err, snapshot.ErrNotFound) {
			continue // it was deleted meanwhile
		} else if err != nil {
			return a.explain(id, err)
		}
		if !v.OK {
			failed++
		}
		isDamaged, lacksArtifacts = isDamaged || v.isDamaged, lacksArtifacts || v.lacksArtifacts
		all = append(all, v)
		if !a.json {
			a.printVerdict(v)
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
	text := fmt.Sprintf("%d of %s damaged or unreadable", failed, plural(len(all), "run"))
	if isDamaged {
		text += fmt.Sprintf("; `%s repair RUN` saves what can be read of a damaged run", a.command)
	}
	if lacksArtifacts {
		text += fmt.Sprintf("; copy the missing artifacts into %s, from a backup or from the store that the run came from", filepath.Join(a.dir, "artifacts"))
	}
	return errors.New(text)
}

func (a *app) printVerdict(v verdict) {
	if v.OK {
		a.printf("ok       %s (%s, %s)\n", v.RunID, plural(v.Records, "record"), plural(v.Artifacts, "artifact"))
	}
	if v.Torn != "" {
		a.printf("torn     %s: %s; they are removed when the run is opened\n", v.RunID, v.Torn)
	}
	for _, problem := range v.Problems {
		a.printf("BAD      %s: %s\n", v.RunID, printable(problem))
	}
}

// A checker checks runs. It reads artifacts shared by several runs only once.
type checker struct {
	store     *filestore.Store
	artifacts map[string]error
}

// run checks a run. It returns an error only if the run does not exist or the check was
// interrupted.
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
		v.isDamaged = errors.Is(err, snapshot.ErrCorrupt)
		v.Problems = append(v.Problems, message(damageOf(err)))
		return v, nil
	}
	if _, err := c.store.Messages(ctx, runID); errors.Is(err, snapshot.ErrNotFound) || ctx.Err() != nil {
		return v, err
	} else if err != nil {
		v.Problems = append(v.Problems, message(err))
	}
	v.Records = len(found.Records)
	if torn != nil {
		v.Torn = fmt.Sprintf("%s ends with %d incomplete bytes left by a crash, from byte %d", torn.File, torn.Size, torn.Offset)
	}
	seen := make(map[string]bool)
	for i := range found.Records {
		r := &found.Records[i]
		if r.Detail == nil {
			continue
		}
		v.Problems = append(v.Problems, decodeProblems(r)...)
		for ref := range r.Artifacts() {
			if seen[ref] {
				continue
			}
			seen[ref] = true
			err := c.artifact(ctx, ref)
			if err != nil && ctx.Err() != nil {
				return v, context.Cause(ctx)
			}
			v.Artifacts++
			if err != nil {
				v.lacksArtifacts = v.lacksArtifacts || errors.Is(err, snapshot.ErrNotFound) || errors.Is(err, snapshot.ErrCorrupt)
				v.Problems = append(v.Problems, fmt.Sprintf("record %d, %s: %s", r.Seq, subject(r), message(err)))
			}
		}
	}
	v.OK = len(v.Problems) == 0
	return v, nil
}

func (c *checker) artifact(ctx context.Context, ref string) error {
	if err, known := c.artifacts[ref]; known {
		return err
	}
	_, err := c.store.Get(ctx, ref) // compares the hash
	if ctx.Err() == nil {
		c.artifacts[ref] = err
	}
	return err
}

// decodeProblems returns the problems of a record whose values cannot be decoded.
func decodeProblems(r *record.Record) (problems []string) {
	const none = "(unreadable)" // returned by record.Preview for invalid data; text would be quoted
	if record.Preview(r.Detail.Input) == none {
		problems = append(problems, fmt.Sprintf("record %d, %s: the input is not valid msgpack", r.Seq, subject(r)))
	}
	if record.Preview(r.Detail.Output) == none {
		problems = append(problems, fmt.Sprintf("record %d, %s: the output is not valid msgpack", r.Seq, subject(r)))
	}
	return problems
}

// subject returns the name of what a record is about.
func subject(r *record.Record) string {
	if r.Address.IsZero() {
		return r.Kind.String()
	}
	return r.Address.String()
}
