package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

// question is a core.Question in JSON.
type question struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

func (a *app) questionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "questions RUN",
		GroupID: groupLook,
		Short:   "List what a run waits to be told",
		Long:    "List the questions that a run waits for, in the order of asking.",
		Example: "  reprise questions refund-7\n" +
			"  reprise questions refund-7 --json",
		Args: exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, _, err := a.load(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			open, err := state.Questions(cmd.Context(), store, args[0])
			if err != nil {
				return a.explain(args[0], err)
			}
			return a.questions(args[0], open)
		},
		ValidArgsFunction: a.completeRuns(1),
	}
}

func (a *app) questions(runID string, open []core.Question) error {
	if a.json {
		out := []question{}
		for _, q := range open {
			out = append(out, question(q))
		}
		return a.writeJSON(out)
	}
	if len(open) == 0 {
		fmt.Fprintf(a.stderr, "run %s waits for no answer\n", runID)
		return nil
	}
	rows := [][]string{{"QUESTION", "TEXT"}}
	for _, q := range open {
		rows = append(rows, []string{q.ID, q.Text})
	}
	return a.table(rows)
}
