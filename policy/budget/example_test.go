package budget_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/policy/budget"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Each tenant may make two model calls a day.
func Example() {
	limit := budget.New(budget.Options{Name: "tenant", Limit: budget.Amount{Calls: 2}, For: budget.Tag("tenant:"), Daily: true})
	llm := actors.NewLLM("model", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{Message: actors.Assistant("Hello!")}, nil
	}, actors.WithInterceptors(limit.Interceptor()))
	ctx := context.Background()
	ask := func() {
		st := state.New(state.WithMetadata(snapshot.Metadata{Tags: []string{"tenant:acme"}}))
		resp, err := llm.Call(st.Context(ctx), actors.Request{Messages: []actors.Message{actors.User("Hello?")}})
		fmt.Println(resp.Message.Text, errors.Is(err, core.ErrBudget), st.Close())
	}
	for range 3 {
		ask()
	}
	if err := limit.Raise(ctx, "tenant:acme", budget.Amount{Calls: 1}); err != nil {
		fmt.Println(err)
	}
	ask()
	// Output:
	// Hello! false <nil>
	// Hello! false <nil>
	//  true <nil>
	// Hello! false <nil>
}
