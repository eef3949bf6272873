package record_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
)

func TestAsksIsOnTheWire(t *testing.T) {
	for _, r := range []record.Record{
		{Kind: record.KindQuestion, Status: record.StatusAwaiting, Name: "a?1", Detail: &record.Detail{Asks: record.AsksDoubt}},
		{Kind: record.KindTool, Status: record.StatusAwaiting, Err: &record.InterruptedError{Reason: record.InterruptAwait, Question: "a?1", Asks: record.AsksTime}},
	} {
		data, err := json.Marshal(r)
		require.NoError(t, err)
		var got record.Record
		require.NoError(t, json.Unmarshal(data, &got))
		assert.Equal(t, r.Asks(), got.Asks(), "%s", data)
		assert.NotZero(t, got.Asks())
	}
	assert.Equal(t, record.AsksAnswer, (&record.Record{Kind: record.KindQuestion}).Asks(), "a question that does not say what it waits for")
	assert.Zero(t, (&record.Record{Kind: record.KindRun, Status: record.StatusAwaiting}).Asks())
	var asks record.Asks
	require.ErrorContains(t, asks.UnmarshalText([]byte("nobody")), `unknown asks "nobody"`)
}
