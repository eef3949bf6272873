package record_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

func TestRecordReadsBackItsJSON(t *testing.T) {
	address, err := record.ParseAddress("agent/group:a%2Fb/2/fetch#3")
	require.NoError(t, err)
	hash, err := record.HashOf("x")
	require.NoError(t, err)
	at := time.Date(2026, 5, 4, 3, 2, 1, 123456789, time.UTC)
	for name, r := range map[string]record.Record{
		"started":  {Kind: record.KindTool, Status: record.StatusStarted, Attempt: 2, MaxAttempts: core.Unlimited},
		"group":    {Kind: record.KindGroup, Status: record.StatusStarted, Detail: &record.Detail{Branches: 7}},
		"failed":   {Kind: record.KindTool, Status: record.StatusFailed, Err: &record.Error{Message: "down", Class: record.ClassServer}, Class: record.ClassServer, Stage: record.StageHandler, WillRetry: true, Delay: 1500 * time.Millisecond, DelaySource: record.SourceServer, Duration: 17 * time.Nanosecond},
		"for good": {Kind: record.KindLLM, Status: record.StatusFailed, Err: &record.Error{Message: "no"}, Reason: record.ReasonPermanent, Elapsed: time.Hour + 1, Duration: time.Minute},
		"done":     {Kind: record.KindAgent, Status: record.StatusCompleted, Detail: &record.Detail{InputHash: hash, Artifact: "sha", NoStore: true, Usage: record.Usage{InputTokens: 3, Cost: 0.25}}},
		"waits":    {Kind: record.KindTool, Status: record.StatusAwaiting, Err: &record.InterruptedError{Reason: record.InterruptAwait, Message: "refund?"}, Detail: &record.Detail{Message: "refund?"}},
		"stopped":  {Kind: record.KindRun, Status: record.StatusInterrupted, Elapsed: time.Hour, Err: &record.InterruptedError{Reason: record.InterruptUser, By: "ops", Message: "enough"}, Detail: &record.Detail{Message: "enough"}},
		"log":      {Kind: record.KindLog, Status: record.StatusRecorded, Detail: &record.Detail{Message: "m", Severity: slog.LevelWarn + 2, Metadata: map[string]any{"a": "b", "n": 1.5}}},
		"answer":   {Kind: record.KindAnswer, Status: record.StatusRecorded, Detail: &record.Detail{By: "ann"}},
		"recalled": {Kind: record.KindStep, Status: record.StatusRecovered, Replayed: true},
	} {
		r.RunID, r.Seq, r.Generation, r.Ordinal, r.Time, r.Name = "r", math.MaxUint64, 3, 4, at, "fetch"
		if r.Kind != record.KindRun {
			r.Address = address
		}
		data, err := json.Marshal(r)
		require.NoError(t, err)
		var got record.Record
		require.NoError(t, json.Unmarshal(data, &got), name)
		again, err := json.Marshal(got)
		require.NoError(t, err)
		assert.JSONEq(t, string(data), string(again), name)
		assert.Equal(t, r, got, name)
	}
}

// A suspended call has not failed, so clients must not show it as an error.
func TestCallThatWaitsHasNoErrorClassInJSON(t *testing.T) {
	waits := &record.InterruptedError{Reason: record.InterruptAwait, Question: "agent/pay?1", Awaits: record.AwaitAnswer}
	for status, want := range map[record.Status]bool{record.StatusAwaiting: false, record.StatusInterrupted: true} {
		data, err := json.Marshal(record.Record{Kind: record.KindTool, Status: status, Err: waits, Class: record.ClassCanceled})
		require.NoError(t, err)
		assert.Equal(t, want, strings.Contains(string(data), `"error_class":"canceled"`), "%s", data)
	}
}

func TestRecordIsNotReadFromOtherJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"event_type":"log"}`: `event_type and execution_status are required`,
		`{"event_type":"car"}`: `"car"`,
		`{"event_type":"log","execution_status":"recorded","stage":"lunch"}`:    `stage "lunch" is not known`,
		`{"event_type":"log","execution_status":"recorded","error_class":"x"}`:  `error_class "x" is not known`,
		`{"event_type":"log","execution_status":"recorded","reason":"x"}`:       `reason "x" is not known`,
		`{"event_type":"log","execution_status":"recorded","delay_source":"x"}`: `delay_source "x" is not known`,
		`{"event_type":"log","execution_status":"recorded","input_hash":"zz"}`:  `input_hash "zz" is not 16 bytes`,
		`{"event_type":"log","execution_status":"recorded","severity":"loud"}`:  `severity "loud"`,
		`{"event_type":"log","execution_status":"recorded","address":"a//b"}`:   `a//b`,
		`{"seq":-1}`:                      `record: read a record`,
		`[` + strings.Repeat("[", 20_000): `record: read a record`,
	} {
		rec := record.Record{Name: "stays"}
		err := rec.UnmarshalJSON([]byte(in))
		assert.ErrorContains(t, err, want)
		assert.Equal(t, record.Record{Name: "stays"}, rec)
	}
}

func FuzzRecordJSON(f *testing.F) {
	data, err := json.Marshal(record.Record{RunID: "r", Seq: 1, Kind: record.KindTool, Status: record.StatusFailed, Err: errors.New("x"), Duration: time.Second})
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte("{}"))
	f.Add([]byte(`{"event_type":"run","execution_status":"awaiting","execution_time":1e300,"reason":"user","total_time":-1e300}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var r, again record.Record
		if json.Unmarshal(in, &r) != nil {
			return
		}
		first, err := json.Marshal(r)
		if err != nil {
			return // the year cannot be written as JSON
		}
		require.NoError(t, json.Unmarshal(first, &again), "%s", first)
	})
}
