package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

type Question struct {
	Text string `json:"text" jsonschema:"what the guest is asked"`
}

// askGuest returns the answer of a guest.
func askGuest(ctx context.Context, in Question) (string, error) {
	return core.Await[string](ctx, in.Text)
}

// end prints why the call of a run returned an error, and returns the exit status of the program.
func end(runID string, err error) int {
	switch {
	case errors.Is(err, core.ErrAwaiting):
		fmt.Printf("waiting; `reprise questions %s` shows how to answer\n", runID)
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func Example_waiting() {
	st, err := state.Open(context.Background(), memstore.New(), "dinner-2")
	if err != nil {
		fmt.Println(err)
		return
	}
	tool := decorators.Tool("ask_guest", "Asks a guest.", askGuest)
	_, err = tool.Call(st.Context(context.Background()), Question{Text: "What do you not eat?"})
	err = errors.Join(err, st.Close())
	fmt.Println(err)
	fmt.Println(end("dinner-2", err), end("dinner-2", nil), end("dinner-2", errors.New("no model")))
	// Output:
	// interrupted (awaiting ask_guest?1): What do you not eat?
	// waiting; `reprise questions dinner-2` shows how to answer
	// 0 0 1
}

// untilAnswered calls the agent in a run, and continues it each time its questions are
// answered.
func untilAnswered(ctx context.Context, store snapshot.Store, runID string, agent actors.Agent[actors.Prompt, actors.Answer], text string) (string, error) {
	for {
		st, err := state.Open(ctx, store, runID, state.WithWait())
		if err != nil {
			return "", err
		}
		answer, err := agent.Call(st.Context(ctx), actors.Ask(text))
		err = errors.Join(err, st.Close())
		if st.Status() != snapshot.StatusPaused {
			return answer.Text, err
		}
		if err := state.AwaitAnswers(ctx, store, runID); err != nil {
			return "", err
		}
	}
}

func TestGuestAnswersTheNextDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		llm := actorstest.NewScript(t,
			actorstest.Calls(actorstest.Call("ask_guest", Question{Text: "What do you not eat?"})),
			actorstest.Say("No nuts for Ann."),
		)
		agent := actors.NewAgent("host", llm.LLM("model"), actors.WithTools(
			decorators.Tool("ask_guest", "Asks a guest.", askGuest)))
		answered := make(chan error, 1)
		time.AfterFunc(24*time.Hour, func() {
			answered <- state.Answer(t.Context(), store, "dinner-2", "host/ask_guest?1", "ann", "nuts")
		})
		answer, err := untilAnswered(t.Context(), store, "dinner-2", agent, "Plan the dinner.")
		require.NoError(t, errors.Join(err, <-answered))
		assert.Equal(t, "No nuts for Ann.", answer)
	})
}

type Payment struct {
	Euros int `json:"euros"`
}

func TestPaymentThatWasCutOffIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		llm := actorstest.NewScript(t,
			actorstest.Calls(actorstest.Call("pay", Payment{Euros: 50})),
			actorstest.Say("Paid."),
		)
		var paid []Payment
		pay := decorators.Tool("pay", "Pays the deposit.", func(ctx context.Context, in Payment) (string, error) {
			paid = append(paid, in)
			<-ctx.Done() // the bank does not say whether it has paid
			return "", ctx.Err()
		}, actors.WithIrreversible())
		agent := actors.NewAgent("host", llm.LLM("model"), actors.WithTools(pay))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := untilAnswered(ctx, store, "dinner-3", agent, "Pay the deposit.")
		require.ErrorIs(t, err, core.ErrInterrupted)

		answered := make(chan error, 1)
		time.AfterFunc(time.Hour, func() {
			questions, err := state.Questions(t.Context(), store, "dinner-3")
			if err == nil {
				err = state.Answer(t.Context(), store, "dinner-3", questions[0].ID, "ann", state.InDoubtCompleted("receipt 7"))
			}
			answered <- err
		})
		answer, err := untilAnswered(t.Context(), store, "dinner-3", agent, "Pay the deposit.")
		require.NoError(t, errors.Join(err, <-answered))
		assert.Equal(t, "Paid.", answer)
		assert.Equal(t, []Payment{{Euros: 50}}, paid)
	})
}

// The program at the end of docs/first-agent.md.
func carefulHost(model actors.LLM, pay func(context.Context, Payment) (string, error)) actors.Agent[actors.Prompt, actors.Answer] {
	return actors.NewAgent("host", model, actors.WithTools(
		decorators.Tool("ask_guest", "Asks a guest.", func(ctx context.Context, in Question) (string, error) {
			return core.Await[string](ctx, in.Text) // pauses the run until somebody answers
		}),
		decorators.Tool("pay", "Pays the deposit.", pay, actors.WithIrreversible()),
	))
}

func TestCarefulHostAsksAndPays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		llm := actorstest.NewScript(t,
			actorstest.Calls(actorstest.Call("ask_guest", Question{Text: "Is a deposit all right?"})),
			actorstest.Calls(actorstest.Call("pay", Payment{Euros: 50})),
			actorstest.Say("Paid."),
		)
		var paid []Payment
		agent := carefulHost(llm.LLM("model"), func(_ context.Context, in Payment) (string, error) {
			paid = append(paid, in)
			return "receipt 7", nil
		})
		answered := make(chan error, 1)
		time.AfterFunc(24*time.Hour, func() {
			answered <- state.Answer(t.Context(), store, "dinner-4", "host/ask_guest?1", "ann", "yes")
		})
		answer, err := untilAnswered(t.Context(), store, "dinner-4", agent, "Reserve with a deposit.")
		require.NoError(t, errors.Join(err, <-answered))
		assert.Equal(t, "Paid.", answer)
		assert.Equal(t, []Payment{{Euros: 50}}, paid)
	})
}
