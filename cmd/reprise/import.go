package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/internal/runcopy"
	"github.com/reprise-go/reprise/snapshot"
)

func (a *app) importCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "import FILE [RUN]",
		GroupID: groupWork,
		Short:   "Import an exported run into this store",
		Long: "Import a run that `reprise export --format msgpack` wrote into this store, under its\n" +
			"own ID or as RUN. The whole run is imported, or nothing. The directory is created if it\n" +
			"does not exist. The file does not contain artifacts: copy the artifacts directory of the\n" +
			"other store too. If FILE is -, stdin is read.\n\n" +
			"A run that has not ended is interrupted until `reprise resume`, or until its program\n" +
			"opens it, and then continues where it stopped. The original run may continue, too: if\n" +
			"both do, the calls that are not in the file happen twice. As RUN, the new run's calls\n" +
			"also have new idempotency keys, so a call that was running may have its effect a second\n" +
			"time even if nothing else continues.",
		Example: "  reprise --dir old export weather-42 --format msgpack -o weather-42.run\n" +
			"  reprise --dir new import weather-42.run",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return exactArgs("FILE", "RUN")(cmd, args)
			}
			return exactArgs("FILE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			runID := ""
			if len(args) == 2 {
				runID = args[1]
			}
			return a.importRun(cmd.Context(), args[0], runID)
		},
	}
}

func (a *app) importRun(ctx context.Context, file, runID string) error {
	if runID != "" {
		if err := checkRunID(runID); err != nil {
			return err
		}
	}
	run, err := a.readRun(file)
	if err != nil {
		return err
	}
	imported := *run
	if runID != "" {
		imported.RunID = runID
	}
	runcopy.Hold(&imported.Info)
	store, err := a.storeToFill()
	if err != nil {
		return err
	}
	info, err := store.Create(ctx, &imported)
	if errors.Is(err, snapshot.ErrExists) {
		return fmt.Errorf("run %s already exists; choose another ID: `%s import %s RUN`", imported.RunID, a.command, shellWord(file))
	} else if err != nil {
		return a.explain(imported.RunID, err)
	}
	missing, err := missingArtifacts(ctx, store, run)
	if err != nil {
		return fmt.Errorf("run %s is imported, but an artifact cannot be read: %w", info.RunID, err)
	}
	if missing > 0 && !a.json {
		fmt.Fprintf(a.stderr, "reprise: run %s refers to %s that this store does not have; copy the artifacts directory of the other store\n",
			info.RunID, plural(missing, "artifact"))
	}
	if a.json {
		return a.writeJSON(struct {
			snapshot.Info
			MissingArtifacts int `json:"missing_artifacts"`
		}{info, missing})
	}
	a.printf("imported run %s (%s, %s)\n", info.RunID, plural(int(info.LastSeq), "record"), info.Status)
	if info.Status != snapshot.StatusInterrupted {
		return nil
	}
	a.printf("it does not continue by itself; %s\n", printable(a.howToContinue(&info)))
	if info.RunID != run.RunID {
		a.printf("its calls have new idempotency keys: calls of run %s without an outcome are made again, even if they have had effects\n", run.RunID)
	}
	return nil
}

// readRun reads an exported run and checks that all its records are readable.
func (a *app) readRun(file string) (*snapshot.Run, error) {
	in := a.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // the file was only read, so this error does not matter
		in = f
	}
	data, err := readDocument(in)
	if err != nil {
		return nil, err
	}
	run, err := snapshot.Decode(data)
	if err == nil {
		_, err = run.Snapshot()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return run, nil
}

// readDocument reads an exported run from in. If the beginning does not look like an exported run,
// readDocument stops there, because in may be endless.
func readDocument(in io.Reader) ([]byte, error) {
	data := make([]byte, 64) // long enough to recognize a document
	n, err := io.ReadFull(in, data)
	data = data[:n]
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return data, nil
	case err != nil || !snapshot.IsDocument(data):
		return data, err
	}
	rest, err := io.ReadAll(in)
	return append(data, rest...), err
}

// missingArtifacts counts the artifacts of a run that the store does not have, or has damaged.
func missingArtifacts(ctx context.Context, store snapshot.ArtifactStore, run *snapshot.Run) (missing int, err error) {
	known := make(map[string]bool)
	for rec, err := range run.Records() {
		if err != nil {
			return 0, err
		}
		for ref := range rec.Artifacts() {
			if known[ref] {
				continue
			}
			known[ref] = true
			_, err := store.Get(ctx, ref)
			switch {
			case err == nil:
			case errors.Is(err, snapshot.ErrNotFound), errors.Is(err, snapshot.ErrCorrupt):
				missing++
			default:
				return 0, err
			}
		}
	}
	return missing, nil
}
