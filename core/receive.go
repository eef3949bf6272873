package core

import (
	"context"
	"fmt"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// Receive returns the value of the next signal with the given name. A signal is a value that
// somebody outside the run has sent to the run with state.Signal, without being asked. Signals are
// queued in the order in which they arrived, including signals that arrived before the call began.
// If there is none, the call is suspended as by [Await]: Receive returns an *[InterruptedError],
// which the handler has to return, and the run is paused. When the run is opened and a signal has
// arrived, the handler is called again and Receive returns the value.
//
// Each signal is received once. What a call has received is recorded, and the call receives the
// same value when its handler is called again, even in another attempt of the call. Another attempt
// of a surrounding call receives the signals that come next. If several calls wait for the same
// name at the same time, any of them may get the first signal.
//
// A signal is received even if its value does not fit T; the error is then permanent and wraps
// [ErrUnfit]. With [AwaitDefault], Receive returns the default if the run is resumed after the time
// for a signal has passed. Time spent waiting does not count against any timeout. Outside a run,
// the error is [ErrNoRun].
func Receive[T any](ctx context.Context, name string, options ...AwaitOption[T]) (T, error) {
	var value T
	if !engine.CanAsk(ctx) {
		return value, ErrNoRun
	}
	if !engine.IsSignalName(name) {
		return value, Permanent(fmt.Errorf("core: Receive: the name is %q; want 1 to %d letters, digits, dots, dashes and underscores", record.Truncate(name, engine.MaxSignalName), engine.MaxSignalName))
	}
	q := Question{Awaits: record.AwaitSignal, Text: name}
	def, err := defaultOf(q, options)
	if err != nil {
		return value, Permanent(err)
	}
	var unfit error
	err = engine.Await(ctx, engine.Question(q), def, func(encoded []byte) error {
		unfit = decodeAnswer(nil, encoded, &value)
		return nil // the signal is received, regardless of its value
	})
	if err == nil && unfit != nil {
		return value, Permanent(fmt.Errorf("core: Receive: signal %q: %w: %w", name, ErrUnfit, unfit))
	}
	return value, err
}
