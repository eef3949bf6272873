package record_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

var errStock = errors.New("out of stock")

// quotaError is a user's registered error type.
type quotaError struct {
	Limit int           `json:"limit"`
	Again time.Duration `json:"again"`
}

func (e *quotaError) Error() string             { return fmt.Sprint("quota of ", e.Limit) }
func (e *quotaError) HTTPStatusCode() int       { return http.StatusTooManyRequests }
func (e *quotaError) RetryAfter() time.Duration { return e.Again }

// limitError is a registered error type that is not a pointer.
type limitError struct{ N int }

func (e limitError) Error() string { return fmt.Sprint("limit ", e.N) }

func init() {
	record.RegisterError("core_test.errStock", errStock)
	record.RegisterErrorType[*quotaError]("core_test.quotaError")
	record.RegisterErrorType[limitError]("core_test.limitError")
}

func TestRecordedErrorReadsAsTheError(t *testing.T) {
	err := fmt.Errorf("order: %w", errStock)
	e := record.ErrorOf(err)
	assert.EqualError(t, e, "order: out of stock")
	assert.Equal(t, "*fmt.wrapError", e.Type)
	assert.Equal(t, record.ClassUnknown, e.Class)
	assert.Nil(t, record.ErrorOf(nil))
}

func TestWhatWasRecordedIsRecordedOnce(t *testing.T) {
	e := record.ErrorOf(io.EOF)
	assert.Same(t, e, record.ErrorOf(e))
}

func TestErrorsIsFindsRegisteredErrorsInRecordedOnes(t *testing.T) {
	for _, sentinel := range []error{
		errStock, io.EOF, io.ErrUnexpectedEOF, fs.ErrNotExist, context.Canceled, context.DeadlineExceeded,
		syscall.ECONNREFUSED, core.ErrExhausted, core.ErrStorage, core.ErrAttemptOver,
	} {
		for _, err := range []error{
			sentinel, fmt.Errorf("wrapped: %w", sentinel), errors.Join(errors.New("first"), sentinel), core.Permanent(sentinel),
			&core.CallError{Name: "x", Err: sentinel},
		} {
			e := record.ErrorOf(err)
			assert.ErrorIs(t, e, sentinel)
			assert.ErrorIs(t, fmt.Errorf("again: %w", e), sentinel)
			assert.NotErrorIs(t, e, io.ErrShortWrite)
			assert.ErrorIs(t, record.ErrorOf(fmt.Errorf("recorded again: %w", e)), sentinel)
		}
	}
}

func TestErrorsIsDoesNotFindUnregisteredErrors(t *testing.T) {
	unknown := errors.New("unheard of")
	assert.NotErrorIs(t, record.ErrorOf(unknown), unknown)
	assert.NotErrorIs(t, record.ErrorOf(&record.InterruptedError{}), record.ErrInterrupted, "an interrupt is never found in a failure")
}

func TestCallErrorsKeepTheSentinelOfTheirReason(t *testing.T) {
	e := record.ErrorOf(&core.CallError{Name: "x", Reason: record.ReasonRetryTimeout, Stage: record.StageArtifact, Err: io.EOF})
	for _, sentinel := range []error{core.ErrRetryTimeout, core.ErrStorage, context.DeadlineExceeded, io.EOF} {
		assert.ErrorIs(t, e, sentinel)
	}
	assert.NotErrorIs(t, e, core.ErrExhausted)
}

func TestErrorsAsRestoresRegisteredTypes(t *testing.T) {
	e := record.ErrorOf(fmt.Errorf("%w, %w", &quotaError{Limit: 5, Again: time.Minute}, limitError{9}))
	var quota *quotaError
	require.ErrorAs(t, e, &quota)
	assert.Equal(t, &quotaError{Limit: 5, Again: time.Minute}, quota)
	var limit limitError
	require.ErrorAs(t, fmt.Errorf("again: %w", e), &limit)
	assert.Equal(t, limitError{9}, limit)
	var other *core.TimeoutError
	assert.NotErrorAs(t, e, &other)

	again := record.ErrorOf(fmt.Errorf("recorded again: %w", e))
	quota = nil
	require.ErrorAs(t, again, &quota)
	assert.Equal(t, 5, quota.Limit)
}

func TestTypedValuesOfAnotherShapeAreNotRestored(t *testing.T) {
	for _, value := range [][]byte{nil, {0xc1}, {0xa1, 'x'}} {
		e := &record.Error{Typed: []record.TypedError{{Name: "core_test.limitError", Value: value}, {Name: "unknown", Value: value}}}
		var limit limitError
		assert.NotErrorAs(t, e, &limit)
	}
}

func TestClassStatusAndRetryAfterAreKept(t *testing.T) {
	for name, err := range map[string]error{
		"rate limit":  &quotaError{Again: 7 * time.Second},
		"wrapped":     fmt.Errorf("call: %w", &quotaError{Again: 7 * time.Second}),
		"permanent":   core.Permanent(&quotaError{Again: 7 * time.Second}),
		"connection":  &fs.PathError{Op: "dial", Err: syscall.ECONNRESET},
		"timeout":     context.DeadlineExceeded,
		"panic":       &core.PanicError{Value: "boom"},
		"unexplained": errors.New("x"),
	} {
		t.Run(name, func(t *testing.T) {
			e := record.ErrorOf(err)
			assert.Equal(t, record.Classify(err), record.Classify(e))
			assert.Equal(t, record.Classify(err), record.Classify(fmt.Errorf("again: %w", e)))
			want, known := record.HTTPStatus(err)
			status, ok := record.HTTPStatus(e)
			assert.Equal(t, want, status)
			assert.Equal(t, known, ok)
			var after interface{ RetryAfter() time.Duration }
			require.ErrorAs(t, e, &after)
			if known {
				assert.Equal(t, 7*time.Second, after.RetryAfter())
			} else {
				assert.Zero(t, after.RetryAfter())
			}
		})
	}
}

func TestNegativeRetryAfterIsIgnored(t *testing.T) {
	assert.Zero(t, record.ErrorOf(&quotaError{Again: -time.Second}).After)
}

// brokenError panics in every method.
type brokenError struct{ text *string }

func (e brokenError) Error() string   { return *e.text }
func (e brokenError) Is(error) bool   { panic("Is") }
func (e brokenError) As(any) bool     { panic("As") }
func (e brokenError) Unwrap() error   { panic("Unwrap") }
func (e brokenError) StatusCode() int { panic("StatusCode") }

func TestErrorsWhoseMethodsPanicAreRecorded(t *testing.T) {
	var e *record.Error
	require.NotPanics(t, func() { e = record.ErrorOf(brokenError{}) })
	assert.Equal(t, "record_test.brokenError", e.Type)
	assert.NotEmpty(t, e.Message)
	assert.NotErrorIs(t, e, io.EOF)

	var pointer *quotaError
	require.NotPanics(t, func() { e = record.ErrorOf(fmt.Errorf("typed nil: %w", pointer)) })
	assert.Equal(t, "*fmt.wrapError", e.Type)
}

type incomparableError struct{ Parts []string }

func (e incomparableError) Error() string { return fmt.Sprint(e.Parts) }

func TestIncomparableTargetDoesNotPanic(t *testing.T) {
	e := record.ErrorOf(io.EOF)
	assert.NotErrorIs(t, e, incomparableError{[]string{"x"}})
	assert.NotErrorIs(t, e, nil)
}

func TestRegistrationRefusesWhatWouldBeAmbiguous(t *testing.T) {
	for name, register := range map[string]func(){
		"no name":              func() { record.RegisterError("", errStock) },
		"no error":             func() { record.RegisterError("core_test.none", nil) },
		"name of another":      func() { record.RegisterError("io.EOF", errStock) },
		"error of another":     func() { record.RegisterError("core_test.other", errStock) },
		"incomparable":         func() { record.RegisterError("core_test.incomparable", incomparableError{}) },
		"type without a name":  func() { record.RegisterErrorType[*quotaError]("") },
		"name of another type": func() { record.RegisterErrorType[limitError]("core_test.quotaError") },
	} {
		t.Run(name, func(t *testing.T) { assert.Panics(t, register) })
	}
	assert.NotPanics(t, func() {
		record.RegisterError("core_test.errStock", errStock)
		record.RegisterErrorType[*quotaError]("core_test.quotaError")
	}, "registering the same again")
}
