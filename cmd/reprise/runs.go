package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// statuses lists the statuses that a run can have.
var statuses = [...]snapshot.Status{
	snapshot.StatusQueued, snapshot.StatusRunning, snapshot.StatusPaused, snapshot.StatusInterrupted,
	snapshot.StatusCompleted, snapshot.StatusFailed, snapshot.StatusCancelled,
}

// statusUnreadable is shown for a run that is damaged or was written by a newer
// version.
const statusUnreadable snapshot.Status = "unreadable"

// runFilter holds the flags that select runs.
type runFilter struct {
	status       []string
	tags         []string
	pipeline     string
	program      string
	version      string
	since, until string
	reason       string // not part of snapshot.Filter; see hasReason
	limit        int
}

func (a *app) runsCommand() *cobra.Command {
	var f runFilter
	cmd := &cobra.Command{
		Use:     "runs",
		GroupID: groupInspect,
		Aliases: []string{"list", "ls"},
		Short:   "List runs, last updated first",
		Long: "List runs, last updated first. A run is listed if it matches all filters. A time is an\n" +
			"RFC 3339 time (2026-01-31T08:00:00Z) or an age (90s, 24h, 7d). A run that is damaged or\n" +
			"was written by a newer version has the status unreadable; the command then lists the\n" +
			"other runs and exits with 1. TOKENS and COST are the input and output tokens that the run\n" +
			"had consumed when it was last closed, and their price if its models have prices. UPDATED\n" +
			"is the time at which the run was last opened, closed, or changed by a command; its\n" +
			"records do not change it. PROGRAM is the program that a runner started, and its version.\n" +
			"WAITS FOR shows the answers and the time that a paused run waits for, or \"its program\"\n" +
			"if it has them, and continues when its program opens it. The column is empty if the run\n" +
			"waits for a signal. STOPPED shows who or what stopped an interrupted or cancelled\n" +
			"run: a person, a shutdown, a crash. A long text is cut; the command show has all of it.\n" +
			"--reason selects runs by the first word there, such as divergence. Runs that failed are\n" +
			"selected by the reason of the failure, such as exhausted, which is read from their records.\n" +
			"A column that is empty for all runs is left out, except RUN, STATUS, UPDATED and RECORDS.",
		Example: "  reprise runs\n" +
			"  reprise runs --status failed,interrupted --since 24h\n" +
			"  reprise runs --reason divergence\n" +
			"  reprise runs --tag nightly --pipeline weather --limit 10\n" +
			"  reprise runs --program support --version 1 --status queued,running,paused,interrupted\n" +
			"  reprise runs --status paused --json",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkSelection(cmd); err != nil {
				return err
			}
			return a.runs(cmd.Context(), f)
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&f.reason, "reason", "", "runs that were stopped, or failed, for this `reason`")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "the maximum `number` of runs, 0 for all")
	for _, name := range []string{"reason", "limit"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// flags adds the flags that select runs, except the limit.
func (f *runFilter) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.status, "status", nil, "runs with any of these `statuses`: "+statusNames())
	flags.StringArrayVar(&f.tags, "tag", nil, "runs with this `tag`; if repeated, runs with all of the tags")
	flags.StringVar(&f.pipeline, "pipeline", "", "runs of this `pipeline`")
	flags.StringVar(&f.program, "program", "", "runs of this `program`")
	flags.StringVar(&f.version, "version", "", "runs of this `version` of their program")
	flags.StringVar(&f.since, "since", "", "runs updated at this `time` or later")
	flags.StringVar(&f.until, "until", "", "runs updated before this `time`")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(strings.Split(statusNames(), ", "), cobra.ShellCompDirectiveNoFileComp))
	for _, name := range selectingFlags[1:] {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// selectingFlags holds the names of the flags of a runFilter.
var selectingFlags = []string{"status", "tag", "pipeline", "program", "version", "since", "until"}

// checkSelection returns a usage error if a given flag that selects runs is empty, as with an unset
// variable of a script. It would otherwise not narrow the selection.
func checkSelection(cmd *cobra.Command) error {
	for _, name := range slices.Concat(selectingFlags, []string{"older", "reason"}) {
		flag := cmd.Flags().Lookup(name)
		if flag == nil || !flag.Changed {
			continue
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(interface{ GetSlice() []string }); ok {
			values = list.GetSlice()
		}
		if len(values) == 0 || slices.Contains(values, "") {
			return usageErrorf("--%s is empty; give it a value, or leave it out", name)
		}
	}
	return nil
}

// chosenFlag returns the name of the first flag on the command line that selects runs, or "" if
// there is none. The flags named in more also count as selecting runs.
func chosenFlag(cmd *cobra.Command, more ...string) string {
	for _, name := range slices.Concat(selectingFlags, more) {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

func statusNames() string {
	var names []string
	for _, s := range statuses {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// filter converts the flags to a filter.
func (a *app) filter(f runFilter) (snapshot.Filter, error) {
	out := snapshot.Filter{Tags: f.tags, Pipeline: f.pipeline, Program: f.program, Version: f.version, Limit: f.limit}
	for _, name := range f.status {
		s := snapshot.Status(name)
		if !slices.Contains(statuses[:], s) {
			return out, usageErrorf("--status %q: want one of %s", printable(name), statusNames())
		}
		out.Status = append(out.Status, s)
	}
	if f.limit < 0 {
		return out, usageErrorf("--limit %d: want 1 or more, or 0 for all", f.limit)
	}
	var err error
	if out.Since, err = a.parseTime("--since", f.since); err != nil {
		return out, err
	}
	out.Until, err = a.parseTime("--until", f.until)
	return out, err
}

func (a *app) runs(ctx context.Context, f runFilter) error {
	filter, err := a.filter(f)
	if err != nil {
		return err
	}
	store, err := a.store()
	if err != nil {
		return err
	}
	if f.reason != "" {
		filter.Limit = 0 // the limit applies to the runs with this reason
	}
	var infos []snapshot.Info
	unreadable, unknown := 0, 0 // unknown: runs whose reason cannot be read
	for info, err := range snapshot.Runs(ctx, store, filter) {
		if err != nil {
			return err
		}
		if f.reason != "" {
			has, err := hasReason(ctx, store, &info, f.reason)
			switch {
			case err != nil && ctx.Err() != nil:
				return err
			case err != nil && !errors.Is(err, snapshot.ErrNotFound): // if not found, the run was deleted in the meantime
				a.printError(exitFailure, a.explain(info.RunID, err))
				unknown++
			}
			if !has {
				continue
			}
		}
		if info.Open { // the run may have more records by now
			if now, err := store.Info(ctx, info.RunID); err == nil {
				info = now
			}
		}
		if a.isUnreadable(&info) {
			info.Status = statusUnreadable
			unreadable++
		}
		if infos = append(infos, info); len(infos) == f.limit {
			break
		}
	}
	isWhole, err := a.printRuns(ctx, store, infos)
	if err != nil || isWhole && unreadable+unknown == 0 {
		return err
	}
	if unreadable > 0 && !a.json {
		fmt.Fprintf(a.stderr, "%s cannot be read; `%s verify` says why\n", plural(unreadable, "run"), a.command)
	}
	return errReported
}

// isUnreadable reports whether a listed run is damaged, or of a newer version. Its info may be that
// of a run that a crash has interrupted. Every readable run has a creation time.
func (a *app) isUnreadable(listed *snapshot.Info) bool {
	_, isKnown := a.unreadable.Load(listed.RunID)
	return isKnown || listed.Created.IsZero()
}

// hasReason reports whether a run was stopped, or failed, for the given reason. Like
// [state.Selection], it reads why a run failed from the records.
func hasReason(ctx context.Context, store snapshot.Reader, in *snapshot.Info, reason string) (bool, error) {
	if in.Status != snapshot.StatusFailed {
		return string(in.Stop.Reason) == reason, nil
	}
	failed := false
	for r, err := range store.Records(ctx, in.RunID, 0) {
		if err != nil {
			return false, err
		}
		if r.Kind.IsCall() && r.Address.Scope() == "" { // the last one counts
			failed = r.Status == record.StatusFailed && r.Reason.String() == reason
		}
	}
	return failed, nil
}

// printRuns writes the runs. isWhole is false if it could not find out what some of them wait for.
func (a *app) printRuns(ctx context.Context, store snapshot.Store, infos []snapshot.Info) (isWhole bool, err error) {
	if a.json {
		return true, a.writeJSON(append([]snapshot.Info{}, infos...))
	}
	if len(infos) == 0 {
		fmt.Fprintln(a.stderr, "no runs")
		return true, nil
	}
	rows := [][]string{{"RUN", "STATUS", "UPDATED", "RECORDS", "TOKENS", "COST", "PROGRAM", "PIPELINE", "TAGS", "FORK OF", "WAITS FOR", "STOPPED"}}
	isWhole = true
	for i := range infos {
		in := &infos[i]
		waits, err := a.waitsFor(ctx, store, in)
		if err != nil && ctx.Err() != nil {
			return false, err
		} else if err != nil {
			a.printError(exitFailure, a.explain(in.RunID, err))
			waits, isWhole = "?", false
		}
		rows = append(rows, []string{
			in.RunID, string(in.Status), timeText(in.Updated), strconv.FormatUint(in.LastSeq, 10), tokens(in.Usage), cost(in.Usage),
			strings.TrimSpace(in.Program + " " + in.Version), in.Metadata.Pipeline, strings.Join(in.Metadata.Tags, ", "), in.ParentID, waits, record.Truncate(printable(in.Stop.String()), maxStopped),
		})
	}
	const always = 4 // RUN, STATUS, UPDATED and RECORDS
	return isWhole, a.writeTable(withoutEmptyColumns(rows, always))
}

// maxStopped is the maximum number of characters in the STOPPED column. The text of a divergence
// may be longer.
const maxStopped = 80

// waitsForProgram is shown for a paused run that has received what it was waiting for. The run will
// continue when its program opens it.
const waitsForProgram = "its program"

// waitsFor returns what a paused run is waiting for, as far as this is known without reading its
// records.
func (a *app) waitsFor(ctx context.Context, store snapshot.Store, in *snapshot.Info) (string, error) {
	if in.Status != snapshot.StatusPaused {
		return "", nil
	}
	due := timeText(in.Due)
	switch {
	case !in.Due.IsZero() && !in.Due.After(a.now()):
		return waitsForProgram, nil
	case in.Summary.Asking == 0:
		return due, nil
	}
	waiting, err := store.Messages(ctx, in.RunID)
	if err != nil && !errors.Is(err, snapshot.ErrNotFound) { // if not found, it was deleted meanwhile
		return "", err
	}
	answered := make(map[string]bool)
	for i := range waiting {
		if m := &waiting[i]; m.IsAnswer() {
			answered[m.Record.Name] = true
		}
	}
	open := in.Summary.Asking - len(answered)
	switch {
	case open <= 0:
		return waitsForProgram, nil
	case due != "":
		return plural(open, "answer") + " or " + due, nil
	}
	return plural(open, "answer"), nil
}

// tokens formats the number of tokens. It returns "" for zero, for example
// because the run was never closed.
func tokens(u record.Usage) string {
	if u.TotalTokens() == 0 {
		return ""
	}
	return strconv.Itoa(u.TotalTokens())
}

// cost formats a cost. It returns "" for zero, for example because the run's models have no prices.
func cost(u record.Usage) string {
	if u.Cost == 0 {
		return ""
	}
	return strconv.FormatFloat(u.Cost, 'g', 3, 64)
}
