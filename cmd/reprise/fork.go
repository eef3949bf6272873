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
		Short:   "Begin a new run from the records of another before a call",
		Long: "Begin the run NEW from the records of RUN before the call at ADDRESS. The program\n" +
			"that opens NEW has the outcomes of the earlier calls, and makes that call and all\n" +
			"later ones again, with the idempotency keys that they have in RUN. RUN does not change.\n" +
			"Calls that RUN has compensated cannot be kept: NEW then begins at or before them.\n\n" +
			"Calls behind ADDRESS may have had effects: those that are irreversible, that have a\n" +
			"compensation, or that are in doubt. If there are any, nothing is written and they are\n" +
			"listed, until --take-over or --repeat-effects decides about them. NEW never repeats what\n" +
			"an irreversible call did: it takes the effect over, or asks.",
		Example: "  reprise fork weather-42 assistant/get_weather weather-42-again\n" +
			"  reprise fork weather-42 'assistant/get_weather#2' second-try\n" +
			"  reprise fork weather-42 assistant/get_weather sunny --set 'assistant/get_weather={\"temp\": 31}'",
		Args: exactly("RUN", "ADDRESS", "NEW"),
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
	cmd.Flags().BoolVar(&options.NewKeys, "new-keys", false, "give the calls of NEW idempotency keys of their own")
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "let NEW take over what irreversible calls behind ADDRESS did")
	cmd.Flags().BoolVar(&repeat, "repeat-effects", false, "let NEW also repeat the effects of the other calls behind ADDRESS")
	cmd.Flags().StringArrayVar(&outputs, "set", nil, "set another output of a recorded call, or another answer to a question: ADDRESS=JSON or QUESTION=JSON; may be repeated")
	return cmd
}

// parseOutputs parses the values of --set.
func parseOutputs(set []string) (map[string]any, error) {
	outputs := make(map[string]any, len(set))
	for _, s := range set {
		key, text, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return nil, usagef("--set %q: want ADDRESS=JSON, such as 'trip/book={\"id\": 7}', or QUESTION=JSON", s)
		}
		value, err := state.JSONAnswer([]byte(text))
		if err != nil {
			return nil, usagef("--set %s: %q is not JSON: %v", key, text, err)
		}
		if _, twice := outputs[key]; twice {
			return nil, usagef("--set %s: it is set twice", key)
		}
		outputs[key] = value
	}
	return outputs, nil
}

func (a *app) fork(ctx context.Context, runID, path, newID string, options state.ForkOptions) error {
	address, err := record.ParseAddress(path)
	if err != nil {
		return usagef("%s", message(err))
	}
	if err := checkRunID(newID); err != nil {
		return err
	}
	store, found, err := a.load(ctx, runID)
	if err != nil {
		return err
	}
	if addresses := addressesOf(found); !slices.Contains(addresses, address.String()) {
		return a.noCall(runID, address, addresses)
	}
	behind, err := state.CallsBehind(ctx, store, runID, address, options)
	if err != nil {
		return a.explain(runID, err)
	}
	if err := state.Fork(ctx, store, runID, address, newID, options); errors.Is(err, snapshot.ErrExists) {
		return fmt.Errorf("run %s exists already; choose another ID", newID)
	} else if refused := (*state.EffectsError)(nil); errors.As(err, &refused) {
		return a.refuseEffects(runID, address, refused.Calls)
	} else if err != nil {
		return a.explain(runID, err)
	}
	forked, err := store.Load(ctx, newID)
	if err != nil {
		return a.explain(newID, err)
	}
	if a.json {
		return a.writeJSON(forkedRun{forked.Info, behind})
	}
	for _, c := range behind {
		what := "will be repeated"
		if c.Irreversible {
			what = "will not be repeated: its effect is taken over, or the run asks"
		}
		a.printf("%s %s\n", printable(c.String()), what)
	}
	a.printf("run %s begins before %s of run %s, with %s; open it to go on\n",
		newID, printable(address.String()), runID, plural(forked.Len(), "record"))
	return nil
}

// forkedRun is the new run, with the calls of the old one that it does not keep.
type forkedRun struct {
	snapshot.Info
	Behind []state.BehindCall `json:"behind,omitempty"`
}

// refuseEffects lists the calls that somebody has to decide about.
func (a *app) refuseEffects(runID string, address record.Address, behind []state.BehindCall) error {
	calls := make([]string, len(behind))
	decision, compensable := "--take-over, so that the new run takes over what they did", false
	for i, c := range behind {
		if calls[i] = printable(c.String()); !c.Irreversible {
			decision = "--repeat-effects, so that the new run makes those again that are not irreversible"
		}
		compensable = compensable || c.Compensable
	}
	if compensable {
		decision += "; or compensate them first: a run that is cancelled does"
	}
	return fmt.Errorf("run %s has calls with effects behind %s: %s; decide with %s", runID, printable(address.String()), strings.Join(calls, ", "), decision)
}

// addressesOf are those of the calls of a run, in the order of their
// beginning.
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

// maxAddresses is how many addresses an error lists.
const maxAddresses = 10

func (a *app) noCall(runID string, address record.Address, addresses []string) error {
	switch n := len(addresses); {
	case n == 0:
		return fmt.Errorf("run %s has no calls to fork at", runID)
	case n > maxAddresses:
		return fmt.Errorf("run %s has no call at %s; its first calls of %d are %s, and `%s export %s` has all",
			runID, address, n, strings.Join(addresses[:maxAddresses], ", "), a.command, runID)
	}
	return fmt.Errorf("run %s has no call at %s; its calls are %s", runID, address, strings.Join(addresses, ", "))
}
