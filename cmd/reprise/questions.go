package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// question is the JSON form of a core.Question.
type question struct {
	ID     string           `json:"id"`
	Text   string           `json:"text"`
	Awaits record.AwaitKind `json:"awaits"` // "answer" or "decision"

	// Due is the time at which the default answer takes effect.
	Due     time.Time `json:"due_at,omitzero"`
	Refused string    `json:"refused,omitempty"`

	Schema  json.RawMessage     `json:"schema,omitempty"`
	InDoubt *record.CallInDoubt `json:"in_doubt,omitempty"`
}

// runQuestion is a question and the run that asks it.
type runQuestion struct {
	RunID string `json:"run_id"`
	question
}

// defaultAsking is how many runs with open questions are listed by default. It is low because
// the records of each of these runs are read.
const defaultAsking = 100

func (a *app) questionsCommand() *cobra.Command {
	var redact redaction
	var f runFilter
	cmd := &cobra.Command{
		Use:     "questions [RUN]",
		GroupID: groupInspect,
		Short:   "List the open questions of a run, or of all runs",
		Long: "List the questions that a run waits for, in the order in which they were asked. If an\n" +
			"answer was rejected, the question is asked again, with the reason. Without RUN, list\n" +
			"those of all runs that match the filters, in the order of the command runs: the last\n" +
			"updated first. A time is as for that command.",
		Example: "  reprise questions\n" +
			"  reprise questions --program support --since 24h\n" +
			"  reprise questions refund-7\n" +
			"  reprise questions refund-7 --json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exactArgs("RUN")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSelection(cmd); err != nil {
				return err
			}
			if len(args) == 0 {
				return a.questionsOfRuns(cmd.Context(), f, &redact)
			}
			if name := chosenFlag(cmd, "limit"); name != "" {
				return usageErrorf("RUN %s and --%s, which selects runs: want one or the other", printable(args[0]), name)
			}
			store, found, err := a.load(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			open, err := questionsOf(cmd.Context(), store, args[0], &redact)
			if err != nil {
				return a.explain(args[0], err)
			}
			if len(open) == 0 && !a.json {
				fmt.Fprintf(a.stderr, "run %s has no open questions\n", args[0])
				if found.Stop.Reason == record.InterruptCrash {
					fmt.Fprintf(a.stderr, "it is interrupted (crash), and may ask about a call in doubt when it continues\n%s\n", printable(a.howToContinue(&found.Info)))
				}
				return nil
			}
			return a.printQuestions(open, false)
		},
		ValidArgsFunction: a.completeRuns(1),
	}
	redact.flag(cmd)
	f.flags(cmd)
	cmd.Flags().IntVar(&f.limit, "limit", defaultAsking, "the maximum `number` of runs with open questions, 0 for all")
	_ = cmd.RegisterFlagCompletionFunc("limit", cobra.NoFileCompletions)
	return cmd
}

// questionsOfRuns lists the open questions of the selected runs. If a run cannot be read, the others
// are still listed.
func (a *app) questionsOfRuns(ctx context.Context, f runFilter, redact *redaction) error {
	filter, err := a.filter(f)
	if err != nil {
		return err
	}
	store, err := a.store()
	if err != nil {
		return err
	}
	filter.Limit = 0 // f.limit counts only runs with open questions; filter.Limit would count all runs
	open := []runQuestion{}
	asking, unreadable, isCut := 0, 0, false
	for info, err := range snapshot.Runs(ctx, store, filter) {
		if err != nil {
			return err
		}
		if !mayAsk(&info) {
			continue
		}
		asked, err := questionsOf(ctx, store, info.RunID, redact)
		switch {
		case errors.Is(err, snapshot.ErrNotFound): // the run was deleted in the meantime
			continue
		case err != nil && ctx.Err() != nil:
			return err
		case err != nil:
			a.printError(exitFailure, a.explain(info.RunID, err))
			unreadable++
			continue
		case len(asked) == 0:
			continue
		}
		if isCut = f.limit > 0 && asking == f.limit; isCut {
			break
		}
		asking++
		open = append(open, asked...)
	}
	if len(open) == 0 && !a.json {
		fmt.Fprintln(a.stderr, "no open questions")
	} else if err := a.printQuestions(open, true); err != nil {
		return err
	}
	if isCut && !a.json {
		fmt.Fprintf(a.stderr, "more runs have open questions than these %d; --limit 0 lists all\n", f.limit)
	}
	if unreadable > 0 {
		return errReported
	}
	return nil
}

// mayAsk reports whether a run can have open questions. If the run is open, or a crash
// prevented it from being closed, its info may be older than its records.
func mayAsk(info *snapshot.Info) bool {
	return info.Summary.Asking > 0 || info.Open || info.Status == snapshot.StatusRunning || info.Stop.Reason == record.InterruptCrash
}

func questionsOf(ctx context.Context, store snapshot.Store, runID string, redact *redaction) ([]runQuestion, error) {
	open, err := state.Questions(ctx, store, runID)
	questions := []runQuestion{}
	for _, q := range open {
		questions = append(questions, runQuestion{runID, question(redact.question(q))})
	}
	return questions, err
}

// printQuestions writes a table of questions, with their runs if withRuns is set, and the commands
// that answer them.
func (a *app) printQuestions(open []runQuestion, withRuns bool) error {
	if a.json {
		return a.writeJSON(open)
	}
	rows := [][]string{{"RUN", "QUESTION", "ANSWER", "TEXT"}}
	for _, q := range open {
		text := q.Text
		if q.Refused != "" {
			text += " (again: " + q.Refused + ")"
		}
		if !q.Due.IsZero() {
			text += " (until " + timeText(q.Due) + ")"
		}
		if c := q.InDoubt; c != nil && c.Effect != nil {
			text += " (not begun, input " + record.Preview(c.Input) + ")"
		} else if c != nil {
			text += " ("
			if c.Cause != "" {
				text += "it ended with: " + c.Cause + "; "
			}
			text += fmt.Sprintf("attempts begun: %d", c.Starts)
			if !c.Began.IsZero() {
				text += ", the last at " + timeText(c.Began)
			}
			if len(c.Input) > 0 {
				text += ", input " + record.Preview(c.Input)
			}
			if c.IdempotencyKey != "" {
				text += ", idempotency key " + c.IdempotencyKey
			}
			text += ")"
		}
		words, _ := printer.HowToAnswer(q.RunID, core.Question(q.question))
		rows = append(rows, []string{q.RunID, q.ID, cmp.Or(words, "any JSON"), text})
	}
	if !withRuns {
		for i := range rows {
			rows[i] = rows[i][1:]
		}
	}
	if err := a.writeTable(rows); err != nil {
		return err
	}
	a.printf("\nto answer:\n")
	for _, q := range open {
		_, commands := printer.HowToAnswer(q.RunID, core.Question(q.question))
		if len(commands) == 0 { // the ID cannot be quoted portably, so quote it for POSIX shells
			commands = []string{"answer " + q.RunID + " " + printable(shellWord(q.ID)) + " JSON"}
		}
		for _, command := range commands {
			a.printf("  %s %s\n", a.command, command)
		}
	}
	return nil
}
