package retrybudget_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/policy/retrybudget"
)

func Example() {
	down := errors.New("the weather service is down")
	weather := decorators.Tool("weather", "", func(context.Context, struct{ City string }) (string, error) {
		return "", core.Retryable(down)
	}, actors.WithInterceptors(retrybudget.New(retrybudget.Options{Retries: 3}).Interceptor()),
		actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))

	for _, city := range []string{"Oslo", "Riga"} {
		_, err := weather.Call(context.Background(), struct{ City string }{city})
		var failed *core.CallError
		if errors.As(err, &failed) {
			fmt.Printf("%s: %d attempts, %v (%s)\n", city, failed.Attempts, failed.Reason, failed.Detail)
		}
	}
	// Output:
	// Oslo: 3 attempts, exhausted ()
	// Riga: 2 attempts, budget (the retry budget of 3 retries in 1m0s is used up)
}
