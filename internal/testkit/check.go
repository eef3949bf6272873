package testkit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// Completed checks that a call returned the output "out" and no error.
func Completed(t testing.TB, out string, err error) {
	t.Helper()
	if assert.NoError(t, err) {
		assert.Equal(t, "out", out)
	}
}

// Failed checks that err is a *core.CallError with the given reason, and returns that error.
func Failed(t testing.TB, err error, reason record.Reason) *core.CallError {
	t.Helper()
	var e *core.CallError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, reason, e.Reason, "%v", err)
	return e
}

// Interrupted checks that err itself, and not an error that it wraps, is a *record.InterruptedError
// with the given reason. It returns that error.
func Interrupted(t testing.TB, err error, reason record.InterruptReason) *record.InterruptedError {
	t.Helper()
	e, ok := err.(*record.InterruptedError) //nolint:errorlint // the call's own, not one that it wraps
	require.True(t, ok, "got %v (%T), want a *record.InterruptedError", err, err)
	assert.Equal(t, reason, e.Reason, "%v", err)
	assert.ErrorIs(t, err, record.ErrInterrupted)
	return e
}

// PanicText calls f and returns the value with which it panics, as the runtime would print it.
// PanicText fails the test if f returns.
func PanicText(t testing.TB, f func()) (text string) {
	t.Helper()
	defer func() {
		p := recover()
		require.NotNil(t, p, "no panic")
		text = fmt.Sprint(p)
	}()
	f()
	return ""
}
