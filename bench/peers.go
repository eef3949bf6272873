package main

import (
	"context"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
	sethvargo "github.com/sethvargo/go-retry"
)

// failsafe-go: policies and executor are created once. Its retry policy has no
// delay by default.

func startFailsafe(h handler) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		policy := retrypolicy.NewBuilder[int]().WithMaxAttempts(attempts).Build()
		executor := failsafe.With(policy).WithContext(ctx)
		fn := h.bindAll(ctx, w)
		return instance{call: func() (int, error) { return executor.Get(fn) }}
	}
}

func startFailsafeListeners(h handler) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		heard := func(failsafe.ExecutionEvent[int]) { w.heard++ }
		done := func(failsafe.ExecutionDoneEvent[int]) { w.heard++ }
		policy := retrypolicy.NewBuilder[int]().WithMaxAttempts(attempts).
			OnSuccess(heard).OnFailure(heard).OnAbort(heard).OnRetry(heard).OnRetriesExceeded(heard).
			OnRetryScheduled(func(failsafe.ExecutionScheduledEvent[int]) { w.heard++ }).
			Build()
		executor := failsafe.With(policy).WithContext(ctx).OnDone(done).OnSuccess(done).OnFailure(done)
		fn := h.bindAll(ctx, w)
		return instance{
			call:     func() (int, error) { return executor.Get(fn) },
			notified: func() int { return w.heard },
		}
	}
}

func startFailsafeTimeout(h handler) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		policy := retrypolicy.NewBuilder[int]().WithMaxAttempts(attempts).Build()
		executor := failsafe.With[int](policy, timeout.New[int](attemptTimeout)).WithContext(ctx)
		handle := h.bind(w)
		fn := func(exec failsafe.Execution[int]) (int, error) { return handle(exec.Context(), answer) }
		return instance{call: func() (int, error) { return executor.GetWithExecution(fn) }}
	}
}

// cenkalti/backoff: the options can be created once. Only one call at a time may use a BackOff, as
// is the case here.

func cenkaltiOptions() []cenkalti.RetryOption {
	return []cenkalti.RetryOption{cenkalti.WithMaxTries(attempts), cenkalti.WithBackOff(&cenkalti.ZeroBackOff{})}
}

func startCenkalti(h handler) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		options := cenkaltiOptions()
		fn := h.bindAll(ctx, w)
		return instance{call: func() (int, error) { return cenkalti.Retry(ctx, fn, options...) }}
	}
}

func startCenkaltiNotify(h handler) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		options := append(cenkaltiOptions(), cenkalti.WithNotify(func(error, time.Duration) { w.heard++ }))
		fn := h.bindAll(ctx, w)
		return instance{
			call:     func() (int, error) { return cenkalti.Retry(ctx, fn, options...) },
			notified: func() int { return w.heard },
		}
	}
}

// avast/retry-go: a retrier is created once, together with its context. LastErrorOnly avoids
// building a list of all errors.

func avastOptions(ctx context.Context) []avast.Option {
	return []avast.Option{
		avast.Context(ctx), avast.Attempts(attempts), avast.LastErrorOnly(true),
		avast.Delay(0), avast.DelayType(avast.FixedDelay),
	}
}

func startAvast(h handler) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		retrier := avast.NewWithData[int](avastOptions(ctx)...)
		fn := h.bindAll(ctx, w)
		return instance{call: func() (int, error) { return retrier.Do(fn) }}
	}
}

func startAvastOnRetry(h handler) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		options := append(avastOptions(ctx), avast.OnRetry(func(uint, error) { w.heard++ }))
		retrier := avast.NewWithData[int](options...)
		fn := h.bindAll(ctx, w)
		return instance{
			call:     func() (int, error) { return retrier.Do(fn) },
			notified: func() int { return w.heard },
		}
	}
}

// sethvargo/go-retry: WithMaxRetries returns a backoff with a counter, so
// each call needs its own backoff. The underlying backoff is created once.

func startSethvargo(h handler) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		w.boom = sethvargo.RetryableError(errBoom)
		none := sethvargo.BackoffFunc(func() (time.Duration, bool) { return 0, false })
		handle := h.bind(w)
		fn := func(ctx context.Context) (int, error) { return handle(ctx, answer) }
		return instance{call: func() (int, error) {
			return sethvargo.DoValue(ctx, sethvargo.WithMaxRetries(attempts-1, none), fn)
		}}
	}
}

func startSethvargoUnlimited(h handler) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		w.boom = sethvargo.RetryableError(errBoom)
		none := sethvargo.BackoffFunc(func() (time.Duration, bool) { return 0, false })
		handle := h.bind(w)
		fn := func(ctx context.Context) (int, error) { return handle(ctx, answer) }
		return instance{call: func() (int, error) { return sethvargo.DoValue(ctx, none, fn) }}
	}
}
