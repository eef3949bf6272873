package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// question is a core.Question in JSON.
type question struct {
	ID   string `json:"id"`
	Text string `json:"text"`

	// Due is when the question has its default as the answer.
	Due     time.Time `json:"due_at,omitzero"`
	Refused string    `json:"refused,omitempty"`

	Schema json.RawMessage     `json:"schema,omitempty"`
	Call   *record.CallInDoubt `json:"in_doubt,omitempty"`
}

// expects says in short what an answer is.
func expects(q *core.Question) string {
	if q.InDoubt() {
		return "a decision"
	}
	var schema struct {
		Type       any
		Enum       []any
		Properties map[string]any
		Required   []string
	}
	if len(q.Schema) == 0 || json.Unmarshal(q.Schema, &schema) != nil {
		return "any JSON"
	}
	switch {
	case len(schema.Enum) > 0:
		data, _ := json.Marshal(schema.Enum)
		return "one of " + strings.Trim(string(data), "[]")
	case schema.Type == "boolean":
		return "true or false"
	case schema.Type == "object" && len(schema.Properties) > 0:
		names := slices.Sorted(maps.Keys(schema.Properties))
		for i, name := range names {
			if !slices.Contains(schema.Required, name) {
				names[i] = "[" + name + "]"
			}
		}
		return "object: " + strings.Join(names, ", ")
	}
	if name, ok := schema.Type.(string); ok {
		return name
	}
	return "any JSON"
}

func (a *app) questionsCommand() *cobra.Command {
	var redact redaction
	cmd := &cobra.Command{
		Use:     "questions RUN",
		GroupID: groupLook,
		Short:   "List the open questions of a run",
		Long: "List the questions that a run waits for, in the order of asking. One that had an\n" +
			"answer that does not fit is asked again, with the reason.",
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
		fmt.Fprintf(a.stderr, "run %s waits for no answer\n", runID)
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
		if c := q.Call; c != nil {
			text += fmt.Sprintf(" (attempts begun: %d", c.Starts)
			if !c.Began.IsZero() {
				text += ", the last at " + timeText(c.Began)
			}
			if len(c.Input) > 0 {
				text += ", input " + record.Preview(c.Input)
			}
			text += ")"
		}
		rows = append(rows, []string{q.ID, expects(&q), text})
	}
	if err := a.table(rows); err != nil {
		return err
	}
	a.printf("\nto answer:\n")
	for _, q := range open {
		a.printf("  %s answer %s %s JSON\n", a.command, runID, printable(shellWord(q.ID)))
	}
	return nil
}
