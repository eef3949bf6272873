package core_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// Actors are built from definitions. Outside a run, an actor's calls are retried but not recorded.
func Example() {
	attempts := 0
	double, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "double"},
		func(_ context.Context, n int) (int, error) {
			if attempts++; attempts < 3 {
				return 0, core.Retryable(errors.New("not yet"))
			}
			return 2 * n, nil
		})
	if err != nil {
		panic(err)
	}
	event := double.Event().WithRetry(core.RetryConfig{InitialDelay: core.NoDelay})
	out, err := event.Execute(context.Background(), 21)
	fmt.Println(out, err, "after", attempts, "attempts")
	// Output: 42 <nil> after 3 attempts
}

// In a run, everything that happens to a call is recorded.
func ExampleExecutionEvent_Execute() {
	fetch, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "fetch"},
		func(context.Context, string) (string, error) {
			return "", core.Retryable(errors.New("connection lost"))
		})
	if err != nil {
		panic(err)
	}
	st := state.New()
	defer st.Close()
	event := fetch.Event().WithTag("collect").WithRetry(core.RetryConfig{MaxAttempts: 2, InitialDelay: time.Microsecond})
	_, err = event.Execute(st.Context(context.Background()), "https://example.com")

	fmt.Println(err)
	fmt.Println(errors.Is(err, core.ErrExhausted))
	records, err := st.Records(context.Background())
	if err != nil {
		panic(err)
	}
	for _, r := range records {
		if r.Kind.IsCall() {
			fmt.Println(r.Address, r.Status, "attempt", r.Attempt, "will retry:", r.WillRetry)
		}
	}
	// Output:
	// step:collect: exhausted after 2 attempts: connection lost
	// true
	// step:collect started attempt 0 will retry: false
	// step:collect failed attempt 0 will retry: true
	// step:collect retrying attempt 1 will retry: false
	// step:collect started attempt 1 will retry: false
	// step:collect failed attempt 1 will retry: false
}

func ExampleRetryConfig_Validate() {
	err := core.RetryConfig{MaxAttempts: -3, Multiplier: 0.5}.Validate()
	fmt.Println(err)
	// Output:
	// core: RetryConfig.MaxAttempts is -3; want 1 or more, 0 for the default of 3, or core.Unlimited
	// core: RetryConfig.Multiplier is 0.5; want 1 or more and finite, or 0 for the default of 2
}
