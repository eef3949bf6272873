package snapshot_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

func at(t testing.TB, path string) core.Address {
	t.Helper()
	a, err := core.ParseAddress(path)
	require.NoError(t, err)
	return a
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	data, err := core.Encode(v)
	require.NoError(t, err)
	return data
}

// runOf is a snapshot of the records, which it numbers.
func runOf(status snapshot.Status, records ...core.Record) *snapshot.Snapshot {
	s := &snapshot.Snapshot{Info: snapshot.Info{RunID: "run", Status: status}, Records: records}
	for i := range records {
		records[i].Seq = uint64(i) + 1
	}
	s.LastSeq = uint64(len(records))
	return s
}

func call(t testing.TB, path string, status core.Status, output any) core.Record {
	return core.Record{
		Address: at(t, path), Name: "x", Kind: core.KindTool, Status: status,
		Detail: &core.Detail{Output: encoded(t, output)},
	}
}

func value(t testing.TB, kind core.Kind, key string, v any) core.Record {
	return core.Record{Name: key, Kind: kind, Status: core.StatusRecorded, Detail: &core.Detail{Output: encoded(t, v)}}
}

func TestDiffTellsEverythingThatChanged(t *testing.T) {
	failed := call(t, "main/fetch", core.StatusFailed, nil)
	failed.Err, failed.Reason, failed.Attempt = errors.New("connection\nrefused"), core.ReasonExhausted, 2
	artifact := call(t, "main/render", core.StatusCompleted, nil)
	artifact.Detail = &core.Detail{Artifact: "aaaa"}
	other := artifact
	other.Detail = &core.Detail{Artifact: "bbbb"}

	a := runOf(snapshot.StatusInterrupted,
		call(t, "main", core.StatusStarted, nil),
		call(t, "main/same", core.StatusCompleted, 1),
		call(t, "main/gone", core.StatusCompleted, 1),
		failed, artifact,
		call(t, "main/answer", core.StatusCompleted, "yes"),
		value(t, core.KindValue, "city", "Oslo"), value(t, core.KindValue, "old", 1), value(t, core.KindValue, "same", 1),
		value(t, core.KindValue, "now", 5),
	)
	a.Metadata = snapshot.Metadata{Description: "d", Tags: []string{"a"}, Custom: map[string]string{"team": "x"}}
	b := runOf(snapshot.StatusCompleted,
		call(t, "main", core.StatusStarted, nil),
		call(t, "main/fetch", core.StatusStarted, nil),
		call(t, "main/fetch", core.StatusCompleted, 3),
		call(t, "main/new", core.StatusCompleted, 1),
		call(t, "main/same", core.StatusCompleted, 1), other,
		call(t, "main/answer", core.StatusCompleted, "no"),
		value(t, core.KindValue, "city", "Rome"), value(t, core.KindValue, "city", "Bergen"), value(t, core.KindValue, "same", 1),
		value(t, core.KindValue, "today", strings.Repeat("x", 200)),
		call(t, "main", core.StatusCompleted, 1),
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
	assert.Equal(t, core.StatusCompleted, d.Events[2].After.Status)
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
	a := runOf("", call(t, "a", core.StatusCompleted, 1), call(t, "b", core.StatusCompleted, 1))
	b := runOf("", call(t, "b", core.StatusCompleted, 1), call(t, "a", core.StatusCompleted, 1))
	b.Updated = time.Now()
	b.Records[0].Time, b.Records[0].Duration = time.Now(), time.Second
	assert.Equal(t, "no difference", snapshot.Diff(a, b).String())
}

func TestDiffNamesWhatALineDoesNotShow(t *testing.T) {
	a, b := call(t, "a", core.StatusCompleted, 1), call(t, "a", core.StatusCompleted, 1)
	b.Detail.InputHash, b.Name = core.Hash{1}, "y"
	long := strings.Repeat("x", 500)
	assert.Equal(t, "~ tool_call a completed → completed (another name, another input)\n"+
		`~ value "k" "`+long[:78]+`… → "`+long[:78]+`… (another value)`,
		snapshot.Diff(
			runOf("", a, value(t, core.KindValue, "k", long+"1")),
			runOf("", b, value(t, core.KindValue, "k", long+"2")),
		).String())
	assert.Equal(t, "change(9)", snapshot.Change(9).String())
}
