package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func (a *app) forkCommand() *cobra.Command {
	var options state.ForkOptions
	var takeOver, repeat bool
	var outputs []string
	cmd := &cobra.Command{
		Use:     "fork RUN ADDRESS NEW",
		GroupID: groupWork,
		Short:   "Start a new run from a call of another run",
		Long: "Create the run NEW from the records of RUN before the call at ADDRESS. The program that\n" +
			"opens NEW reuses the outcomes of the earlier calls. It makes the call at ADDRESS and all\n" +
			"later calls again, with the same idempotency keys as in RUN. RUN does not change. NEW\n" +
			"cannot keep calls that RUN has compensated: fork at or before them.\n\n" +
			"Calls after ADDRESS may have had effects: irreversible calls, calls with a compensation,\n" +
			"and calls in doubt. If there are any, the command lists them and does nothing, unless\n" +
			"--take-over or --repeat-effects is given. NEW never repeats the effect of an\n" +
			"irreversible call: it takes the effect over, or asks. Other tools that have completed\n" +
			"after ADDRESS are called again; the command lists them.",
		Example: "  reprise fork weather-42 assistant/get_weather weather-42-again\n" +
			"  reprise fork weather-42 'assistant/get_weather#2' second-try\n" +
			"  reprise fork weather-42 assistant/get_weather sunny --set 'assistant/get_weather={\"temp\": 31}'",
		Args: exactArgs("RUN", "ADDRESS", "NEW"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if options.Outputs, err = parseOutputs(outputs); err != nil {
				return err
			}
			switch {
			case repeat:
				options.Effects = state.RepeatEffects
			case takeOver:
				options.Effects = state.TakeOverEffects
			}
			return a.fork(cmd.Context(), args[0], args[1], args[2], options)
		},
		ValidArgsFunction: a.completeAddresses,
	}
	cmd.Flags().BoolVar(&options.NewKeys, "new-keys", false, "give the calls of NEW new idempotency keys")
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "let NEW take over the effects of irreversible calls after ADDRESS")
	cmd.Flags().BoolVar(&repeat, "repeat-effects", false, "let NEW also repeat the effects of the other calls after ADDRESS")
	cmd.Flags().StringArrayVar(&outputs, "set", nil, "replace the output of a recorded call or the answer to a question: ADDRESS=JSON or QUESTION=JSON; may be repeated")
	return cmd
}

// parseOutputs parses the values of --set.
func parseOutputs(set []string) (map[string]any, error) {
	outputs := make(map[string]any, len(set))
	for _, s := range set {
		key, text, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return nil, usageErrorf("--set %q: want ADDRESS=JSON, such as 'trip/book={\"id\": 7}', or QUESTION=JSON", s)
		}
		value, err := state.JSONAnswer([]byte(text))
		if err != nil {
			return nil, usageErrorf("--set %s: %q is not JSON: %v", key, text, err)
		}
		if _, twice := outputs[key]; twice {
			return nil, usageErrorf("--set %s: set twice", key)
		}
		outputs[key] = value
	}
	return outputs, nil
}

func (a *app) fork(ctx context.Context, runID, path, newID string, options state.ForkOptions) error {
	address, err := record.ParseAddress(path)
	if err != nil {
		return usageErrorf("%s", message(err))
	}
	if err := checkRunID(newID); err != nil {
		return err
	}
	store, found, err := a.load(ctx, runID)
	if err != nil {
		return err
	}
	if addresses := addressesOf(found); !slices.Contains(addresses, address.String()) {
		return a.noCallError(runID, address, addresses)
	}
	effects, err := state.EffectsAfter(ctx, store, runID, address, options)
	if err != nil {
		return a.explain(runID, err)
	}
	if err := state.Fork(ctx, store, runID, address, newID, options); errors.Is(err, snapshot.ErrExists) {
		return fmt.Errorf("run %s already exists; choose another ID", newID)
	} else if refused := (*state.EffectsError)(nil); errors.As(err, &refused) {
		return a.refuseEffects(&found.Info, address, refused.Calls)
	} else if err != nil {
		return a.explain(runID, err)
	}
	forked, err := store.Load(ctx, newID)
	if err != nil {
		return a.explain(newID, err)
	}
	repeated, err := repeatedTools(found, forked, effects)
	if err != nil {
		return a.explain(newID, err)
	}
	if a.json {
		return a.writeJSON(forkedRun{forked.Info, effects, repeated})
	}
	for _, c := range effects {
		what := "will be repeated"
		if c.Irreversible {
			what = "will not be repeated: its effect is taken over, or the run asks"
		}
		a.printf("%s %s\n", printable(c.String()), what)
	}
	for i, tool := range repeated {
		if i == maxAddresses {
			a.printf("and %s will be called again\n", plural(len(repeated)-i, "more tool call"))
			break
		}
		a.printf("%s will be called again: it has completed in run %s\n", printable(tool.String()), runID)
	}
	a.printf("run %s begins before %s of run %s, with %s; %s\n",
		newID, printable(address.String()), runID, plural(forked.Len(), "record"), a.howToContinueFork(&forked.Info))
	return nil
}

func (a *app) howToContinueFork(forked *snapshot.Info) string {
	if forked.Program == "" {
		return "open it to continue"
	}
	return fmt.Sprintf("`%s resume %s` gives it to a runner with program %s %s", a.command, forked.RunID, printable(forked.Program), printable(forked.Version))
}

// forkedRun describes the new run, and the old run's calls that the new run does not keep.
type forkedRun struct {
	snapshot.Info
	Effects  []state.EffectCall `json:"effects,omitempty"`
	Repeated []record.Address   `json:"repeated,omitempty"` // other tool calls that completed
}

// repeatedTools returns the tool calls that completed in the old run and that the fork will make
// again, except those in effects, in the order in which they completed.
func repeatedTools(old *snapshot.Snapshot, fork *snapshot.Run, effects []state.EffectCall) (repeated []record.Address, err error) {
	listed := make(map[record.Address]bool)
	for _, c := range effects {
		listed[c.Address] = true
	}
	for r, err := range fork.Scan() {
		if err != nil {
			return nil, err
		}
		if r.IsOutcome() {
			listed[r.Address] = true
		}
	}
	for i := range old.Records {
		r := &old.Records[i]
		if r.Kind == record.KindTool && r.Status == record.StatusCompleted && !listed[r.Address] {
			listed[r.Address] = true
			repeated = append(repeated, r.Address)
		}
	}
	return repeated, nil
}

// refuseEffects returns an error that lists the calls whose effects need a decision.
func (a *app) refuseEffects(found *snapshot.Info, address record.Address, effects []state.EffectCall) error {
	calls := make([]string, len(effects))
	decision, compensable := "--take-over, so that the new run takes over their effects", false
	for i, c := range effects {
		if calls[i] = printable(c.String()); !c.Irreversible {
			decision = "--repeat-effects, so that the new run repeats the calls that are not irreversible"
		}
		compensable = compensable || c.Compensable && !c.CompensationFailed
	}
	if compensable && !found.Status.HasEnded() { // a run that has ended cannot be cancelled
		decision += "; or compensate them first by cancelling the run"
	}
	return fmt.Errorf("run %s has calls with effects after %s: %s; decide with %s", found.RunID, printable(address.String()), strings.Join(calls, ", "), decision)
}

// addressesOf returns the addresses of a run's calls, in the order in which the calls began.
func addressesOf(found *snapshot.Snapshot) []string {
	var addresses []string
	seen := make(map[record.Address]bool)
	for i := range found.Records {
		if r := &found.Records[i]; r.Kind.IsCall() && !seen[r.Address] {
			seen[r.Address] = true
			addresses = append(addresses, r.Address.String())
		}
	}
	return addresses
}

// maxAddresses is the maximum number of addresses listed in an error.
const maxAddresses = 10

func (a *app) noCallError(runID string, address record.Address, addresses []string) error {
	switch n := len(addresses); {
	case n == 0:
		return fmt.Errorf("run %s has no calls to fork at", runID)
	case n > maxAddresses:
		return fmt.Errorf("run %s has no call at %s; the first of its %d calls are %s; `%s export %s` lists all",
			runID, address, n, strings.Join(addresses[:maxAddresses], ", "), a.command, runID)
	}
	return fmt.Errorf("run %s has no call at %s; its calls are %s", runID, address, strings.Join(addresses, ", "))
}
