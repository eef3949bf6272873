package testkit

import (
	"context"
	"testing"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// Run returns a run in memory and a context for the run. The run is closed when the test ends.
func Run(t testing.TB, options ...state.Option) (st *state.ExecutionState, ctx context.Context) {
	t.Helper()
	st = state.New(options...)
	t.Cleanup(func() { _ = st.Close() }) // closing twice is fine; a test that wants the error closes the run itself
	ctx = st.Context(t.Context())
	return st, ctx
}

// Publisher is a function that implements a run's publisher.
type Publisher func(record.Record)

// Publish calls p.
func (p Publisher) Publish(r record.Record) { p(r) }
