package core_test

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// spanOf is the context key of the span of an attempt.
type spanOf struct{}

// spans returns an interceptor that puts a span around each attempt. The handler finds the span in
// its context.
func spans(begin func(name string) (end func(error))) core.Interceptor {
	return core.Interceptor{Attempt: func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		name := fmt.Sprintf("%s@%d", call.Address, call.Number)
		end := begin(name)
		err := next(context.WithValue(ctx, spanOf{}, name))
		end(err)
		return err
	}}
}

// limiter makes the attempts of tools begin one after another, at least the given time apart. Calls
// that wait are shown on the console and the dashboard, can be interrupted, and still get the whole
// timeout of their attempt.
func limiter(every time.Duration) core.Interceptor {
	var mu sync.Mutex
	var free time.Time // when the next attempt may begin
	return core.Interceptor{Attempt: func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		if call.Kind != record.KindTool {
			return next(ctx)
		}
		mu.Lock()
		now := time.Now()
		wait := max(0, free.Sub(now))
		free = now.Add(wait + every)
		mu.Unlock()
		if err := call.Wait(ctx, wait, "the limit of requests"); err != nil {
			return err
		}
		return next(ctx)
	}}
}

var card = regexp.MustCompile(`\b\d{16}\b`)

// failures emits a line for each failure, with card numbers redacted.
func failures(emit func(string)) core.Interceptor {
	return core.Interceptor{Attempt: func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		err := next(ctx)
		if err != nil && !core.IsSuspension(err) {
			emit(fmt.Sprintf("%s, %v: %s", call.Name, record.Classify(err), card.ReplaceAllString(err.Error(), "****")))
		}
		return err
	}}
}

type payment struct {
	Card string `json:"card"`
}

// A run has three interceptors: one puts a span around each attempt, one limits the calls of tools,
// and one writes a redacted log line for each failure.
func ExampleInterceptor() {
	tries := 0
	pay := decorators.Tool("pay", "Pays.", func(ctx context.Context, p payment) (string, error) {
		fmt.Println("  paying in the span", ctx.Value(spanOf{}))
		if tries++; tries == 1 {
			return "", core.Retryable(fmt.Errorf("the bank does not know %s yet", p.Card))
		}
		return "paid", nil
	}, actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))

	st := state.New(state.WithInterceptors(
		spans(func(name string) func(error) {
			fmt.Println("begin", name)
			return func(err error) { fmt.Println("end", name, err == nil) }
		}),
		limiter(time.Millisecond),
		failures(func(line string) { fmt.Println("  log:", line) }),
	))
	out, err := pay.Call(st.Context(context.Background()), payment{"4111111111111111"})
	fmt.Println(out, err, st.Close())
	// Output:
	// begin pay@1
	//   paying in the span pay@1
	//   log: pay, unknown: the bank does not know **** yet
	// end pay@1 false
	// begin pay@2
	//   paying in the span pay@2
	// end pay@2 true
	// paid <nil> <nil>
}
