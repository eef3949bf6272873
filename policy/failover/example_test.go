package failover_test

import (
	"context"
	"fmt"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/policy/failover"
	"github.com/reprise-go/reprise/state"
)

func Example() {
	down := actors.NewLLM("cheap", func(context.Context, actors.Request) (actors.Response, error) {
		fmt.Println("cheap is asked")
		return actors.Response{}, &httperror.Error{Code: 503}
	})
	up := actors.NewLLM("dear", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{Message: actors.Assistant("Hello!")}, nil
	})
	llm := failover.New("model", failover.Options{Retry: &core.RetryConfig{MaxAttempts: 1}}, down, up)
	st := state.New()
	resp, err := llm.Call(st.Context(context.Background()), actors.Request{Messages: []actors.Message{actors.User("Hello?")}})
	fmt.Println(resp.Message.Text, err, st.Close())
	// Output:
	// cheap is asked
	// Hello! <nil> <nil>
}
