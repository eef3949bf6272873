package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

var (
	errBoom  = errors.New("boom")                               // class unknown: not retried
	errFlaky = fmt.Errorf("dial tcp: %w", syscall.ECONNREFUSED) // transient
	steady   = core.RetryConfig{Jitter: core.NoJitter}          // three attempts, with waits of 1s and 2s
	once     = core.RetryConfig{MaxAttempts: 1}                 // one attempt
	atOnce   = core.RetryConfig{InitialDelay: core.NoDelay}     // three attempts, no waits
	twice    = core.RetryConfig{Jitter: core.NoJitter, MaxAttempts: 2}
)

// calling returns a branch that calls d.
func calling(d *testkit.Definition) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return testkit.Call(ctx, d) }
}

// group runs all branches, one after another.
func group(ctx context.Context, name string, branches ...func(context.Context) (string, error)) ([]string, error) {
	return actors.Parallel(ctx, actors.Group{Name: name, Workers: 1, CollectAll: true}, branches...)
}

// inline is the size of the largest output that is kept in the record itself.
const inline = 64 << 10

// on returns a publisher that calls f with the first record that has the given status.
func on(status record.Status, f func(record.Record)) testkit.Publisher {
	done := false
	return func(r record.Record) {
		if r.Kind.IsCall() && r.Status == status && !done {
			done = true
			f(r)
		}
	}
}

// wantRecords checks the records of a run's calls. Records are written as
//
//	started(0) failed(0,retry,connection) retrying(1,1s) started(1) completed(1)
//
// with the stage, such as @entry, unless it is the handler. If there is more than one address, each
// record begins with its own.
func wantRecords(t testing.TB, st *state.ExecutionState, want ...string) {
	t.Helper()
	if got, want := story(t, st), strings.Join(want, " "); got != want {
		t.Errorf("records:\n got %s\nwant %s", strings.ReplaceAll(got, " ", "\n     "), strings.ReplaceAll(want, " ", "\n     "))
	}
}

// wantRecordsInAnyOrder is like wantRecords, for calls that run in parallel.
func wantRecordsInAnyOrder(t testing.TB, st *state.ExecutionState, want ...string) {
	t.Helper()
	sorted := func(s string) string { return strings.Join(slices.Sorted(slices.Values(strings.Fields(s))), "\n") }
	assert.Equal(t, sorted(strings.Join(want, " ")), sorted(story(t, st)), "records")
}

func story(t testing.TB, st *state.ExecutionState) string {
	records := calls(t, st)
	several := slices.ContainsFunc(records, func(r record.Record) bool { return r.Address != records[0].Address })
	words := make([]string, len(records))
	for i, r := range records {
		words[i] = brief(r)
		if several {
			words[i] = r.Address.String() + ":" + words[i]
		}
	}
	return strings.Join(words, " ")
}

// calls returns the records of calls.
func calls(t testing.TB, st *state.ExecutionState) []record.Record {
	return slices.DeleteFunc(testkit.Records(t, st), func(r record.Record) bool { return !r.Kind.IsCall() })
}

func brief(r record.Record) string {
	facts := []string{fmt.Sprint(r.Attempt)}
	switch r.Status {
	case record.StatusFailed:
		if r.WillRetry {
			facts = append(facts, "retry")
		} else {
			facts = append(facts, r.Reason.String())
		}
		facts = append(facts, r.Class.String())
	case record.StatusRetrying:
		facts = append(facts, r.Delay.String())
		if r.DelaySource != record.SourceBackoff {
			facts = append(facts, r.DelaySource.String())
		}
	case record.StatusInterrupted:
		facts = append(facts, string(r.Interrupt().Reason))
	}
	if r.Status != record.StatusRetrying && r.Stage != record.StageNone && r.Stage != record.StageHandler {
		facts = append(facts, "@"+r.Stage.String())
	}
	return fmt.Sprintf("%v(%s)", r.Status, strings.Join(facts, ","))
}

// delays returns the delays of a run's waits, in order.
func delays(t testing.TB, st *state.ExecutionState) (ds []time.Duration) {
	for _, r := range calls(t, st) {
		if r.Status == record.StatusRetrying {
			ds = append(ds, r.Delay)
		}
	}
	return ds
}
