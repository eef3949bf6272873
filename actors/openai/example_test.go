package openai_test

import (
	"context"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// The service asks the client to wait for 20 ms, and then answers.
func Example() {
	srv, err := openaitest.Start(
		openaitest.RateLimited(20*time.Millisecond),
		openaitest.Text("It is 4 degrees.").WithUsage(12, 5),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	llm := openai.New("gpt-4o-mini", openai.WithBaseURL(srv.URL()), actors.WithRetry(core.RetryConfig{
		InitialDelay: core.NoDelay, // use only the delay requested by the service
	}))

	st := state.New()
	defer st.Close()
	answer, err := llm.Call(st.Context(context.Background()), actors.Request{
		Messages: []actors.Message{actors.User("How warm is it in Oslo?")},
	})
	fmt.Println(answer.Message.Text, answer.Usage.TotalTokens(), "tokens, error:", err)
	records, err := st.Records(context.Background())
	if err != nil {
		panic(err)
	}
	for _, rec := range records {
		if rec.Status == record.StatusRetrying {
			fmt.Printf("attempt %d after %v: %v\n", rec.Attempt+1, rec.Delay, rec.Err)
		}
	}
	// Output:
	// It is 4 degrees. 17 tokens, error: <nil>
	// attempt 2 after 20ms: openai: status 429, type requests, code rate_limit_exceeded, request req_1: Rate limit reached. Retry-After-Ms: 20.
}
