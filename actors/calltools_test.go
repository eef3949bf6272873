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

func findAndFail(t *testing.T, made *atomic.Int64) actors.ToolSet {
	t.Helper()
	type query struct {
		Word string `json:"word"`
	}
	once := actors.WithRetry(core.RetryConfig{MaxAttempts: 1})
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

func TestResultsOfToolCallsAreInTheOrderOfTheCalls(t *testing.T) {
	var made atomic.Int64
	tools := findAndFail(t, &made)
	calls := []actors.ToolCall{toolCall("fail", "x"), toolCall("find", "a"), toolCall("nothing", "y"), toolCall("find", "b"), {Name: "find", Arguments: `{"word":7}`}}
	store := memstore.New()
	for range 2 { // the second time, the calls are recalled
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		r, err := actors.CallTools(st.Context(t.Context()), actors.Group{Name: "g", Workers: 1}, tools, calls)
		require.NoError(t, err)
		require.NoError(t, st.Close())
		a, b := actors.ToolOutput{Text: "found a"}, actors.ToolOutput{Text: "found b"}
		for i, want := range []actors.ToolOutput{{}, a, {}, b, {}} {
			assert.Equal(t, calls[i], r[i].Call)
			assert.Equal(t, want, r[i].Output)
			assert.Equal(t, want.Text == "", r[i].Err != nil, "call %d", i)
		}
		require.ErrorContains(t, r.Err(), "boom")
		require.ErrorContains(t, r.Err(), `there is no function "nothing"`)
		require.ErrorContains(t, r.Err(), "word: got")
	}
	assert.EqualValues(t, 3, made.Load())
}

func TestErrJoinsTheErrorsOfAllCalls(t *testing.T) {
	var made atomic.Int64
	r, err := actors.CallTools(t.Context(), actors.Group{Name: "g"}, findAndFail(t, &made), []actors.ToolCall{toolCall("fail", "x"), toolCall("fail", "y")})
	require.NoError(t, err)
	require.ErrorContains(t, r.Err(), "g 1: fail: permanent: boom\nfail: g 2: fail: permanent: boom")
	require.NoError(t, actors.CallResults{}.Err())
	_, err = actors.CallTools(t.Context(), actors.Group{}, findAndFail(t, &made), nil)
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
