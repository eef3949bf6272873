package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/config"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func (a *app) configCommand() *cobra.Command {
	parent := &cobra.Command{
		Use:     "config",
		Short:   "Check retry configuration",
		Long:    "Check retry configuration documents, which programs read with config.ReadFile.",
		Example: "  reprise config check retry.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageErrorf("reprise config needs a command: check; see reprise config --help")
		},
	}
	parent.AddCommand(&cobra.Command{
		Use:   "check FILE",
		Short: "Report the problems of a document, or show its settings",
		Long: "Read a YAML or JSON retry configuration and write every problem in it with its line\n" +
			"and column. If there are none, write the configuration of each kind of call, including\n" +
			"the defaults. Exits with 1 if there is a problem.",
		Example: "  reprise config check retry.yaml\n" +
			"  reprise config check --json retry.json",
		Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.checkConfig(cmd.Context(), args[0])
		},
	})
	return parent
}

// configProblem is the JSON form of a config.Problem.
type configProblem struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Key    string `json:"key"`
	Text   string `json:"text"`
}

func (a *app) checkConfig(_ context.Context, name string) error {
	document, err := config.ReadFile(name)
	var bad *config.Error
	switch {
	case errors.As(err, &bad):
		return a.reportProblems(name, bad)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("there is no file %s", name)
	case err != nil:
		return err
	}
	levels, err := levelsOf(document)
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(struct {
			OK    bool                 `json:"ok"`
			Retry snapshot.RetryLevels `json:"retry"`
		}{true, levels})
	}
	a.printf("ok       %s (%s)\n", printable(name), plural(len(levels), "level"))
	for _, key := range slices.Sorted(maps.Keys(levels)) {
		a.printf("%s: %s\n", printable(key), levels[key])
	}
	return nil
}

func (a *app) reportProblems(name string, bad *config.Error) error {
	if a.json {
		problems := make([]configProblem, len(bad.Problems))
		for i, p := range bad.Problems {
			problems[i] = configProblem{p.Line, p.Column, p.Key, p.Text}
		}
		if err := a.writeJSON(struct {
			OK       bool            `json:"ok"`
			Problems []configProblem `json:"problems"`
		}{false, problems}); err != nil {
			return err
		}
		return errReported
	}
	for _, p := range bad.Problems {
		a.printf("%s\n", printable(oneLine(p.String())))
	}
	return fmt.Errorf("%s in %s", plural(len(bad.Problems), "problem"), name)
}

// levelsOf returns the retry levels of a document with defaults filled in.
func levelsOf(d *config.Document) (snapshot.RetryLevels, error) {
	levels := make(snapshot.RetryLevels)
	add := func(key string, r config.Retry) error {
		level, err := state.RetryLevel(r.Config())
		if err == nil {
			levels[key] = level
		}
		return err
	}
	var errs []error
	if d.All != nil {
		errs = append(errs, add(snapshot.RetryOfAll, *d.All))
	}
	for kind, r := range d.Kinds {
		errs = append(errs, add(kind.String(), r))
	}
	for name, r := range d.Actors {
		errs = append(errs, add(snapshot.RetryOfActor+name, r))
	}
	return levels, errors.Join(errs...)
}
