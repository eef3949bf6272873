package testkit

import (
	"context"
	"testing"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// Run returns a run in memory, which is closed when the test ends, and a context
// of it.
func Run(t testing.TB, options ...state.Option) (st *state.ExecutionState, ctx context.Context) {
	t.Helper()
	st = state.New(options...)
	t.Cleanup(func() { _ = st.Close() }) // twice is fine, and a test that wants the error closes first
	ctx = st.Context(t.Context())
	return st, ctx
}

// Publisher is a function as the publisher of a run.
type Publisher func(record.Record)

// Publish calls p.
func (p Publisher) Publish(r record.Record) { p(r) }
