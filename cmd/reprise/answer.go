package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
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
			"the run is resumed. The first answer counts. Before a value that begins with a\n" +
			"minus, write --.",
		Example: "  reprise answer refund-7 'agent/refund?1' true\n" +
			"  reprise answer refund-7 'agent/reason?1' '\"the customer moved\"'\n" +
			"  reprise answer refund-7 -- 'agent/correction?1' -5",
		Args: exactly("RUN", "QUESTION", "JSON-VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.answer(cmd.Context(), args[0], args[1], args[2])
		},
		ValidArgsFunction: a.completeQuestions,
	}
}

func (a *app) answer(ctx context.Context, runID, questionID, text string) error {
	value, err := parseJSON(text)
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

// parseJSON reads one value. Whole numbers stay whole.
func parseJSON(text string) (any, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty")
	} else if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("it ends in the middle")
	} else if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return withNumbers(v)
}

// withNumbers makes numbers of what the decoder has left as text.
func withNumbers(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		return number(string(v))
	case []any:
		for i := range v {
			if v[i], err = withNumbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			if v[key], err = withNumbers(v[key]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func number(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("the number %s is too large", text)
	}
	return f, nil
}
