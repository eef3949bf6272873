package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/internal/waiting"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// A continueAction is a command that continues stopped runs.
type continueAction struct {
	name   string          // name of the command
	status snapshot.Status // status of the runs to which the command applies
	done   string          // past tense, for messages
	resume func(ctx context.Context, store snapshot.Store, runID string) (snapshot.Info, error)
}

// continueFlags holds the flags that select runs.
type continueFlags struct{ status, reason, program, since string }

func (a *app) resumeCommand() *cobra.Command {
	return a.continueCommand(&continueAction{"resume", snapshot.StatusInterrupted, "is queued", state.Resume}, &cobra.Command{
		Use:   "resume [RUN]",
		Short: "Resume interrupted runs",
		Long: "Resume an interrupted run, or all runs that the flags select. The run is queued, and a\n" +
			"runner with its program continues it from where it stopped. A run that was not started\n" +
			"by a runner is continued by the program that opens it.",
		Example: "  reprise resume refund-7\n" +
			"  reprise resume --reason divergence --program refund --since 2h --dry-run\n" +
			"  reprise resume --reason divergence --program refund --since 2h",
	})
}

func (a *app) retryCommand() *cobra.Command {
	return a.continueCommand(&continueAction{"retry", snapshot.StatusFailed, "is queued, and its failed calls are made again", state.Retry}, &cobra.Command{
		Use:   "retry [RUN]",
		Short: "Retry failed runs",
		Long: "Retry a failed run under its own ID, or all runs that the flags select. Calls that failed\n" +
			"permanently are made again with all their attempts, unless the program has handled their\n" +
			"failure and continued; completed calls are kept. A call that\n" +
			"failed in doubt may have taken effect, and is made again, too: check it first. The run is\n" +
			"queued, and a runner with its program continues it. A run that was not started by a\n" +
			"runner is interrupted until its program opens it, and then tries the failed calls again.\n" +
			"The flags do not select such runs.",
		Example: "  reprise retry refund-7\n" +
			"  reprise retry --reason exhausted --since 2h",
	})
}

func (a *app) continueCommand(what *continueAction, cmd *cobra.Command) *cobra.Command {
	var f continueFlags
	var dryRun bool
	cmd.GroupID = groupWork
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkSelection(cmd); err != nil {
			return err
		}
		chosen := f != continueFlags{}
		switch {
		case len(args) == 0 && !chosen:
			return usageErrorf("RUN is missing: name a run, or select runs with --status, --reason, --program or --since")
		case len(args) > 0 && chosen:
			return usageErrorf("RUN %s and flags that select runs: want one or the other", printable(args[0]))
		case len(args) > 1:
			return usageErrorf("%q is one argument too many: usage is %s", printable(args[1]), cmd.UseLine())
		case chosen:
			return a.continueAll(cmd.Context(), what, f, dryRun)
		case dryRun:
			return usageErrorf("RUN %s and --dry-run, which shows what flags select: want one or the other", printable(args[0]))
		}
		return a.continueOne(cmd.Context(), what, args[0])
	}
	cmd.ValidArgsFunction = a.completeRuns(1)
	flags := cmd.Flags()
	flags.StringVar(&f.status, "status", "", "runs with this `status`: "+string(what.status))
	flags.StringVar(&f.reason, "reason", "", "runs that were stopped, or failed, for this `reason`")
	flags.StringVar(&f.program, "program", "", "runs of this `program`")
	flags.StringVar(&f.since, "since", "", "runs updated at this `time` or later")
	flags.BoolVar(&dryRun, "dry-run", false, "only list the runs that the flags select")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{string(what.status)}, cobra.ShellCompDirectiveNoFileComp))
	for _, name := range []string{"reason", "program", "since"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

func (a *app) continueOne(ctx context.Context, what *continueAction, runID string) error {
	store, err := a.storeOf(runID)
	if err != nil {
		return err
	}
	info, err := what.resume(ctx, store, runID)
	switch {
	case err != nil:
		return a.explain(runID, err)
	case info.Status == snapshot.StatusPaused:
		return a.printUnchanged(ctx, store, info)
	case a.json:
		return a.writeJSON(map[string]string{"run_id": runID, "status": string(info.Status)})
	case info.Stop.Reason == record.InterruptRetry:
		a.printf("run %s is %s: %s\n", runID, info.Status, info.Stop.Message)
	case info.Status != snapshot.StatusQueued:
		return a.printUnchanged(ctx, store, info)
	default:
		a.printf("run %s %s; a runner with program %s continues it\n", runID, what.done, printable(info.Program))
	}
	return nil
}

// printUnchanged prints why a run need not be queued: it is already running, or it was answered. If
// the run is paused and still waits for something, printUnchanged returns an error that says for
// what.
func (a *app) printUnchanged(ctx context.Context, store snapshot.Store, info snapshot.Info) error {
	if info.Status != snapshot.StatusPaused {
		a.printf("run %s is %s and does not change\n", info.RunID, info.Status)
		return nil
	}
	waits, answers, err := waiting.For(ctx, store, info.RunID)
	switch {
	case err != nil:
		return a.explain(info.RunID, err)
	case answers:
		return fmt.Errorf("run %s is paused and waits for %s; to see how to answer: %s questions %s", info.RunID, printable(waits), a.command, info.RunID)
	case waits != "":
		return fmt.Errorf("run %s is paused and waits for %s", info.RunID, printable(waits))
	}
	if a.json {
		return a.writeJSON(map[string]string{"run_id": info.RunID, "status": string(info.Status)})
	}
	a.printf("run %s was answered, and continues when its program opens it\n", info.RunID)
	return nil
}

// continueAll continues the selected runs. If one cannot continue, the others still do. If dryRun is
// true, it only lists them.
func (a *app) continueAll(ctx context.Context, what *continueAction, f continueFlags, dryRun bool) error {
	since, err := a.parseTime("--since", f.since)
	if err != nil {
		return err
	}
	store, err := a.store()
	if err != nil {
		return err
	}
	if f.status != "" && f.status != string(what.status) {
		return usageErrorf("--status is %q: want %s", f.status, what.status)
	}
	choice := state.Selection{Reason: f.reason, Program: f.program, Since: since}
	chosen, err := choice.Each(ctx, store, what.status, func(ctx context.Context, runID string) error {
		if dryRun {
			return nil
		}
		_, err := what.resume(ctx, store, runID)
		return err
	})
	if errors.Is(err, state.ErrSelection) {
		return usageErrorf("%s", message(err))
	}
	failed := 0
	for _, one := range chosen {
		if one.Err != nil {
			failed++
		}
	}
	if listed := a.printContinued(what, chosen, failed, dryRun); listed != nil || err != nil {
		return errors.Join(err, listed)
	}
	if failed > 0 {
		return errReported
	}
	return nil
}

// printContinued writes the results for the selected runs.
func (a *app) printContinued(what *continueAction, chosen []state.SelectedRun, failed int, dryRun bool) error {
	if a.json {
		type line struct {
			RunID string `json:"run_id"`
			Error string `json:"error,omitempty"`
		}
		lines := make([]line, len(chosen))
		for i, one := range chosen {
			lines[i].RunID = one.RunID
			if one.Err != nil {
				lines[i].Error = message(one.Err)
			}
		}
		return a.writeJSON(lines)
	}
	for _, one := range chosen {
		switch {
		case one.Err != nil:
			fmt.Fprintf(a.stderr, "%s: %s\n", one.RunID, printable(oneLine(message(one.Err))))
		case dryRun:
			a.printf("%s\n", one.RunID)
		default:
			a.printf("run %s %s\n", one.RunID, what.done)
		}
	}
	switch {
	case len(chosen) == 0:
		fmt.Fprintln(a.stderr, "no runs")
		return nil
	case dryRun:
		fmt.Fprintf(a.stderr, "would %s %s\n", what.name, plural(len(chosen)-failed, "run"))
		return nil
	}
	text := plural(len(chosen)-failed, "run") + " queued"
	if failed > 0 {
		text += fmt.Sprintf(", %d of %d cannot %s", failed, len(chosen), what.name)
	}
	a.printf("%s\n", text)
	return nil
}
