package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func (a *app) answerCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "answer RUN QUESTION JSON-VALUE",
		GroupID: groupWork,
		Short:   "Answer a question that a run waits for",
		Long: "Answer a question of a run, also while a program has it open. The value is JSON:\n" +
			"true, 42, \"a text in quotes\", {\"approved\": true}. The call that asked goes on when\n" +
			"the run is resumed. The first answer counts; one that does not fit what the call waits for\n" +
			"is set aside then, and the question asked again. Before a value that begins with a\n" +
			"minus, write --.\n\n" +
			"A question with ?in-doubt in its name is about a call that had begun when the run\n" +
			"stopped and must not simply run again. It takes one of\n" +
			"  {\"decision\": \"completed\", \"output\": ...}     with the output of the call\n" +
			"  {\"decision\": \"run_again\"}\n" +
			"  {\"decision\": \"failed\", \"message\": \"why\"}",
		Example: "  reprise answer refund-7 'agent/refund?1' true\n" +
			"  reprise answer refund-7 'agent/reason?1' '\"the customer moved\"'\n" +
			"  reprise answer refund-7 -- 'agent/correction?1' -5\n" +
			"  reprise answer refund-7 'agent/pay?in-doubt1' '{\"decision\": \"run_again\"}'",
		Args: exactly("RUN", "QUESTION", "JSON-VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.answer(cmd.Context(), args[0], args[1], args[2])
		},
		ValidArgsFunction: a.completeQuestions,
	}
}

func (a *app) answer(ctx context.Context, runID, questionID, text string) error {
	value, err := state.JSONAnswer([]byte(text))
	if err != nil {
		return usagef("the answer is not JSON: %v; write a text in double quotes, inside single quotes of the shell: '\"yes\"'", err)
	}
	store, _, err := a.load(ctx, runID)
	if err != nil {
		return err
	}
	err = state.Answer(ctx, store, runID, questionID, value)
	switch {
	case errors.Is(err, state.ErrNotAsked):
		return a.notAsked(ctx, store, runID, questionID)
	case errors.Is(err, state.ErrAnswered):
		return fmt.Errorf("question %s of run %s was answered before, and the first answer counts", questionID, runID)
	case err != nil:
		return a.explain(runID, err)
	case a.json:
		return a.writeJSON(map[string]string{"run_id": runID, "question": questionID})
	}
	a.printf("question %s of run %s is answered; resume the run to go on\n", printable(questionID), runID)
	return nil
}

func (a *app) notAsked(ctx context.Context, store snapshot.Store, runID, questionID string) error {
	open, err := state.Questions(ctx, store, runID)
	if err != nil {
		return a.explain(runID, err)
	}
	if len(open) == 0 {
		return fmt.Errorf("run %s has asked no question %q, and waits for no answer", runID, questionID)
	}
	ids := make([]string, len(open))
	for i, q := range open {
		ids[i] = q.ID
	}
	return fmt.Errorf("run %s has asked no question %q; it waits for %s", runID, questionID, strings.Join(ids, ", "))
}
