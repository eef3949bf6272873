package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer/stored"
)

func (a *app) cancelCommand() *cobra.Command {
	var message, by string
	cmd := &cobra.Command{
		Use:     "cancel RUN",
		GroupID: groupWork,
		Short:   "End a run permanently",
		Long: "End a run permanently, whether it is queued, paused, interrupted, or open in a program.\n" +
			"A program that has it open stops it, as for `reprise interrupt`. The run cannot be\n" +
			"resumed afterwards. Its records are kept. If the run has completed or failed, it does\n" +
			"not change, and the command fails.",
		Example: "  reprise cancel refund-7\n" +
			"  reprise cancel refund-7 --message 'the customer has changed her mind'",
		Args: exactArgs("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.cancel(cmd.Context(), args[0], by, message)
		},
		ValidArgsFunction: a.completeRuns(1),
	}
	a.stopFlags(cmd, &by, &message)
	return cmd
}

func (a *app) cancel(ctx context.Context, runID, by, message string) error {
	store, err := a.storeOf(runID)
	if err != nil {
		return err
	}
	if err = state.Cancel(ctx, store, runID, snapshot.Stop{By: by, Message: message}); err == nil {
		err = stored.AwaitStop(ctx, store, runID)
	}
	switch {
	case errors.Is(err, state.ErrEnded):
		return fmt.Errorf("%w; a run that has ended cannot be cancelled", err)
	case err != nil:
		return a.explain(runID, err)
	}
	found, err := store.Info(ctx, runID)
	if err != nil {
		return a.explain(runID, err)
	}
	if a.json {
		return a.writeJSON(map[string]string{"run_id": runID, "status": string(found.Status), "by": by, "message": message})
	}
	switch {
	case found.Status == snapshot.StatusCancelled:
		a.printf("run %s is cancelled (%s)\n", runID, printable(found.Stop.String()))
	case found.Open:
		a.printf("run %s was asked to stop, and will be cancelled when the program that has it open closes it\n", runID)
	default:
		a.printf("run %s will be cancelled: %s\n", runID, whoCompensates(&found))
	}
	return nil
}

// whoCompensates says who compensates the calls of a cancelled run, and thus how the run ends.
func whoCompensates(in *snapshot.Info) string {
	if in.Status == snapshot.StatusPaused {
		return "it ends when its calls are compensated; " + whatCompensationsAwait(in)
	}
	if in.Program == "" {
		return "its program compensates its calls when it opens the run, and then ends it"
	}
	return printable(fmt.Sprintf("a runner with program %s %s compensates its calls, and then ends it", in.Program, in.Version))
}

// whatCompensationsAwait says what a cancelled run is waiting for if it is paused in a
// compensation.
func whatCompensationsAwait(in *snapshot.Info) string {
	switch {
	case in.Summary.Asking == 0 && in.Due.IsZero():
		return "a compensation awaits a signal"
	case in.Summary.Asking == 0:
		return "a compensation continues at " + timeText(in.Due)
	case in.Due.IsZero():
		return "a compensation awaits an answer"
	}
	return "a compensation awaits an answer, or continues at " + timeText(in.Due)
}
