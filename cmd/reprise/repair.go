package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/snapshot"
)

// repaired is a snapshot.RepairReport in JSON.
type repaired struct {
	RunID   string   `json:"run_id"`
	Damaged bool     `json:"damaged"`
	Kept    int      `json:"kept"`
	Lost    uint64   `json:"lost"`
	Damage  string   `json:"damage,omitempty"`
	Files   []string `json:"damaged_files,omitempty"`
}

func (a *app) repairCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "repair RUN",
		GroupID: groupKeep,
		Short:   "Save what can be read of a damaged run",
		Long: "Save what can be read of a damaged run: the records that are whole become the\n" +
			"run. The damaged files stay in the directory of the run, as *.damaged. A run that\n" +
			"is whole stays as it is.\n\n" +
			"A run that lost records is no longer completed, unless the record is left with\n" +
			"which it ended. What lost its outcome runs again when it is resumed, also what was\n" +
			"to happen only once. The command warns of that, and exits with 1.",
		Example: "  reprise verify weather-42\n" +
			"  reprise repair weather-42",
		Args: exactly("RUN"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.repair(args[0])
		},
		ValidArgsFunction: a.completeRuns(1),
	}
}

func (a *app) repair(runID string) error {
	if err := checkRunID(runID); err != nil {
		return err
	}
	if _, err := a.store(); err != nil {
		return err
	}
	report, err := snapshot.Repair(a.dir, runID)
	if errors.Is(err, snapshot.ErrCorrupt) {
		return err // and advice to repair it would be of no use
	} else if err != nil {
		return a.explain(runID, err)
	}
	if err := a.repaired(&report); err != nil || report.Lost == 0 {
		return err
	}
	return &lostError{report.RunID, report.Lost, a.dir, a.command}
}

func (a *app) repaired(report *snapshot.RepairReport) error {
	if a.json {
		out := repaired{RunID: report.RunID, Kept: report.Kept, Lost: report.Lost, Files: report.Damaged}
		if report.Damage != nil {
			out.Damaged, out.Damage = true, message(report.Damage)
		}
		return a.writeJSON(out)
	}
	if report.Damage == nil {
		a.printf("run %s is whole (%s); nothing was done\n", report.RunID, plural(report.Kept, "record"))
		return nil
	}
	a.printf("%s\n", printable(message(report.Damage)))
	a.printf("repaired: %s kept, %d known to be lost\n", plural(report.Kept, "record"), report.Lost)
	a.printf("the damaged files are in %s/%s: %s\n", a.runsDir(), report.RunID, strings.Join(report.Damaged, ", "))
	return nil
}

// lostError is a run that was repaired and has lost records.
type lostError struct {
	runID        string
	n            uint64
	dir, command string
}

func (e *lostError) Error() string {
	return fmt.Sprintf("WARNING: run %s lost %s: calls whose outcomes were lost are made again when it is opened, also those that must happen only once; "+
		"before you open it, see with `%s show %s` and in %s/artifacts what is left of them, or leave it as it is and go on in a fork from a call before the loss, with `%s fork`",
		e.runID, plural(e.n, "record"), e.command, e.runID, e.dir, e.command)
}
