package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// completeRuns returns a function that completes run IDs in the first n arguments, or
// in all arguments if n is 0.
func (a *app) completeRuns(n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if n > 0 && len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.runIDs(cmd.Context(), args, prefix), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// runIDs returns the IDs that have the given prefix and are not in args, each with its run's
// status, most recently updated first. If there is an error, runIDs returns nil, because a
// completion cannot report errors.
func (a *app) runIDs(ctx context.Context, args []string, prefix string) []string {
	store, err := a.store()
	if err != nil {
		return nil
	}
	var ids []string
	for info, err := range snapshot.Runs(ctx, store, snapshot.Filter{}) {
		if err != nil {
			return nil
		}
		if strings.HasPrefix(info.RunID, prefix) && !slices.Contains(args, info.RunID) {
			ids = append(ids, cobra.CompletionWithDesc(info.RunID, string(info.Status)))
		}
	}
	return ids
}

// completeAddresses completes the arguments of the command fork.
func (a *app) completeAddresses(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	switch len(args) {
	case 0:
		return a.runIDs(cmd.Context(), nil, prefix), directive
	case 1:
		_, found, err := a.load(cmd.Context(), args[0])
		if err != nil {
			return nil, directive
		}
		return slices.DeleteFunc(addressesOf(found), func(address string) bool {
			return !strings.HasPrefix(address, prefix)
		}), directive
	}
	return nil, directive
}

// completeQuestions completes the arguments of the command answer.
func (a *app) completeQuestions(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	switch len(args) {
	case 0:
		return a.runIDs(cmd.Context(), nil, prefix), directive
	case 1:
		store, err := a.storeOf(args[0])
		if err != nil {
			return nil, directive
		}
		open, err := state.Questions(cmd.Context(), store, args[0])
		if err != nil {
			return nil, directive
		}
		var ids []string
		for _, q := range open {
			if strings.HasPrefix(q.ID, prefix) {
				ids = append(ids, cobra.CompletionWithDesc(q.ID, printable(q.Text)))
			}
		}
		return ids, directive
	}
	return nil, directive
}
