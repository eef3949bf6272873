package core

import (
	"context"
)

// Step runs f as a step of the handler that ctx belongs to, and records its
// result: what is not a call but may come out differently the next time, such
// as the time, a random number, the content of a file. On resume the recorded
// result is returned and f does not run. A step is not retried. Its address is
// that of a call tagged with the name.
func Step[T any](ctx context.Context, name string, f func(context.Context) (T, error)) (T, error) {
	d, err := NewDefinition(Spec{Kind: KindStep, Name: name}, func(ctx context.Context, _ struct{}) (T, error) { return f(ctx) })
	if err != nil {
		var zero T
		return zero, err
	}
	return d.Event().WithTag(name).Execute(ctx, struct{}{})
}
