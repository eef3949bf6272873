package core

import (
	"context"
	"fmt"
)

// Step runs f as a step of the handler that ctx belongs to, and records its
// result: what is not a call but may come out differently the next time, such
// as the time, a random number, the content of a file. On resume the recorded
// result is returned and f does not run. A step is not retried: one that had
// begun when its process ended fails with [ErrInDoubt], unless an option says
// otherwise. Its address is that of a call tagged with the name.
func Step[T any](ctx context.Context, name string, f func(context.Context) (T, error), options ...StepOption) (T, error) {
	spec := Spec{Kind: KindStep, Name: name}
	for _, option := range options {
		if option == nil {
			var zero T
			return zero, fmt.Errorf("core: step %q: an option is nil", name)
		}
		option(&spec)
	}
	d, err := NewDefinition(spec, func(ctx context.Context, _ struct{}) (T, error) { return f(ctx) })
	if err != nil {
		var zero T
		return zero, err
	}
	return d.Event().WithTag(name).Execute(ctx, struct{}{})
}

// A StepOption configures a [Step].
type StepOption func(*Spec)

// StepInDoubt says what becomes of a step whose process ended while it ran.
// Defaults to InDoubtRetry, and since a step has no second attempt that is a
// failure; with [InDoubtAsk] it waits for somebody to decide.
func StepInDoubt(d InDoubt) StepOption { return func(spec *Spec) { spec.InDoubt = d } }

// StepNoStore keeps the result of a step out of records: it runs again when its
// run is resumed.
func StepNoStore() StepOption { return func(spec *Spec) { spec.NoStore = true } }
