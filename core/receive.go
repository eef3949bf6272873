package core

import (
	"context"
	"fmt"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// Receive returns the value of the next signal with the name: something that has happened
// outside the run and was put into it, with state.Signal, unasked. Signals wait for it in
// the order in which they came, also those that came before the call began. Without one,
// the call is suspended as by [Await]: Receive returns an *[InterruptedError], the handler
// returns that, and the run is paused. When it is opened with a signal, the handler is
// entered again and Receive returns the value.
//
// Each signal is received once. What a call has received is recorded, and it receives
// the same when its handler is entered again, also by another attempt of the call. An
// attempt of a call around it receives the signals that come next. Of calls that wait for
// one name at the same time, any gets the first signal.
//
// A value that does not fit T was received, and is a permanent error, [ErrUnfit]. With
// [Default], the value is the default when its time is over and the run is resumed. The
// time of waiting counts against no timeout. Outside a run, the error is [ErrNoRun].
func Receive[T any](ctx context.Context, name string, options ...AwaitOption[T]) (T, error) {
	var value T
	if !engine.CanAsk(ctx) {
		return value, ErrNoRun
	}
	if !engine.IsSignalName(name) {
		return value, Permanent(fmt.Errorf("core: Receive: the name %q; want 1 to %d letters, digits, dots, dashes and underscores", record.Truncate(name, engine.MaxSignalName), engine.MaxSignalName))
	}
	q := Question{Asks: record.AsksSignal, Text: name}
	def, err := defaultOf(q, options)
	if err != nil {
		return value, Permanent(err)
	}
	var unfit error
	err = engine.Await(ctx, engine.Question(q), def, func(encoded []byte) error {
		value, unfit = decodeAnswer[T](nil, encoded)
		return nil // it was received, whatever it is
	})
	if err == nil && unfit != nil {
		var zero T
		return zero, Permanent(fmt.Errorf("core: Receive: signal %q: %w: %w", name, ErrUnfit, unfit))
	}
	return value, err
}
