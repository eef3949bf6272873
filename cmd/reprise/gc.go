package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) gcCommand() *cobra.Command {
	var grace time.Duration
	cmd := &cobra.Command{
		Use:     "gc",
		GroupID: groupKeep,
		Short:   "Remove artifacts that no run refers to",
		Long: "Remove artifacts that no run refers to and that are older than the grace. Runs\n" +
			"may go on meanwhile; the grace is for those that have stored an artifact and not\n" +
			"yet recorded it. If any run cannot be read, nothing is removed.",
		Example: "  reprise gc\n" +
			"  reprise gc --grace 24h",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.gc(cmd.Context(), grace)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().DurationVar(&grace, "grace", time.Hour, "how old an artifact must be, as a `duration`")
	return cmd
}

func (a *app) gc(ctx context.Context, grace time.Duration) error {
	if grace < 0 {
		return usagef("--grace %v: allowed is 0 and more", grace)
	}
	store, err := a.store()
	if err != nil {
		return err
	}
	removed, err := store.GC(ctx, grace)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return &hintError{err, "`reprise verify` tells what cannot be read; repair or delete it first"}
	case a.json:
		return a.writeJSON(map[string]int{"removed": removed})
	}
	a.printf("removed %s\n", plural(removed, "artifact"))
	return nil
}
