package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func (a *app) answerCommand() *cobra.Command {
	var by string
	cmd := &cobra.Command{
		Use:     "answer RUN QUESTION JSON-VALUE",
		GroupID: groupWork,
		Short:   "Answer a question that a run waits for",
		Long: "Answer a question of a run, even while a program has the run open. The value is JSON:\n" +
			"true, 42, \"a string in quotes\", {\"approved\": true}. The call that asked continues when\n" +
			"the run is resumed, and the command reports whether a program has resumed it. A run that a\n" +
			"runner started is resumed by a runner with its program.\n" +
			"The first answer counts. If an answer does not fit, the command says what is wrong\n" +
			"with it, and nothing is recorded. Write -- before a value that begins with a minus sign.\n\n" +
			"A question with ?in-doubt in its ID is about a call that has begun,\n" +
			"and that may have taken effect. The answer is one of\n" +
			"  {\"decision\": \"completed\", \"output\": ...}     with the output of the call\n" +
			"  {\"decision\": \"run_again\"}\n" +
			"  {\"decision\": \"failed\", \"message\": \"why\"}\n" +
			"A question with ?effect in its ID is about a call that has not begun, and might repeat\n" +
			"what an irreversible call did before. It has the same answers, and if that call completed\n" +
			"  {\"decision\": \"take_over\"}                     with the output of that call",
		Example: "  reprise answer refund-7 'agent/refund?1' true\n" +
			"  reprise answer refund-7 'agent/reason?1' '\"the customer moved\"'\n" +
			"  reprise answer refund-7 -- 'agent/correction?1' -5\n" +
			"  reprise answer refund-7 'agent/pay?in-doubt1' '{\"decision\": \"completed\", \"output\": \"receipt 7\"}'",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return usageErrorf("QUESTION is missing: `reprise questions %s` lists them; usage is %s", printable(args[0]), cmd.UseLine())
			}
			return exactArgs("RUN", "QUESTION", "JSON-VALUE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.answer(cmd.Context(), args[0], args[1], by, args[2])
		},
		ValidArgsFunction: a.completeQuestions,
	}
	a.byFlag(cmd, &by, "`who` answers")
	return cmd
}

func (a *app) answer(ctx context.Context, runID, questionID, by, text string) error {
	value, err := state.JSONAnswer([]byte(text))
	if err != nil {
		return usageErrorf("the answer is not JSON: %v; put a string in double quotes, and for the shell, put those in single quotes: '\"yes\"'", err)
	}
	store, err := a.storeOf(runID)
	if err != nil {
		return err
	}
	before, err := store.Info(ctx, runID)
	if err != nil {
		return a.explain(runID, err)
	}
	err = state.Answer(ctx, store, runID, questionID, by, value)
	switch {
	case errors.Is(err, core.ErrUnfit):
		_, why, _ := strings.Cut(err.Error(), core.ErrUnfit.Error())
		return fmt.Errorf("%w%s; nothing was recorded, and question %s is still open: `%s questions %s` shows how to answer it",
			core.ErrUnfit, why, questionID, a.command, runID)
	case errors.Is(err, state.ErrNotAsked):
		return a.notAskedError(ctx, store, runID, questionID)
	case errors.Is(err, state.ErrAnswered):
		return fmt.Errorf("question %s of run %s was already answered, and the first answer counts", questionID, runID)
	case err != nil:
		return a.explain(runID, err)
	}
	next, err := a.awaitResumed(ctx, store, before)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(a.stderr, "%s: the answer is recorded, but whether a program has resumed the run is not known: %s\n", a.command, message(err))
	}
	if a.json {
		answered := map[string]any{"run_id": runID, "question": questionID, "by": by}
		if err == nil {
			answered["resumed"], answered["open_questions"] = next.resumed, next.open
		}
		return a.writeJSON(answered)
	}
	said := fmt.Sprintf("question %s of run %s is answered", printable(questionID), runID)
	if err == nil { // otherwise the answer is recorded all the same
		said += "; " + next.String()
	}
	a.printf("%s\n", said)
	return nil
}

// resumeWait is how long the command waits, after an answer, for a program to resume the run.
const resumeWait = time.Second

// A continuation describes how a run continues after an answer.
type continuation struct {
	open    int    // number of open questions
	held    bool   // a program had the run open before the answer, and still has it open
	resumed bool   // a program has opened the run since the answer
	program string // name of the program, if a runner started the run
}

func (g continuation) String() string {
	switch {
	case g.resumed:
		return "a program has resumed the run"
	case g.open > 0:
		return fmt.Sprintf("the run waits for %s", plural(g.open, "more answer"))
	case g.held:
		return "a program has the run open, and the call continues when that program resumes the run"
	}
	if g.program != "" {
		return printable(fmt.Sprintf("a runner with program %s continues the run", g.program))
	}
	return "no program has resumed the run yet: it continues when its program opens it"
}

// awaitResumed waits briefly for a program to resume the run. A program that is waiting for answers
// resumes it at once.
func (a *app) awaitResumed(ctx context.Context, store snapshot.Store, before snapshot.Info) (g continuation, err error) {
	g.program = before.Program
	open, err := state.Questions(ctx, store, before.RunID)
	if g.open = len(open); err != nil || g.open > 0 {
		return g, err
	}
	waiting, cancel := context.WithTimeout(ctx, resumeWait)
	defer cancel()
	for event, err := range store.Watch(waiting, snapshot.WatchOptions{RunID: before.RunID}) {
		if err != nil {
			break // timed out
		}
		g.held = event.Info.Open
		if g.resumed = event.Info.Generation > before.Generation; g.resumed {
			break
		}
	}
	return g, context.Cause(ctx)
}

func (a *app) notAskedError(ctx context.Context, store snapshot.Store, runID, questionID string) error {
	open, err := state.Questions(ctx, store, runID)
	if err != nil {
		return a.explain(runID, err)
	}
	if len(open) == 0 {
		return fmt.Errorf("run %s has not asked question %q and does not wait for an answer", runID, questionID)
	}
	ids := make([]string, len(open))
	for i, q := range open {
		ids[i] = q.ID
	}
	return fmt.Errorf("run %s has not asked question %q; it waits for %s", runID, questionID, strings.Join(ids, ", "))
}
