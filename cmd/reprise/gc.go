package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

func (a *app) gcCommand() *cobra.Command {
	var (
		grace  time.Duration
		dryRun bool
	)
	cmd := &cobra.Command{
		Use:     "gc",
		GroupID: groupMaintain,
		Short:   "Remove artifacts that no run refers to",
		Long: "Remove artifacts that no run refers to and that are older than the grace period. Runs\n" +
			"may continue meanwhile: artifacts stored since an open run was opened are kept, because\n" +
			"the run may record them later. If any run cannot be read, nothing is removed.",
		Example: "  reprise gc --dry-run\n" +
			"  reprise gc --grace 24h",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if grace < 0 {
				return usageErrorf("--grace %v: want 0 or more", grace)
			}
			store, err := a.store()
			if err != nil {
				return err
			}
			if dryRun {
				return a.garbage(cmd.Context(), store, grace)
			}
			return a.gc(cmd.Context(), store, grace)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only list what would be removed")
	cmd.Flags().DurationVar(&grace, "grace", time.Hour, "the grace period: remove only artifacts older than this `duration`")
	return cmd
}

func (a *app) gc(ctx context.Context, store *filestore.Store, grace time.Duration) error {
	removed, err := store.GC(ctx, grace)
	switch {
	case err != nil:
		return a.gcError(ctx, err)
	case a.json:
		return a.writeJSON(map[string]int{"removed": removed})
	}
	a.printf("removed %s\n", plural(removed, "artifact"))
	return nil
}

// garbage lists the artifacts that gc would remove.
func (a *app) garbage(ctx context.Context, store *filestore.Store, grace time.Duration) error {
	references, err := store.Garbage(ctx, grace)
	switch {
	case err != nil:
		return a.gcError(ctx, err)
	case a.json:
		return a.writeJSON(map[string][]string{"would_remove": append([]string{}, references...)})
	}
	for _, ref := range references {
		a.printf("%s\n", ref)
	}
	fmt.Fprintf(a.stderr, "would remove %s\n", plural(len(references), "artifact"))
	return nil
}

// gcError adds a hint if err is about a run that verify reports too.
func (a *app) gcError(ctx context.Context, err error) error {
	if ctx.Err() != nil || !errors.Is(err, snapshot.ErrCorrupt) && !errors.Is(err, snapshot.ErrFormat) {
		return err
	}
	return &hintError{err, "`" + a.command + " verify` shows what cannot be read; repair or delete it first"}
}
