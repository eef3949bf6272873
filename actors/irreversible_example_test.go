package actors_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// The text of a transfer is written by a model, which chooses different words each time.
type transfer struct {
	Words string `json:"words"`
}

// The agent transfers money, and then the confirmation fails. The agent is retried, and this time
// words the transfer differently. Without WithIrreversible, this would be another call, and the
// money would be sent twice (ACRFence, arXiv 2603.20625, found this in twelve of twelve
// frameworks). With WithIrreversible, the run asks a person, and the second attempt gets the
// receipt of the first.
func ExampleWithIrreversible() {
	assistant := func(options ...actors.Option) actors.Agent[struct{}, string] {
		send := decorators.Tool("send", "Sends money.", func(_ context.Context, t transfer) (string, error) {
			fmt.Println("the bank:", t.Words)
			return "receipt 1", nil
		}, options...)
		return decorators.Agent("assistant", "", func(ctx context.Context, _ struct{}) (string, error) {
			attempt := core.ScopeOf(ctx).Attempt()
			receipt, err := send.Call(ctx, transfer{[]string{"10 to Ada", "transfer 10 to Ada"}[attempt]})
			if err != nil || attempt > 0 {
				return receipt, err
			}
			return "", core.Retryable(errors.New("no confirmation"))
		}, actors.WithRetry(core.RetryConfig{MaxAttempts: 2, InitialDelay: 1}))
	}

	run := func(assistant actors.Agent[struct{}, string], store *memstore.Store) (string, error) {
		st, err := state.Open(context.Background(), store, "run-1")
		if err != nil {
			return "", err
		}
		defer func() { _ = st.Close() }()
		return assistant.Call(st.Context(context.Background()), struct{}{})
	}

	fmt.Println("as it is:")
	if _, err := run(assistant(), memstore.New()); err != nil {
		fmt.Println(err)
		return
	}

	fmt.Println("irreversible:")
	store := memstore.New()
	_, err := run(assistant(actors.WithIrreversible()), store)
	fmt.Println("paused:", errors.Is(err, core.ErrAwaiting))
	open, err := state.Questions(context.Background(), store, "run-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("might repeat:", open[0].InDoubt.Effect)
	if err := state.Answer(context.Background(), store, "run-1", open[0].ID, "ops", state.InDoubtTakeOver()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run(assistant(actors.WithIrreversible()), store))

	// Output:
	// as it is:
	// the bank: 10 to Ada
	// the bank: transfer 10 to Ada
	// irreversible:
	// the bank: 10 to Ada
	// paused: true
	// might repeat: assistant/send
	// receipt 1 <nil>
}
