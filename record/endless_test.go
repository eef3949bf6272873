package record_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// endless is an error that wraps itself, alone or joined with another error.
type endless struct{ alone bool }

func (*endless) Error() string { return "endless" }

func (e *endless) Unwrap() error {
	if e.alone {
		return e
	}
	return errors.Join(errStock, &endless{})
}

func TestErrorThatWrapsItselfIsRecorded(t *testing.T) {
	for _, err := range []error{&endless{alone: true}, &endless{}} {
		err = core.Retryable(fmt.Errorf("outer: %w", err))
		recorded := record.ErrorOf(err)
		assert.Equal(t, "outer: endless", recorded.Error())
		assert.True(t, record.Inspect(err).Retryable)
		assert.True(t, record.Inspect(recorded).Retryable)
		assert.Equal(t, record.ClassUnknown, record.Classify(err))
	}
	assert.ErrorIs(t, record.ErrorOf(&endless{}), errStock)
}

// reused is an error that its handler changes and returns again.
type reused struct{ text string }

func (e *reused) Error() string { return e.text }

func TestFrozenErrorKeepsItsText(t *testing.T) {
	freeze := func(cause error) error {
		return (&record.InterruptedError{Cause: cause}).Frozen().Cause
	}
	err := &reused{"first"}
	frozen := freeze(err)
	err.text = "second"
	assert.EqualError(t, frozen, "first")
	assert.ErrorIs(t, frozen, err)
	assert.Equal(t, frozen, freeze(frozen))

	require.NoError(t, freeze(nil))
	for _, constant := range []error{errStock, core.Permanent(errStock), fmt.Errorf("%w", err), record.ErrorOf(err), &record.InterruptedError{Cause: errStock}} {
		assert.Same(t, constant, freeze(constant))
	}
	within := freeze(&record.InterruptedError{Cause: err})
	err.text = "third"
	assert.EqualError(t, within, "interrupted: second")
}
