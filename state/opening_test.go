package state_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func TestOpeningSeesTheAttributesOfTheOneBefore(t *testing.T) {
	store := memstore.New()
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "request")
	var seen []state.Opening
	open := func(attributes map[string]any) *state.ExecutionState {
		st, err := state.Open(ctx, store, "a", state.WithMetadata(snapshot.Metadata{Pipeline: "p"}), state.WithOpening(func(ctx context.Context, o state.Opening) map[string]any {
			assert.Equal(t, "request", ctx.Value(key{}))
			seen = append(seen, o)
			return attributes
		}))
		require.NoError(t, err)
		return st
	}
	for i, attributes := range []map[string]any{{"trace": "t", "n": 1}, nil, {"trace": "u"}, {"trace": "v"}} {
		st := open(attributes)
		_, err := core.Step(st.Context(t.Context()), []string{"a", "b", "c", "d"}[i], func(context.Context) (int, error) { return 1, nil })
		if err != nil { // the program diverges, and that opening is also recorded
			require.ErrorIs(t, err, core.ErrDivergence)
		}
		st.Interrupt(snapshot.Stop{By: "test"})
		require.NoError(t, st.Close())
	}
	require.Len(t, seen, 4)
	for i, before := range []map[string]any{nil, {"trace": "t", "n": int64(1)}, {"trace": "t", "n": int64(1)}, {"trace": "u"}} {
		assert.Equal(t, state.Opening{RunID: "a", Generation: uint64(i + 1), Metadata: snapshot.Metadata{Pipeline: "p"}, Before: before}, seen[i])
	}
}

func TestAttributesOfAnOpeningAreInItsFirstRecord(t *testing.T) {
	attributes := map[string]any{"trace": "t"}
	with := func(context.Context, state.Opening) map[string]any { return attributes }
	more := func(context.Context, state.Opening) map[string]any { return map[string]any{"more": true} }
	var published []record.Record
	st := state.New(state.WithOpening(with), state.WithOpening(more),
		state.WithPublisher(testkit.Publisher(func(r record.Record) { published = append(published, r) })))
	attributes["trace"] = "changed"
	require.NoError(t, st.Close())
	assert.Equal(t, map[string]any{"trace": "t", "more": true}, published[0].Detail.Metadata)
	assert.Equal(t, map[string]any{"trace": "t", "more": true}, testkit.Records(t, st)[0].Detail.Metadata)
	assert.Nil(t, published[1].Detail)
}

func TestOpeningIsNotCalledWhereNothingIsRecorded(t *testing.T) {
	store := memstore.New()
	st, err := state.Open(t.Context(), store, "a")
	require.NoError(t, err)
	require.NoError(t, st.Close())
	_, err = state.Replay(t.Context(), store, "a", state.WithOpening(func(context.Context, state.Opening) map[string]any { return nil }))
	require.ErrorContains(t, err, "WithOpening has no effect in Replay")
	assert.PanicsWithError(t, "state: WithOpening got a func(context.Context, state.Opening) map[string]interface {} that is nil", func() {
		state.New(state.WithOpening(nil))
	})
}
