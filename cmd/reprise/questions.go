package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// question is the JSON form of a core.Question.
type question struct {
	ID     string           `json:"id"`
	Text   string           `json:"text"`
	Awaits record.AwaitKind `json:"asks"` // "answer" or "doubt"

	// Due is the time at which the default answer applies.
	Due     time.Time `json:"due_at,omitzero"`
	Refused string    `json:"refused,omitempty"`

	Schema  json.RawMessage     `json:"schema,omitempty"`
	InDoubt *record.CallInDoubt `json:"in_doubt,omitempty"`
}

func (a *app) questionsCommand() *cobra.Command {
	var redact redaction
	cmd := &cobra.Command{
		Use:     "questions RUN",
		GroupID: groupInspect,
		Short:   "List the open questions of a run",
		Long: "List the questions that a run waits for, in the order in which they were asked. If an\n" +
			"answer was rejected, the question is asked again, with the reason.",
		Example: "  reprise questions refund-7\n" +
			"  reprise questions refund-7 --json",
		Args: exactArgs("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, _, err := a.load(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			open, err := state.Questions(cmd.Context(), store, args[0])
			if err != nil {
				return a.explain(args[0], err)
			}
			for i, q := range open {
				open[i] = redact.question(q)
			}
			return a.questions(args[0], open)
		},
		ValidArgsFunction: a.completeRuns(1),
	}
	redact.flag(cmd)
	return cmd
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
		fmt.Fprintf(a.stderr, "run %s has no open questions\n", runID)
		return nil
	}
	rows := [][]string{{"QUESTION", "ANSWER", "TEXT"}}
	for _, q := range open {
		text := q.Text
		if q.Refused != "" {
			text += " (again: " + q.Refused + ")"
		}
		if !q.Due.IsZero() {
			text += " (until " + q.Due.Format(time.RFC3339) + ")"
		}
		if c := q.InDoubt; c != nil && c.Effect != nil {
			text += " (not begun, input " + record.Preview(c.Input) + ")"
		} else if c != nil {
			text += fmt.Sprintf(" (attempts begun: %d", c.Starts)
			if !c.Began.IsZero() {
				text += ", the last at " + timeText(c.Began)
			}
			if len(c.Input) > 0 {
				text += ", input " + record.Preview(c.Input)
			}
			text += ")"
		}
		words, _ := printer.HowToAnswer(runID, q)
		rows = append(rows, []string{q.ID, cmp.Or(words, "any JSON"), text})
	}
	if err := a.writeTable(rows); err != nil {
		return err
	}
	a.printf("\nto answer:\n")
	for _, q := range open {
		_, arguments := printer.HowToAnswer(runID, q)
		if arguments == "" { // the ID cannot be quoted portably: quote for POSIX shells
			arguments = "answer " + runID + " " + printable(shellWord(q.ID)) + " JSON"
		}
		a.printf("  %s %s\n", a.command, arguments)
	}
	return nil
}
