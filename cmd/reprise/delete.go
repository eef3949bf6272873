package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/internal/needed"
	"github.com/reprise-go/reprise/snapshot"
)

// deleteFlags holds the flags of the command delete.
type deleteFlags struct {
	runFilter
	older       string
	yes, dryRun bool
}

func (a *app) deleteCommand() *cobra.Command {
	var f deleteFlags
	cmd := &cobra.Command{
		Use:     "delete [RUN...]",
		GroupID: groupMaintain,
		Aliases: []string{"rm"},
		Short:   "Delete runs",
		Long: "Delete runs permanently: those that are named, or those that the flags select. The command\n" +
			"asks first, unless --yes is given. Artifacts are kept until `reprise gc`, since other runs\n" +
			"may refer to them. A run that a program has open is not deleted.\n\n" +
			"The flags are those of `reprise runs`. Without --status, they select only runs that have\n" +
			"ended: completed, failed and cancelled. They never select a run that is pinned, that is\n" +
			"listed as unreadable, or that another run may still read: a run whose caller has not\n" +
			"ended, and the turns of a conversation before one that has not ended, or that failed and\n" +
			"is kept. Name such a run to delete it. --dry-run lists what the flags select.",
		Example: "  reprise delete weather-42\n" +
			"  reprise delete --yes weather-42 weather-43\n" +
			"  reprise delete --older 30d --dry-run\n" +
			"  reprise delete --older 30d --status completed,cancelled --program weather --yes",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSelection(cmd); err != nil {
				return err
			}
			chosen := chosenFlag(cmd, "older")
			switch {
			case len(args) == 0 && chosen == "":
				return usageErrorf("RUN is missing: name runs, or select runs with --status, --program, --older or other flags")
			case len(args) > 0 && chosen != "":
				return usageErrorf("RUN %s and --%s, which selects runs: want one or the other", printable(args[0]), chosen)
			case len(args) > 0 && f.dryRun:
				return usageErrorf("RUN %s and --dry-run, which shows what flags select: want one or the other", printable(args[0]))
			case chosen != "":
				return a.deleteSelected(cmd.Context(), f)
			}
			return a.deleteNamed(cmd.Context(), args, f.yes)
		},
		ValidArgsFunction: a.completeRuns(0),
	}
	f.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.older, "older", "", "runs that were last updated before this `age`, such as 30d")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only list the runs that the flags select")
	cmd.MarkFlagsMutuallyExclusive("older", "until")
	_ = cmd.RegisterFlagCompletionFunc("older", cobra.NoFileCompletions)
	return cmd
}

// errNotConfirmed means that the user did not confirm a deletion.
var errNotConfirmed = errors.New("nothing was deleted")

func (a *app) deleteNamed(ctx context.Context, runIDs []string, yes bool) error {
	for _, runID := range runIDs {
		if err := checkRunID(runID); err != nil {
			return err
		}
	}
	store, err := a.store()
	if err != nil {
		return err
	}
	if !yes {
		for _, runID := range runIDs {
			// Ignore other errors, since a damaged run can be deleted.
			if _, err := store.Load(ctx, runID); errors.Is(err, snapshot.ErrNotFound) {
				return a.explain(runID, err)
			}
		}
		which := "run " + runIDs[0]
		if len(runIDs) > 1 {
			which = plural(len(runIDs), "run")
		}
		if err := a.confirm(ctx, fmt.Sprintf("Delete %s permanently?", which)); err != nil {
			return err
		}
	}
	if len(runIDs) > 1 {
		return a.deleteEach(ctx, runIDs, store.Delete)
	}
	if err := store.Delete(ctx, runIDs[0]); err != nil {
		return a.explain(runIDs[0], err)
	}
	if a.json {
		return a.writeJSON(map[string]string{"deleted": runIDs[0]})
	}
	a.printf("deleted %s\n", runIDs[0])
	return nil
}

// deleteEach calls remove for each run and writes the results. If a run cannot be deleted, the
// others are still deleted.
func (a *app) deleteEach(ctx context.Context, runIDs []string, remove func(ctx context.Context, runID string) error) error {
	type line struct {
		RunID string `json:"run_id"`
		Error string `json:"error,omitempty"`
	}
	lines, failed := []line{}, false
	var interrupted error
	for _, runID := range runIDs {
		err := remove(ctx, runID)
		if err != nil && ctx.Err() != nil {
			interrupted = err
			break
		}
		switch {
		case err != nil && a.json:
			lines = append(lines, line{runID, message(a.explain(runID, err))})
		case err != nil:
			a.printError(exitFailure, a.explain(runID, err))
		case a.json:
			lines = append(lines, line{RunID: runID})
		default:
			a.printf("deleted %s\n", runID)
		}
		failed = failed || err != nil
	}
	if a.json {
		if err := a.writeJSON(lines); err != nil {
			return err
		}
	}
	switch {
	case interrupted != nil:
		return interrupted
	case failed:
		return errReported
	}
	return nil
}

func (a *app) deleteSelected(ctx context.Context, f deleteFlags) error {
	filter, err := a.filter(f.runFilter)
	if err != nil {
		return err
	}
	if f.older != "" {
		age, ok := parseAge(f.older)
		if !ok {
			return usageErrorf("--older %q: want an age such as 90s, 24h or 7d", printable(f.older))
		}
		filter.Until = a.now().Add(-age)
	}
	if len(filter.Status) == 0 {
		filter.Status = []snapshot.Status{snapshot.StatusCompleted, snapshot.StatusFailed, snapshot.StatusCancelled}
	}
	store, err := a.store()
	if err != nil {
		return err
	}
	chosen, kept, err := a.deletable(ctx, store, filter)
	if err != nil {
		return err
	}
	if kept.count() > 0 && !a.json {
		fmt.Fprintf(a.stderr, "kept %s: %s\n", plural(kept.count(), "run"), kept)
	}
	listed, runIDs, unfinished := make(map[string]*snapshot.Info), []string{}, 0
	for _, info := range chosen {
		listed[info.RunID], runIDs = info, append(runIDs, info.RunID)
		if !info.Status.HasEnded() {
			unfinished++
		}
	}
	if f.dryRun {
		return a.printDeletable(runIDs)
	}
	if len(runIDs) == 0 && !a.json {
		fmt.Fprintln(a.stderr, "no runs")
		return nil
	}
	if !f.yes && len(runIDs) > 0 {
		question := fmt.Sprintf("Delete %s permanently", plural(len(runIDs), "run"))
		if unfinished > 0 {
			question += fmt.Sprintf(" (%d not ended)", unfinished)
		}
		if err := a.confirm(ctx, question+"?"); err != nil {
			return err
		}
		if chosen, _, err = a.deletable(ctx, store, filter); err != nil { // other runs may need them by now
			return err
		}
	}
	mayDelete := make(map[string]bool)
	for _, info := range chosen {
		mayDelete[info.RunID] = true
	}
	return a.deleteEach(ctx, runIDs, func(ctx context.Context, runID string) error {
		return deleteAsListed(ctx, store, listed[runID], mayDelete[runID])
	})
}

func (a *app) printDeletable(runIDs []string) error {
	if a.json {
		return a.writeJSON(map[string][]string{"would_delete": runIDs})
	}
	for _, runID := range runIDs {
		a.printf("%s\n", runID)
	}
	fmt.Fprintf(a.stderr, "would delete %s\n", plural(len(runIDs), "run"))
	return nil
}

// keptRuns counts the runs that match a filter but are not deleted, by the reason for keeping them.
type keptRuns struct{ pinned, read, unreadable int }

func (k keptRuns) count() int { return k.pinned + k.read + k.unreadable }

func (k keptRuns) String() string {
	var parts []string
	for _, part := range []struct {
		n   int
		why string
	}{{k.pinned, "pinned"}, {k.read, "may be read by other runs"}, {k.unreadable, "unreadable"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.why))
		}
	}
	return strings.Join(parts, ", ")
}

// deletable returns the runs that the filter selects and that may be deleted. It counts those that
// must be kept.
func (a *app) deletable(ctx context.Context, store snapshot.Store, filter snapshot.Filter) (chosen []*snapshot.Info, kept keptRuns, err error) {
	for info, err := range snapshot.Runs(ctx, store, filter) {
		switch {
		case err != nil:
			return nil, kept, err
		case a.isUnreadable(&info):
			kept.unreadable++
		case info.Pinned:
			kept.pinned++
		default:
			chosen = append(chosen, &info)
		}
	}
	matched := len(chosen)
	chosen = slices.DeleteFunc(chosen, func(info *snapshot.Info) bool {
		isNeeded, failed := needed.ByCaller(ctx, store, info)
		err = errors.Join(err, failed)
		return isNeeded
	})
	if err != nil {
		return nil, kept, err
	}
	if chosen, err = needed.WithoutTurns(ctx, store, chosen); err != nil { // last, because it depends on which turns are kept
		return nil, kept, err
	}
	kept.read = matched - len(chosen)
	return chosen, kept, nil
}

// errChanged means that a run has changed since it was selected.
var errChanged = errors.New("it has changed since it was selected, and is kept")

// errNeeded means that a run is needed since it was selected.
var errNeeded = errors.New("another run may read it by now, so it is kept")

// deleteAsListed deletes a run if mayDelete is true, unless the run has changed since it was listed.
// It may have been pinned or resumed, or replaced by another run with the same ID.
func deleteAsListed(ctx context.Context, store snapshot.Store, listed *snapshot.Info, mayDelete bool) error {
	now, err := store.Info(ctx, listed.RunID)
	if errors.Is(err, snapshot.ErrNotFound) {
		return nil // another process has deleted the run
	} else if err != nil {
		return err
	}
	if !now.Open && (!now.Created.Equal(listed.Created) || !now.Updated.Equal(listed.Updated)) {
		return fmt.Errorf("run %s: %w", listed.RunID, errChanged)
	}
	if !now.Open && !mayDelete {
		return fmt.Errorf("run %s: %w", listed.RunID, errNeeded)
	}
	return store.Delete(ctx, listed.RunID)
}

// confirm asks the user at the terminal. Only y and yes count as confirmation.
func (a *app) confirm(ctx context.Context, question string) error {
	if !a.terminal {
		return errors.New("no terminal to ask for confirmation; --yes deletes without asking")
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answer := make(chan string, 1)
	// A read from a terminal cannot be canceled: after an interrupt this goroutine ends
	// with the process.
	go func() {
		line, _ := bufio.NewReader(a.stdin).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		if !strings.HasSuffix(line, "\n") {
			fmt.Fprintln(a.stderr) // the input ended without an answer
		}
		return errNotConfirmed
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return context.Cause(ctx)
	}
}
