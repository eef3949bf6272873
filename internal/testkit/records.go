package testkit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Records returns the records of a run.
func Records(t testing.TB, st *state.ExecutionState) []record.Record {
	t.Helper()
	records, err := st.Records(context.WithoutCancel(t.Context()))
	require.NoError(t, err)
	RequireLedger(t, records, nil)
	return records
}

// Questions returns the open questions of a run.
func Questions(t testing.TB, st *state.ExecutionState) []core.Question {
	t.Helper()
	questions, err := st.Questions(context.WithoutCancel(t.Context()))
	require.NoError(t, err)
	return questions
}

// Address parses an address.
func Address(t testing.TB, path string) record.Address {
	t.Helper()
	a, err := record.ParseAddress(path)
	require.NoError(t, err)
	return a
}

// Encoded encodes a value.
func Encoded(t testing.TB, v any) []byte {
	t.Helper()
	data, err := record.Encode(v)
	require.NoError(t, err)
	return data
}

// Stored numbers the records and returns a snapshot of them.
func Stored(status snapshot.Status, records ...record.Record) *snapshot.Snapshot {
	s := &snapshot.Snapshot{Info: snapshot.Info{RunID: "run", Status: status}, Records: records}
	for i := range records {
		records[i].Seq = uint64(i) + 1
	}
	s.LastSeq = uint64(len(records))
	return s
}

// CallRecord returns a record of a tool call.
func CallRecord(t testing.TB, path string, status record.Status, output any) record.Record {
	t.Helper()
	return record.Record{
		Address: Address(t, path), Name: "x", Kind: record.KindTool, Status: status,
		Detail: &record.Detail{Output: Encoded(t, output)},
	}
}

// ValueRecord returns the record of a value.
func ValueRecord(t testing.TB, key string, v any) record.Record {
	t.Helper()
	return record.Record{Name: key, Kind: record.KindValue, Status: record.StatusRecorded, Detail: &record.Detail{Output: Encoded(t, v)}}
}

// LoadRun reads a stored run with its records.
func LoadRun(t testing.TB, s snapshot.Store, runID string) *snapshot.Snapshot {
	t.Helper()
	run, err := s.Load(t.Context(), runID)
	require.NoError(t, err)
	found, err := run.Snapshot()
	require.NoError(t, err)
	RequireLedger(t, found.Records, nil)
	return found
}
