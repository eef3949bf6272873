package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// repairJSON is the JSON form of a filestore.RepairReport.
type repairJSON struct {
	RunID   string   `json:"run_id"`
	Damaged bool     `json:"damaged"`
	Kept    uint64   `json:"kept"`
	Lost    uint64   `json:"lost"`
	Damage  string   `json:"damage,omitempty"`
	Files   []string `json:"damaged_files,omitempty"`
}

func (a *app) repairCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "repair RUN",
		GroupID: groupMaintain,
		Short:   "Repair a damaged run so that it can be opened",
		Long: "Repair a damaged run so that it can be opened. The command keeps the records before the\n" +
			"first damage, which are an earlier state of the run. The damaged files stay in the\n" +
			"directory of the run, as *.damaged. A run that is not damaged does not change.\n\n" +
			"Calls whose outcomes come after the damage are made again when the run continues, even\n" +
			"those that must be made only once. The command warns about this and exits with 1. A\n" +
			"service may use the directory meanwhile: a run that has lost records, or may have lost\n" +
			"some, is interrupted, and continues only after `reprise resume`, or when its program\n" +
			"opens it.",
		Example: "  reprise verify weather-42\n" +
			"  reprise repair weather-42",
		Args: exactArgs("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.repair(cmd.Context(), args[0])
		},
		ValidArgsFunction: a.completeRuns(1),
	}
}

func (a *app) repair(ctx context.Context, runID string) error {
	store, err := a.storeOf(runID)
	if err != nil {
		return err
	}
	report, err := store.Repair(ctx, runID)
	if errors.Is(err, snapshot.ErrCorrupt) {
		return err // no hint, because the user has just tried to repair the run
	} else if err != nil {
		return a.explain(runID, err)
	}
	if err := a.printRepaired(&report); err != nil || report.IsWhole {
		return err
	}
	repaired, err := store.Info(ctx, runID)
	if err != nil {
		return a.explain(runID, err)
	}
	return &lostError{report.RunID, report.Lost, a.howToContinue(&repaired), a.dir, a.command}
}

func (a *app) printRepaired(report *filestore.RepairReport) error {
	if a.json {
		out := repairJSON{RunID: report.RunID, Kept: report.Kept, Lost: report.Lost, Files: report.Damaged}
		if report.Damage != nil {
			out.Damaged, out.Damage = true, message(report.Damage)
		}
		return a.writeJSON(out)
	}
	if report.Damage == nil {
		a.printf("run %s is not damaged (%s); nothing was done\n", report.RunID, plural(int(report.Kept), "record"))
		return nil
	}
	a.printf("%s\n", printable(message(report.Damage)))
	a.printf("repaired: %s kept, %d known to be lost\n", plural(int(report.Kept), "record"), report.Lost)
	if len(report.Damaged) > 0 {
		a.printf("the damaged files are in the directory of the run: %s\n", strings.Join(report.Damaged, ", "))
	}
	return nil
}

// A lostError reports that a run lost records in a repair.
type lostError struct {
	runID         string
	n             uint64
	howToContinue string
	dir, command  string
}

func (e *lostError) Error() string {
	lost := "an unknown number of records"
	if e.n > 0 {
		lost = plural(int(e.n), "record")
	}
	return fmt.Sprintf("WARNING: run %s lost %s: calls whose outcomes were lost are made again when it continues, even those that must be made only once; "+
		"it does not continue by itself: first check with `%s show %s`, and in %s/artifacts, what is left of them; %s; to end it instead: %s cancel %s",
		e.runID, lost, e.command, e.runID, e.dir, e.howToContinue, e.command, e.runID)
}
