package breaker_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/policy/breaker"
)

// After two failures in a row, the service is no longer called.
func Example() {
	payments := breaker.New(breaker.Options{Name: "payments", Failures: 2, OpenFor: time.Minute})
	pay := decorators.Tool("pay", "Pays an order.",
		func(context.Context, struct{}) (string, error) {
			return "", &httperror.Error{Code: http.StatusServiceUnavailable}
		}, actors.WithInterceptors(payments.Interceptor()), actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
	for range 3 {
		_, err := pay.Call(context.Background(), struct{}{})
		fmt.Println(err != nil, payments.State())
	}
	// Output:
	// true closed
	// true open
	// true open
}
