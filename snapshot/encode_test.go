package snapshot_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

// everything is a snapshot with no field left empty.
func everything(tb testing.TB) *snapshot.Snapshot {
	s := &snapshot.Snapshot{Info: snapshot.Info{
		RunID: "run-1", ParentID: "run-0", Status: snapshot.StatusPaused, Generation: 3, LastSeq: 50,
		Created: time.Date(2026, 11, 20, 8, 0, 0, 1, time.UTC), Updated: time.Date(2026, 11, 20, 9, 0, 0, 2, time.UTC),
		Metadata: snapshot.Metadata{
			Description: "weather of the week", Pipeline: "weather", Tags: []string{"prod", "eu"},
			Custom: map[string]string{"team": "blue", "cost": "12"},
		},
		Retry: snapshot.RetryLevels{snapshot.AllCalls: level, "llm_call": {Disabled: true, MaxAttempts: 1}},
	}}
	rng := rand.New(rand.NewPCG(50, 1))
	for seq := range uint64(50) {
		r := randomRecord(tb, rng, seq+1)
		r.RunID = s.RunID
		s.Records = append(s.Records, r)
	}
	return s
}

func TestAnySnapshotComesBackAsItWas(t *testing.T) {
	want := everything(t)
	data, err := want.Encode()
	require.NoError(t, err)
	got, err := snapshot.Decode(data)
	require.NoError(t, err)
	assert.Equal(t, want.Info, got.Info)
	require.Len(t, got.Records, len(want.Records))
	for i := range want.Records {
		assertSameRecord(t, want.Records[i], got.Records[i])
	}
	again, err := got.Encode()
	require.NoError(t, err)
	assert.Equal(t, data, again)
}

func TestEmptySnapshotComesBackEmpty(t *testing.T) {
	data, err := new(snapshot.Snapshot).Encode()
	require.NoError(t, err)
	got, err := snapshot.Decode(data)
	require.NoError(t, err)
	assert.Equal(t, new(snapshot.Snapshot), got)
}

func TestLastSeqIsTakenFromTheRecords(t *testing.T) {
	s := runOf(snapshot.StatusRunning, core.Record{}, core.Record{})
	s.LastSeq = 99
	data, err := s.Encode()
	require.NoError(t, err)
	got, err := snapshot.Decode(data)
	require.NoError(t, err)
	assert.Equal(t, uint64(2), got.LastSeq)
}

// header takes a snapshot apart as another language would.
func header(t *testing.T, s *snapshot.Snapshot) map[string]any {
	t.Helper()
	data, err := s.Encode()
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, msgpack.Unmarshal(data, &m))
	return m
}

func TestDocumentHoldsWhatTheRecordsComeTo(t *testing.T) {
	large := value(t, core.KindValue, "large", nil)
	large.Detail = &core.Detail{Artifact: "bbbb"}
	rendered := call(t, "render", core.StatusCompleted, nil)
	rendered.Detail = &core.Detail{Artifact: "aaaa"}
	written, unfinished := value(t, core.KindStepResult, "by", "a"), value(t, core.KindStepResult, "by", "b")
	written.Address, unfinished.Address = at(t, "a"), at(t, "b")
	m := header(t, runOf(snapshot.StatusCompleted,
		written, call(t, "a", core.StatusCompleted, 1), unfinished, call(t, "b", core.StatusFailed, 1),
		value(t, core.KindValue, "city", "Oslo"), value(t, core.KindStepResult, "city", 1), large, rendered, rendered,
		value(t, core.KindValue, "city", "Bergen"),
	))
	assert.Equal(t, map[string]any{"city": encoded(t, "Bergen"), "large": "bbbb"}, m["values"])
	assert.Equal(t, map[string]any{"city": encoded(t, 1), "by": encoded(t, "a")}, m["step_results"])
	assert.Equal(t, []any{"aaaa", "bbbb"}, m["artifacts"])
	assert.Equal(t, "reprise-snapshot", m["format"])
	assert.EqualValues(t, 1, m["version"])
	assert.EqualValues(t, 10, m["last_seq"])
	assert.Len(t, m["records"], 10)
	assert.Nil(t, m["created"])
}

func TestEncodeRefusesRecordsThatItCouldNotRead(t *testing.T) {
	s := runOf("", core.Record{}, core.Record{}, core.Record{})
	s.Records[1].Seq = 7
	_, err := s.Encode()
	assert.ErrorContains(t, err, "record 2 of 3 has the sequence number 7")
	s = runOf("", core.Record{Time: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)})
	_, err = s.Encode()
	assert.ErrorContains(t, err, "record 1: the time 9999")
	_, err = (&snapshot.Snapshot{Info: snapshot.Info{RunID: "r", Updated: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}}).Encode()
	assert.ErrorContains(t, err, `encode "r": updated: the time 9999`)
}

// document writes a snapshot by hand: pairs in order.
func document(t *testing.T, pairs ...any) []byte {
	t.Helper()
	data := []byte{0xde, 0, byte((len(pairs) + 1) / 2)}
	for _, v := range pairs {
		b, err := msgpack.Marshal(v)
		require.NoError(t, err)
		data = append(data, b...)
	}
	return data
}

func TestWhatIsNoSnapshotIsRefusedByItsKind(t *testing.T) {
	whole, err := everything(t).Encode()
	require.NoError(t, err)
	begin := []any{"format", "reprise-snapshot", "version"}
	for name, test := range map[string]struct {
		data []byte
		kind error
		want string
	}{
		"empty":            {nil, snapshot.ErrCorrupt, "byte 0: the snapshot is empty"},
		"text":             {[]byte("hello, world"), snapshot.ErrFormat, "no snapshot of Reprise"},
		"other msgpack":    {document(t, "format", "other"), snapshot.ErrFormat, "no snapshot of Reprise"},
		"json":             {[]byte(`{"format":"reprise-snapshot"}`), snapshot.ErrFormat, "no snapshot of Reprise"},
		"newer":            {document(t, append(begin, 2, "records", "in another way")...), snapshot.ErrFormat, "version 2 and this version of Reprise reads up to version 1; use a newer Reprise"},
		"far newer":        {document(t, append(begin, uint64(1)<<63)...), snapshot.ErrFormat, "version 9223372036854775808"},
		"version zero":     {document(t, append(begin, 0)...), snapshot.ErrFormat, "never a version 0"},
		"version of text":  {document(t, append(begin, "1")...), snapshot.ErrCorrupt, "byte 35"},
		"trailing bytes":   {append(slices.Clone(whole), 1, 2, 3), snapshot.ErrCorrupt, fmt.Sprintf("byte %d: 3 bytes after the snapshot", len(whole))},
		"sequence":         {document(t, append(begin, 1, "last_seq", 3, "records", []any{[]any{1, 1}, []any{1, 3}})...), snapshot.ErrCorrupt, "record 2 of 2 has the sequence number 3"},
		"last_seq":         {document(t, append(begin, 1, "last_seq", 3, "records", []any{[]any{1, 1}, []any{1, 2}})...), snapshot.ErrCorrupt, "its last record is 2, and it says that it is 3"},
		"record":           {document(t, append(begin, 1, "records", []any{[]any{1, 1}, []any{1, 2, "noon"}})...), snapshot.ErrCorrupt, "record 2 of 2: snapshot: damaged: field 2: byte "},
		"newer record":     {document(t, append(begin, 1, "records", []any{[]any{5, 1}})...), snapshot.ErrFormat, "the record has version 5"},
		"header":           {document(t, append(begin, 1, "status", 7)...), snapshot.ErrCorrupt, `"status": byte `},
		"too many records": {append(document(t, append(begin, 1, "records")...), 0xdd, 0xff, 0xff, 0xff, 0xff), snapshot.ErrCorrupt, "a length of 4294967295 with 0 bytes left"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := snapshot.Decode(test.data)
			assert.ErrorIs(t, err, test.kind)
			assert.ErrorContains(t, err, test.want)
		})
	}
	for cut := 0; cut < len(whole); cut += 1 + cut/10 {
		_, err := snapshot.Decode(whole[:cut])
		require.ErrorIs(t, err, snapshot.ErrCorrupt, "cut at %d", cut)
		require.ErrorContains(t, err, "byte ")
	}
}

func TestKeysAddedLaterAreSkipped(t *testing.T) {
	got, err := snapshot.Decode(document(t, "format", "reprise-snapshot", "version", 1,
		"levels", map[string]any{"deep": []any{1}}, "run_id", "r", "metadata", map[string]any{"new": []any{1}, "pipeline": "p"},
		"last_seq", 1, "records", []any{[]any{1, 1}}))
	require.NoError(t, err)
	assert.Equal(t, "r", got.RunID)
	assert.Equal(t, "p", got.Metadata.Pipeline)
	assert.Equal(t, []core.Record{{RunID: "r", Seq: 1}}, got.Records)
}

func BenchmarkSnapshot(b *testing.B) {
	s := &snapshot.Snapshot{Info: snapshot.Info{RunID: "run"}}
	for i := range 10_000 {
		address, err := core.ParseAddress(fmt.Sprintf("assistant/get_weather#%d", i+2))
		require.NoError(b, err)
		r := core.Record{Address: address, Name: "get_weather", Kind: core.KindTool, Status: core.StatusStarted, Time: time.Now(), MaxAttempts: 3}
		s.Records = append(s.Records, r)
		r.Status, r.Duration, r.Elapsed = core.StatusCompleted, time.Second, time.Second
		r.Detail = &core.Detail{Output: encoded(b, "sunny, 21 degrees")}
		s.Records = append(s.Records, r)
	}
	for i := range s.Records {
		s.Records[i].Seq = uint64(i) + 1
	}
	data, err := s.Encode()
	require.NoError(b, err)
	b.Run("encode/calls=10000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = s.Encode()
		}
	})
	b.Run("decode/calls=10000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = snapshot.Decode(data)
		}
	})
}
