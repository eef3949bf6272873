package state_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

type invoice struct {
	Items *big.Int    `json:"items"`
	Price json.Number `json:"price"`
}

// answered answers the question of a program that asks for a T with the given Go value. It returns
// what the program gets, or the error of the answer.
func answered[T any](t *testing.T, value any) (got T, err error) {
	t.Helper()
	s, goOn := askFor[T](t)
	before := len(testkit.LoadRun(t, s, askedRun).Records)
	if err := state.Answer(t.Context(), s, askedRun, question, "", value); err != nil {
		assert.Len(t, testkit.LoadRun(t, s, askedRun).Records, before, "nothing is recorded")
		waiting, postErr := s.Messages(t.Context(), askedRun)
		require.NoError(t, postErr)
		assert.Empty(t, waiting, "nothing is posted")
		return got, err
	}
	return goOn()
}

func TestGoNumbersAreAcceptedAsTheirJSON(t *testing.T) {
	for _, five := range []any{5, json.Number("5"), big.NewInt(5), json.RawMessage("5"), big.NewFloat(5)} {
		name := fmt.Sprintf("%T", five)
		if _, isFloat := five.(*big.Float); !isFloat { // the JSON of a big.Float is a string
			got, err := answered[int](t, five)
			require.NoError(t, err, name)
			assert.Equal(t, 5, got, name)
			large, err := answered[*big.Int](t, five)
			require.NoError(t, err, name)
			assert.Equal(t, "5", large.String(), name)
			number, err := answered[json.Number](t, five)
			require.NoError(t, err, name)
			assert.Equal(t, json.Number("5"), number, name)
			float, err := answered[float64](t, five)
			require.NoError(t, err, name)
			assert.InDelta(t, 5, float, 0, name)
		} else {
			_, err := answered[float64](t, five)
			require.ErrorIs(t, err, core.ErrUnfit)
			require.ErrorContains(t, err, "got a string, want a number")
		}
	}
	want := invoice{big.NewInt(4), "7.5"}
	for _, value := range []any{
		want, &want, json.RawMessage(`{"items":4,"price":7.5}`),
		map[string]any{"items": big.NewInt(4), "price": json.Number("7.5")},
		map[string]any{"items": 4, "price": 7.5},
	} {
		got, err := answered[invoice](t, value)
		require.NoError(t, err)
		assert.Equal(t, want, got, "%T", value)
	}
	text, err := answered[string](t, json.Number("5"))
	require.NoError(t, err)
	assert.Equal(t, "5", text, "the kind of json.Number is string")
}

func TestNumberThatDoesNotFitIsRefusedByName(t *testing.T) {
	_, err := answered[int](t, json.Number("5.5"))
	require.ErrorIs(t, err, core.ErrUnfit)
	require.ErrorContains(t, err, "got 5.5, want an integer")
	_, err = answered[invoice](t, map[string]any{"items": json.Number("much"), "price": 1})
	require.ErrorIs(t, err, core.ErrUnfit)
	require.ErrorContains(t, err, "items: got a string, want an integer")
	_, err = answered[invoice](t, map[string]any{"items": big.NewInt(1)})
	require.ErrorIs(t, err, core.ErrUnfit)
	require.ErrorContains(t, err, "price")
	large := new(big.Int).Lsh(big.NewInt(1), 100)
	_, err = answered[*big.Int](t, large.Add(large, big.NewInt(1)))
	require.ErrorIs(t, err, core.ErrUnfit)
	require.ErrorContains(t, err, "the number 1267650600228229401496703205377 is too large: want a whole number of at most 64 bits")
}

// A default that fits its type is accepted, whatever its Go type.
func TestDefaultAnswerOfALargeNumberIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		ask := testkit.Tool(t, "ask", once, func(ctx context.Context, _ string) (string, error) {
			n, err := core.Await(ctx, "how many?", core.AwaitDefault(time.Hour, big.NewInt(7)))
			if err != nil {
				return "", err
			}
			return n.String(), nil
		})
		open := func() (string, error) {
			st := openRun(t, s)
			defer func() { require.NoError(t, st.Close()) }()
			return testkit.Call(st.Context(t.Context()), ask)
		}
		_, err := open()
		require.ErrorIs(t, err, core.ErrAwaiting)
		require.NoError(t, testkit.Pause(t.Context(), 2*time.Hour))
		out, err := open()
		require.NoError(t, err)
		assert.Equal(t, "7", out)
	})
}

func TestDefaultAnswerThatDoesNotFitIsAnError(t *testing.T) {
	ask := testkit.Tool(t, "ask", once, func(ctx context.Context, _ string) (string, error) {
		_, err := core.Await(ctx, "how sure?", core.AwaitDefault(time.Hour, decisionOn{Level: "middle"}))
		return "", err
	})
	_, ctx := testkit.Run(t)
	_, err := testkit.Call(ctx, ask)
	require.ErrorIs(t, err, core.ErrUnfit)
	require.ErrorContains(t, err, "core: AwaitDefault(1h0m0s, …): ")
	require.ErrorContains(t, err, "level")
}
