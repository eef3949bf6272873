package main

import (
	"strings"

	"github.com/reprise-go/reprise/snapshot/diff"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/record"
)

func (a *app) diffCommand() *cobra.Command {
	var exitCode bool
	cmd := &cobra.Command{
		Use:     "diff A B",
		GroupID: groupInspect,
		Short:   "Show the differences between two runs",
		Long: "Show what is only in run B (+), what is only in run A (-) and what differs (~): calls,\n" +
			"values, step results, artifacts, the status and the metadata. Times, durations and\n" +
			"sequence numbers are ignored.",
		Example: "  reprise diff weather-42 weather-43\n" +
			"  reprise diff --exit-code weather-42 weather-42-again",
		Args: exactArgs("A", "B"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, before, err := a.load(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, after, err := a.load(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			d := diff.Compare(before, after)
			if err := a.diff(d); err != nil {
				return err
			}
			if exitCode && !d.IsEmpty() {
				return errReported
			}
			return nil
		},
		ValidArgsFunction: a.completeRuns(2),
	}
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 1 if there are differences")
	return cmd
}

func (a *app) diff(d diff.Difference) error {
	if a.json {
		return a.writeJSON(differenceOf(d))
	}
	for line := range strings.SplitSeq(d.String(), "\n") {
		a.printf("%s\n", printable(line))
	}
	return nil
}

// difference is the JSON form of a diff.Difference.
type difference struct {
	Status    []textChange  `json:"status"`
	Metadata  []textChange  `json:"metadata"`
	Retry     []textChange  `json:"retry"`
	Events    []eventChange `json:"events"`
	Values    []textChange  `json:"values"`
	Artifacts []textChange  `json:"artifacts"`
}

type eventChange struct {
	Change  string         `json:"change"`
	Address record.Address `json:"address"`
	Kind    record.Kind    `json:"event_type"`
	Before  *record.Record `json:"before,omitempty"`
	After   *record.Record `json:"after,omitempty"`
}

// textChange is a change to some text. Large values are shown as previews.
type textChange struct {
	Change string `json:"change"`
	Name   string `json:"name"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

func differenceOf(d diff.Difference) difference {
	out := difference{
		Status: textsOf(d.Status), Metadata: textsOf(d.Metadata), Retry: textsOf(d.Retry),
		Events: []eventChange{}, Values: valuesOf(d.Values),
		Artifacts: []textChange{},
	}
	for _, c := range d.Events {
		out.Events = append(out.Events, eventChange{changeName(c.Change), c.Address, c.Kind, c.Before, c.After})
	}
	for _, c := range d.Artifacts {
		out.Artifacts = append(out.Artifacts, textChange{Change: changeName(c.Change), Name: c.Reference})
	}
	return out
}

func textsOf(changes []diff.TextChange) []textChange {
	out := []textChange{}
	for _, c := range changes {
		out = append(out, textChange{changeName(c.Change), c.Name, c.Before, c.After})
	}
	return out
}

func valuesOf(changes []diff.ValueChange) []textChange {
	out := []textChange{}
	for _, c := range changes {
		out = append(out, textChange{changeName(c.Change), c.Key, record.Preview(c.Before), record.Preview(c.After)})
	}
	return out
}

func changeName(c diff.Change) string {
	switch c {
	case diff.Added:
		return "added"
	case diff.Removed:
		return "removed"
	case diff.Changed:
		return "changed"
	}
	return c.String()
}
