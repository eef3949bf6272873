package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer/stored"
)

func (a *app) interruptCommand() *cobra.Command {
	var message, by string
	cmd := &cobra.Command{
		Use:     "interrupt RUN",
		GroupID: groupWork,
		Short:   "Ask the program that runs a run to stop",
		Long: "Ask the program that has a run open to stop it, even during a wait. When the run is\n" +
			"resumed, it continues from where it stopped. If no program has the run open, it does\n" +
			"not change, and the command fails.",
		Example: "  reprise interrupt weather-42\n" +
			"  reprise interrupt weather-42 --message 'a new version is being rolled out'",
		Args: exactArgs("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.interrupt(cmd.Context(), args[0], by, message)
		},
		ValidArgsFunction: a.completeRuns(1),
	}
	a.stopFlags(cmd, &by, &message)
	return cmd
}

// stopFlags adds the flags shared by the commands that stop a run.
func (a *app) stopFlags(cmd *cobra.Command, by, message *string) {
	cmd.Flags().StringVar(message, "message", "", "the reason, a `text` that is shown with the run")
	_ = cmd.RegisterFlagCompletionFunc("message", cobra.NoFileCompletions)
	a.byFlag(cmd, by, "`who` asks")
}

// byFlag adds the flag --by.
func (a *app) byFlag(cmd *cobra.Command, by *string, usage string) {
	cmd.Flags().StringVar(by, "by", a.user(), usage+"; your user name by default")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.NoFileCompletions)
}

// user returns the user's name from the environment or the operating system, or "reprise" if
// neither knows it.
func (a *app) user() string {
	if name := a.getenv("USER"); name != "" {
		return name
	}
	return cmp.Or(a.username(), "reprise")
}

func (a *app) interrupt(ctx context.Context, runID, by, message string) error {
	store, err := a.storeOf(runID)
	if err != nil {
		return err
	}
	if err = state.Interrupt(ctx, store, runID, snapshot.Stop{By: by, Message: message}); err == nil {
		err = stored.AwaitStop(ctx, store, runID)
	}
	switch {
	case errors.Is(err, state.ErrNotRunning):
		return fmt.Errorf("%w; `%s runs --status running` lists the runs that can be interrupted", err, a.command)
	case err != nil:
		return a.explain(runID, err)
	case a.json:
		return a.writeJSON(map[string]string{"run_id": runID, "by": by, "message": message})
	}
	a.printf("run %s was asked to stop; its calls end when they notice\n", runID)
	return nil
}
