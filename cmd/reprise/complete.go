package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// completeRuns completes IDs of runs, in up to n arguments, or in all for 0.
func (a *app) completeRuns(n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if n > 0 && len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.runIDs(cmd.Context(), args, begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// runIDs are those that begin so and are not among the arguments, the last
// updated first, with their status. Where something is wrong there are none:
// a completion has nobody to tell.
func (a *app) runIDs(ctx context.Context, args []string, begun string) []string {
	store, err := a.store()
	if err != nil {
		return nil
	}
	infos, err := store.List(ctx, snapshot.Filter{})
	if err != nil {
		return nil
	}
	var ids []string
	for i := range infos.Runs {
		if in := &infos.Runs[i]; strings.HasPrefix(in.RunID, begun) && !slices.Contains(args, in.RunID) {
			ids = append(ids, cobra.CompletionWithDesc(in.RunID, string(in.Status)))
		}
	}
	return ids
}

// completeAddresses completes the arguments of fork.
func (a *app) completeAddresses(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	switch len(args) {
	case 0:
		return a.runIDs(cmd.Context(), nil, begun), directive
	case 1:
		_, found, err := a.load(cmd.Context(), args[0])
		if err != nil {
			return nil, directive
		}
		return slices.DeleteFunc(addressesOf(found), func(address string) bool {
			return !strings.HasPrefix(address, begun)
		}), directive
	}
	return nil, directive
}

// completeQuestions completes the arguments of answer.
func (a *app) completeQuestions(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	switch len(args) {
	case 0:
		return a.runIDs(cmd.Context(), nil, begun), directive
	case 1:
		store, _, err := a.load(cmd.Context(), args[0])
		if err != nil {
			return nil, directive
		}
		open, err := state.Questions(cmd.Context(), store, args[0])
		if err != nil {
			return nil, directive
		}
		var ids []string
		for _, q := range open {
			if strings.HasPrefix(q.ID, begun) {
				ids = append(ids, cobra.CompletionWithDesc(q.ID, printable(q.Text)))
			}
		}
		return ids, directive
	}
	return nil, directive
}
