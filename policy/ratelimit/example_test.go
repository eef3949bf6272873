package ratelimit_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/policy/ratelimit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// The second call waits until the service accepts requests again.
func Example() {
	limiter := ratelimit.New(ratelimit.Options{Name: "models"})
	llm := actors.NewLLM("model", func(context.Context, actors.Request) (actors.Response, error) {
		// With a net/http client, limiter.Transport does this.
		limiter.Learn(http.StatusOK, http.Header{
			"Ratelimit-Policy": {`"default";q=1;w=0.1`}, "Ratelimit": {`"default";r=0;t=0.1`},
		})
		return actors.Response{Message: actors.Assistant("Hello!")}, nil
	}, actors.WithInterceptors(limiter.Interceptor()))
	st := state.New(state.WithPublisher(waits{}))
	for range 2 {
		resp, err := llm.Call(st.Context(context.Background()), actors.Request{Messages: []actors.Message{actors.User("Hello?")}})
		fmt.Println(resp.Message.Text, err)
	}
	fmt.Println(limiter, st.Close())
	// Output:
	// Hello! <nil>
	// model#2 waits
	// Hello! <nil>
	// models: 1 request in 100ms <nil>
}

// waits prints the calls that wait.
type waits struct{}

func (waits) Publish(r record.Record) {
	if r.Kind == record.KindLog {
		fmt.Println(r.Address, "waits")
	}
}
