package config_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/config"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
)

func Example() {
	document, err := config.Parse([]byte(`
all: {max_attempts: 2, initial_delay: 0}
actors:
  fetch: {max_attempts: 4, initial_delay: 10ms, retry_on: [server, rate_limit]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	attempts := 0
	fetch := decorators.Tool("fetch", "Fetch a page.", func(context.Context, struct{}) (string, error) {
		attempts++
		return "", core.Retryable(errors.New("unavailable"))
	})
	save := decorators.Tool("save", "Save a page.", func(context.Context, struct{}) (string, error) {
		attempts++
		return "", core.Retryable(errors.New("busy"))
	})

	st := state.New(document.Options()...)
	defer st.Close()
	ctx := st.Context(context.Background())
	_, err = fetch.Call(ctx, struct{}{})
	fmt.Println(attempts, err)
	attempts = 0
	_, err = save.Call(ctx, struct{}{})
	fmt.Println(attempts, err)

	_, err = config.Parse([]byte("all:\n  max_atempts: 5\n  backoff: cubic\n"))
	fmt.Println(err)
	// Output:
	// 1 fetch: permanent: unavailable
	// 2 save: exhausted after 2 attempts: busy
	// 2:3: all.max_atempts: unknown key; did you mean "max_attempts"?; known keys are attempt_timeout, backoff, cap_retry_after, exclude, initial_delay, jitter, losses_count, max_attempts, max_delay, max_losses, max_retry_after, multiplier, retry_on, retry_timeout, retry_when, stop_when
	// 3:12: all.backoff: got "cubic", want one of constant, linear, exponential, fibonacci
}
