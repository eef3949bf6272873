package core

import (
	"context"
	"fmt"

	"github.com/reprise-go/reprise/record"
)

// Step runs f as a step of the handler to which ctx belongs, and records its result. Steps are for
// code that is not a call but may have a different result the next time, such as the time, a random
// number, or the content of a file. On resume, the recorded result is returned and f does not run.
// A step is not retried if it fails. If the process ended or the run was interrupted while the step
// ran, it runs again: like every call, a step runs at least once. [StepInDoubt] is for steps with
// effects that must not be repeated. A step has the address of a call, with the name as its tag. f
// may make calls.
//
// The error is the same as for a call: see [ExecutionEvent.Execute]. Outside a run, f runs and
// nothing is recorded.
func Step[T any](ctx context.Context, name string, f func(context.Context) (T, error), options ...StepOption) (T, error) {
	c := stepConfig{spec: Spec{Kind: record.KindStep, Name: name}, input: struct{}{}}
	for _, option := range options {
		if option == nil {
			var zero T
			return zero, fmt.Errorf("core: step %q: an option is nil", name)
		}
		option(&c)
	}
	if f == nil {
		var zero T
		return zero, fmt.Errorf("core: step %q: its function is nil", name)
	}
	d, err := NewDefinition(c.spec, func(ctx context.Context, _ any) (T, error) { return f(ctx) })
	if err != nil {
		var zero T
		return zero, err
	}
	return d.Event().WithTag(name).Execute(ctx, c.input)
}

// A StepOption configures a [Step].
type StepOption func(*stepConfig)

// stepConfig holds the options of a step.
type stepConfig struct {
	spec  Spec
	input any
}

// StepInput sets the input of the step. As with any call, a run cannot be resumed with a different
// input for the step. Without inputs, steps of the same name cannot be distinguished. v must be a
// value that [record.Encode] accepts.
func StepInput(v any) StepOption { return func(c *stepConfig) { c.input = v } }

// StepInDoubt sets what happens to a step if the process ended, or the run was interrupted, while
// the step ran. Defaults to [InDoubtRetry]: the step runs again. With [InDoubtFail] it fails with
// [ErrInDoubt], and with [InDoubtAsk] it waits until somebody decides; both settings also apply to
// a step that panicked or lost a service's response: see [InDoubtPolicy].
func StepInDoubt(d InDoubtPolicy) StepOption { return func(c *stepConfig) { c.spec.InDoubt = d } }

// StepNoStore keeps the step's result out of the records, so the step runs again when its run is
// resumed.
func StepNoStore() StepOption { return func(c *stepConfig) { c.spec.NoStore = true } }
