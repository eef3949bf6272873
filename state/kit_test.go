package state_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

var (
	errBoom  = errors.New("boom")
	errFlaky = core.Retryable(errors.New("flaky"))
	once     = core.RetryConfig{MaxAttempts: 1}
	steady   = core.RetryConfig{Jitter: core.NoJitter} // waits of 1s and 2s
)

// calling returns a branch that calls d.
func calling(d *testkit.Definition) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return testkit.Call(ctx, d) }
}

// group runs all branches, one after another.
func group(ctx context.Context, name string, branches ...func(context.Context) (string, error)) ([]string, error) {
	return actors.Parallel(ctx, actors.Group{Name: name, Workers: 1, CollectAll: true}, branches...)
}

// wantRecords checks the records of a run, written as "kind address status". Values and logs that
// have no address are written with their name instead.
func wantRecords(t testing.TB, st *state.ExecutionState, want ...string) {
	t.Helper()
	var got []string
	for _, r := range testkit.Records(t, st) {
		line := fmt.Sprint(r.Kind, " ", r.Status)
		if !r.Address.IsZero() {
			line = fmt.Sprint(r.Kind, " ", r.Address, " ", r.Status)
		}
		switch r.Kind {
		case record.KindValue:
			line += " " + r.Name
		case record.KindLog:
			line += " " + strings.ToLower(r.Detail.Severity.String()) + ": " + r.Detail.Message
		}
		got = append(got, line)
	}
	assert.Equal(t, "\n"+strings.Join(want, "\n"), "\n"+strings.Join(got, "\n"), "records")
}

// kinds returns the records of kind k.
func kinds(t testing.TB, st *state.ExecutionState, k record.Kind) (found []record.Record) {
	for _, r := range testkit.Records(t, st) {
		if r.Kind == k {
			found = append(found, r)
		}
	}
	return found
}
