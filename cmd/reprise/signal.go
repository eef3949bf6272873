package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/state"
)

func (a *app) signalCommand() *cobra.Command {
	var o state.SignalOptions
	cmd := &cobra.Command{
		Use:     "signal RUN NAME JSON-VALUE",
		GroupID: groupWork,
		Short:   "Send a signal to a run",
		Long: "Send a signal to a run, even while a program has the run open. A signal tells the run\n" +
			"about an external event. The value is JSON: true, 42, \"a string in quotes\",\n" +
			"{\"amount\": 3}. The signal is stored until the run receives it by its name, with\n" +
			"core.Receive. Signals with the same name are received in the order in which they were\n" +
			"sent. If several have the same --id, the first counts. A run that waits for the signal\n" +
			"continues when a program resumes it. Write -- before a value that begins with a minus\n" +
			"sign.",
		Example: "  reprise signal ticket-7 called '{\"at\": \"10:00\"}'\n" +
			"  reprise signal ticket-7 paid 40 --id invoice-17 --by bank",
		Args: exactArgs("RUN", "NAME", "JSON-VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.signal(cmd.Context(), args[0], args[1], args[2], o)
		},
		ValidArgsFunction: a.completeRuns(1),
	}
	cmd.Flags().StringVar(&o.ID, "id", "", "the `ID` of the signal, unique within the run; random by default")
	a.byFlag(cmd, &o.By, "`who` sends it")
	return cmd
}

func (a *app) signal(ctx context.Context, runID, name, text string, o state.SignalOptions) error {
	value, err := state.JSONAnswer([]byte(text))
	if err != nil {
		return usageErrorf("the value is not JSON: %v; put a string in double quotes, and for the shell, put those in single quotes: '\"yes\"'", err)
	}
	store, err := a.storeOf(runID)
	if err != nil {
		return err
	}
	if o.ID == "" { // the output contains it, so that the signal can be sent again
		o.ID = strings.ToLower(rand.Text())
	}
	err = state.Signal(ctx, store, runID, name, value, o)
	if errors.Is(err, state.ErrEnded) || errors.Is(err, state.ErrSignal) || errors.Is(err, state.ErrTooManySignals) {
		return fmt.Errorf("%w; nothing was sent", err)
	} else if err != nil {
		return a.explain(runID, err)
	}
	if a.json {
		return a.writeJSON(map[string]any{"run_id": runID, "signal": name, "id": o.ID, "by": o.By})
	}
	a.printf("signal %s was sent to run %s and is stored until the run receives it\n", printable(name), runID)
	return nil
}
