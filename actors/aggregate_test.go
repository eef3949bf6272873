package actors_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func aggregated(t *testing.T, made *atomic.Int64) actors.ToolSet {
	t.Helper()
	type query struct {
		Word string `json:"word"`
	}
	once := actors.WithRetry(core.RetryConfig{Disabled: true})
	find := decorators.Tool("find", "", func(_ context.Context, in query) (string, error) {
		made.Add(1)
		return "found " + in.Word, nil
	}, once)
	fail := decorators.Tool("fail", "", func(context.Context, query) (string, error) { made.Add(1); return "", errors.New("boom") }, once)
	tools, err := actors.NewToolSet(find, fail)
	require.NoError(t, err)
	return tools
}

func toolCall(name, word string) actors.ToolCall {
	return actors.ToolCall{ID: name + word, Name: name, Arguments: fmt.Sprintf(`{"word":%q}`, word)}
}

func TestToolResultsAreAggregated(t *testing.T) {
	var made atomic.Int64
	tools := aggregated(t, &made)
	calls := []actors.ToolCall{toolCall("fail", "x"), toolCall("find", "a"), toolCall("nothing", "y"), toolCall("find", "b"), {Name: "find", Arguments: `{"word":7}`}}
	store := memstore.New()
	for range 2 { // the second time the calls are recalled
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		r, err := actors.CallTools(st.Context(t.Context()), actors.Group{Name: "g", Workers: 1}, tools, calls)
		require.NoError(t, err)
		require.NoError(t, st.Close())
		a, b := actors.ToolOutput{Text: "found a"}, actors.ToolOutput{Text: "found b"}
		assert.Equal(t, []actors.ToolOutput{a, b}, r.List())
		assert.Equal(t, map[string][]actors.ToolOutput{"find": {a, b}}, r.ByName())
		assert.Equal(t, "found a, found b", r.Concatenate(", ").Text)
		first, err := r.FirstSuccess()
		require.NoError(t, err)
		assert.Equal(t, a, first)
		require.ErrorContains(t, r.Err(), "boom")
		require.ErrorContains(t, r.Err(), `there is no function "nothing"`)
		require.ErrorContains(t, r.Err(), "word: got")
		assert.Equal(t, calls[3], r[3].Call)
	}
	assert.EqualValues(t, 3, made.Load())
}

func TestFirstSuccessOfNoneHasAllErrors(t *testing.T) {
	var made atomic.Int64
	r, err := actors.CallTools(t.Context(), actors.Group{Name: "g"}, aggregated(t, &made), []actors.ToolCall{toolCall("fail", "x"), toolCall("fail", "y")})
	require.NoError(t, err)
	_, err = r.FirstSuccess()
	require.ErrorContains(t, err, "fail: ")
	_, err = actors.CallResults{}.FirstSuccess()
	require.ErrorContains(t, err, "no results")
	require.NoError(t, actors.CallResults{}.Err())
	_, err = actors.CallTools(t.Context(), actors.Group{}, aggregated(t, &made), nil)
	require.ErrorContains(t, err, "Group.Name")
}

func TestInterruptedToolCallsHaveNoResults(t *testing.T) {
	st := state.New()
	stop := decorators.Tool("stop", "", func(ctx context.Context, _ struct{}) (string, error) {
		st.Interrupt(snapshot.Stop{})
		<-ctx.Done()
		return "", ctx.Err()
	})
	tools, err := actors.NewToolSet(stop)
	require.NoError(t, err)
	r, err := actors.CallTools(st.Context(t.Context()), actors.Group{Name: "g"}, tools, []actors.ToolCall{{Name: "stop"}})
	require.ErrorIs(t, err, core.ErrInterrupted)
	assert.Nil(t, r)
	require.NoError(t, st.Close())
}
