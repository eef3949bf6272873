package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/snapshot"
)

func (a *app) deleteCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:     "delete RUN",
		GroupID: groupMaintain,
		Aliases: []string{"rm"},
		Short:   "Delete a run",
		Long: "Delete a run permanently. The command asks first, unless --yes is given. Artifacts are\n" +
			"kept until `reprise gc`, since other runs may refer to them.",
		Example: "  reprise delete weather-42\n" +
			"  reprise delete --yes weather-42",
		Args: exactArgs("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.delete(cmd.Context(), args[0], yes)
		},
		ValidArgsFunction: a.completeRuns(1),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// errNotConfirmed means that the user did not confirm a deletion.
var errNotConfirmed = errors.New("nothing was deleted")

func (a *app) delete(ctx context.Context, runID string, yes bool) error {
	if err := checkRunID(runID); err != nil {
		return err
	}
	store, err := a.store()
	if err != nil {
		return err
	}
	if !yes {
		// Ignore other errors, since a damaged run can be deleted.
		if _, err := store.Load(ctx, runID); errors.Is(err, snapshot.ErrNotFound) {
			return a.explain(runID, err)
		}
		if err := a.confirm(ctx, fmt.Sprintf("Delete run %s permanently?", runID)); err != nil {
			return err
		}
	}
	if err := store.Delete(ctx, runID); err != nil {
		return a.explain(runID, err)
	}
	if a.json {
		return a.writeJSON(map[string]string{"deleted": runID})
	}
	a.printf("deleted %s\n", runID)
	return nil
}

// confirm asks the user at the terminal. Only y and yes confirm.
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
