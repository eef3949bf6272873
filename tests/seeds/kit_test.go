package seeds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-go/reprise/record"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/config"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/internal/testkit"
)

var (
	errUnavailable = status(503)
	errRefused     = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	errBusiness    = errors.New("card declined")
)

func status(code int) error { return fmt.Errorf("call the step: %w", &httperror.Error{Code: code}) }

// history is the history of a step: the number of its attempts, the delays between them, and the
// step's error.
type history struct {
	attempts int
	delays   []time.Duration
	err      error
}

// runStep makes a step with the configuration. Its attempts fail with each of errs in turn. After
// that, they succeed.
func runStep(t *testing.T, r config.Retry, errs ...error) (h history) {
	t.Helper()
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		step := testkit.Tool(t, "step", r.Config(), func(context.Context, string) (string, error) {
			h.attempts++
			if h.attempts <= len(errs) {
				return "", errs[h.attempts-1]
			}
			return "out", nil
		})
		_, h.err = testkit.Call(ctx, step)
		for _, rec := range testkit.Records(t, st) {
			if rec.Status == record.StatusRetrying {
				h.delays = append(h.delays, rec.Delay)
			}
		}
	})
	return h
}

// times returns a list that contains err n times.
func times(n int, err error) []error { return slices.Repeat([]error{err}, n) }

func milliseconds(ns ...int) (ds []time.Duration) {
	for _, n := range ns {
		ds = append(ds, time.Duration(n)*time.Millisecond)
	}
	return ds
}

// warned checks that there are as many warnings as texts, and that each warning contains the text
// with the same index.
func warned(t *testing.T, warnings []config.Problem, texts ...string) {
	t.Helper()
	require.Len(t, warnings, len(texts), "%v", warnings)
	for i, text := range texts {
		assert.Contains(t, warnings[i].String(), text)
	}
}

// refused checks that err is a *config.Error whose text begins with want.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	var bad *config.Error
	require.ErrorAs(t, err, &bad)
	assert.True(t, strings.HasPrefix(err.Error(), want), "%v\nwant %s", err, want)
}
