package snapshot_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

func at(t testing.TB, path string) record.Address {
	t.Helper()
	a, err := record.ParseAddress(path)
	require.NoError(t, err)
	return a
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	data, err := record.Encode(v)
	require.NoError(t, err)
	return data
}

// runOf is a snapshot of the records, which it numbers.
func runOf(status snapshot.Status, records ...record.Record) *snapshot.Snapshot {
	s := &snapshot.Snapshot{Info: snapshot.Info{RunID: "run", Status: status}, Records: records}
	for i := range records {
		records[i].Seq = uint64(i) + 1
	}
	s.LastSeq = uint64(len(records))
	return s
}

func call(t testing.TB, path string, status record.Status, output any) record.Record {
	return record.Record{
		Address: at(t, path), Name: "x", Kind: record.KindTool, Status: status,
		Detail: &record.Detail{Output: encoded(t, output)},
	}
}

func value(t testing.TB, kind record.Kind, key string, v any) record.Record {
	return record.Record{Name: key, Kind: kind, Status: record.StatusRecorded, Detail: &record.Detail{Output: encoded(t, v)}}
}

func TestDiffTellsEverythingThatChanged(t *testing.T) {
	failed := call(t, "main/fetch", record.StatusFailed, nil)
	failed.Err, failed.Reason, failed.Attempt = errors.New("connection\nrefused"), record.ReasonExhausted, 2
	artifact := call(t, "main/render", record.StatusCompleted, nil)
	artifact.Detail = &record.Detail{Artifact: "aaaa"}
	other := artifact
	other.Detail = &record.Detail{Artifact: "bbbb"}

	a := runOf(snapshot.StatusInterrupted,
		call(t, "main", record.StatusStarted, nil),
		call(t, "main/same", record.StatusCompleted, 1),
		call(t, "main/gone", record.StatusCompleted, 1),
		failed, artifact,
		call(t, "main/answer", record.StatusCompleted, "yes"),
		value(t, record.KindValue, "city", "Oslo"), value(t, record.KindValue, "old", 1), value(t, record.KindValue, "same", 1),
		value(t, record.KindValue, "now", 5),
	)
	a.Metadata = snapshot.Metadata{Description: "d", Tags: []string{"a"}, Custom: map[string]string{"team": "x"}}
	b := runOf(snapshot.StatusCompleted,
		call(t, "main", record.StatusStarted, nil),
		call(t, "main/fetch", record.StatusStarted, nil),
		call(t, "main/fetch", record.StatusCompleted, 3),
		call(t, "main/new", record.StatusCompleted, 1),
		call(t, "main/same", record.StatusCompleted, 1), other,
		call(t, "main/answer", record.StatusCompleted, "no"),
		value(t, record.KindValue, "city", "Rome"), value(t, record.KindValue, "city", "Bergen"), value(t, record.KindValue, "same", 1),
		value(t, record.KindValue, "today", strings.Repeat("x", 200)),
		call(t, "main", record.StatusCompleted, 1),
	)
	b.Metadata = snapshot.Metadata{Description: "d", Pipeline: "p", Tags: []string{"a", "b"}}

	d := snapshot.Diff(a, b)
	assert.Equal(t, strings.TrimSpace(`
~ status "interrupted" → "completed"
- custom.team "x"
+ pipeline "p"
~ tags "a" → "a, b"
~ tool_call main started → completed
~ tool_call main/fetch failed (exhausted, attempt 3): connection refused → completed
+ tool_call main/new completed
~ tool_call main/render completed → completed (another output)
~ tool_call main/answer completed → completed (another output)
- tool_call main/gone completed
~ value "city" "Oslo" → "Bergen"
- value "now" 5
- value "old" 1
+ value "today" "`+strings.Repeat("x", 78)+`…
- artifact aaaa
+ artifact bbbb`), d.String())
	assert.False(t, d.IsEmpty())
	for range 20 {
		require.Equal(t, d, snapshot.Diff(a, b))
	}
	require.Len(t, d.Events, 6)
	assert.Equal(t, snapshot.Added, d.Events[2].Change)
	assert.Nil(t, d.Events[2].Before)
	assert.Equal(t, record.StatusCompleted, d.Events[2].After.Status)
	assert.Equal(t, snapshot.Removed, d.Events[5].Change)
	assert.Equal(t, at(t, "main/gone"), d.Events[5].Address)
}

func TestSnapshotDoesNotDifferFromItsDecodedCopy(t *testing.T) {
	s := everything(t)
	data, err := s.Encode()
	require.NoError(t, err)
	d := snapshot.Diff(s, decode(t, data))
	assert.True(t, d.IsEmpty(), d.String())
	assert.Equal(t, "no difference", d.String())
}

func TestTimesAndNumbersAreNoDifference(t *testing.T) {
	a := runOf("", call(t, "a", record.StatusCompleted, 1), call(t, "b", record.StatusCompleted, 1))
	b := runOf("", call(t, "b", record.StatusCompleted, 1), call(t, "a", record.StatusCompleted, 1))
	b.Updated = time.Now()
	b.Records[0].Time, b.Records[0].Duration = time.Now(), time.Second
	assert.Equal(t, "no difference", snapshot.Diff(a, b).String())
}

func TestDiffNamesWhatALineDoesNotShow(t *testing.T) {
	a, b := call(t, "a", record.StatusCompleted, 1), call(t, "a", record.StatusCompleted, 1)
	b.Detail.InputHash, b.Name = record.Hash{1}, "y"
	long := strings.Repeat("x", 500)
	assert.Equal(t, "~ tool_call a completed → completed (another name, another input)\n"+
		`~ value "k" "`+long[:78]+`… → "`+long[:78]+`… (another value)`,
		snapshot.Diff(
			runOf("", a, value(t, record.KindValue, "k", long+"1")),
			runOf("", b, value(t, record.KindValue, "k", long+"2")),
		).String())
	assert.Equal(t, "change(9)", snapshot.Change(9).String())
}
