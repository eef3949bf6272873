package record_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
)

func TestAwaitKindIsOnTheWire(t *testing.T) {
	for _, r := range []record.Record{
		{Kind: record.KindQuestion, Status: record.StatusAwaiting, Name: "a?1", Detail: &record.Detail{Awaits: record.AwaitDecision}},
		{Kind: record.KindTool, Status: record.StatusAwaiting, Err: &record.InterruptedError{Reason: record.InterruptAwait, Question: "a?1", Awaits: record.AwaitTime}},
	} {
		data, err := json.Marshal(r)
		require.NoError(t, err)
		var got record.Record
		require.NoError(t, json.Unmarshal(data, &got))
		assert.Equal(t, r.Awaits(), got.Awaits(), "%s", data)
		assert.NotZero(t, got.Awaits())
	}
	assert.Equal(t, record.AwaitAnswer, (&record.Record{Kind: record.KindQuestion}).Awaits(), "a question that does not say what it waits for")
	assert.Zero(t, (&record.Record{Kind: record.KindRun, Status: record.StatusAwaiting}).Awaits())
	var asks record.AwaitKind
	require.ErrorContains(t, asks.UnmarshalText([]byte("nobody")), `unknown kind of waiting "nobody"`)
}
