package snapshot_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/diff"
)

// everything returns a snapshot with every field set.
func everything(tb testing.TB) *snapshot.Snapshot {
	s := &snapshot.Snapshot{Info: snapshot.Info{
		RunID: "run-1", ParentID: "run-0", Status: snapshot.StatusPaused, Generation: 3, LastSeq: 50,
		Usage:   record.Usage{InputTokens: 40, OutputTokens: 2, Cost: 0.25},
		Created: time.Date(2026, 11, 20, 8, 0, 0, 1, time.UTC), Updated: time.Date(2026, 11, 20, 9, 0, 0, 2, time.UTC),
		Metadata: snapshot.Metadata{
			Description: "weather of the week", Pipeline: "weather", Tags: []string{"prod", "eu"},
			Custom: map[string]string{"team": "blue", "cost": "12"},
		},
		Retry: snapshot.RetryLevels{snapshot.RetryOfAll: level, "llm_call": {MaxAttempts: 1}},
	}}
	rng := rand.New(rand.NewPCG(50, 1))
	for seq := range uint64(50) {
		r := randomRecord(tb, rng, seq+1)
		r.RunID = s.RunID
		s.Records = append(s.Records, r)
	}
	return s
}

// decode decodes a valid document, including its records.
func decode(t testing.TB, data []byte) *snapshot.Snapshot {
	t.Helper()
	run, err := snapshot.Decode(data)
	require.NoError(t, err)
	s, err := run.Snapshot()
	require.NoError(t, err)
	return s
}

func TestAnySnapshotIsRestoredUnchanged(t *testing.T) {
	want := everything(t)
	data, err := want.Encode()
	require.NoError(t, err)
	got := decode(t, data)
	assert.Equal(t, want.Info, got.Info)
	require.Len(t, got.Records, len(want.Records))
	for i := range want.Records {
		assertSameRecord(t, want.Records[i], got.Records[i])
	}
	again, err := got.Encode()
	require.NoError(t, err)
	assert.Equal(t, data, again)
	run, err := snapshot.Decode(data)
	require.NoError(t, err)
	again, err = run.Encode()
	require.NoError(t, err)
	assert.Equal(t, data, again)
}

func TestEmptySnapshotComesBackEmpty(t *testing.T) {
	data, err := new(snapshot.Snapshot).Encode()
	require.NoError(t, err)
	assert.Equal(t, new(snapshot.Snapshot), decode(t, data))
}

func TestLastSeqIsTakenFromTheRecords(t *testing.T) {
	s := testkit.Stored(snapshot.StatusRunning, record.Record{}, record.Record{})
	s.LastSeq = 99
	data, err := s.Encode()
	require.NoError(t, err)
	assert.Equal(t, uint64(2), decode(t, data).LastSeq)
}

// longRun returns a run whose document has many blocks.
func longRun(tb testing.TB, calls int) *snapshot.Run {
	tb.Helper()
	s := &snapshot.Snapshot{Info: snapshot.Info{RunID: "run", Status: snapshot.StatusPaused}}
	for i := range calls {
		address, err := record.ParseAddress(fmt.Sprintf("assistant/get_weather#%d", i+2))
		require.NoError(tb, err)
		r := record.Record{Seq: uint64(2*i + 1), Address: address, Name: "get_weather", Kind: record.KindTool, Status: record.StatusStarted, Time: time.Unix(1_700_000_000, 0), MaxAttempts: 3}
		s.Records = append(s.Records, r)
		r.Seq, r.Status, r.Duration, r.Elapsed = r.Seq+1, record.StatusCompleted, time.Second, time.Second
		r.Detail = &record.Detail{Output: testkit.Encoded(tb, "sunny, 21 degrees")}
		s.Records = append(s.Records, r)
	}
	data, err := s.Encode()
	require.NoError(tb, err)
	run, err := snapshot.Decode(data)
	require.NoError(tb, err)
	return run
}

// In a document of several blocks, any changed or missing byte is detected, and the records before
// it can be read.
func TestDamageIsFoundAndTheRecordsBeforeItAreWhole(t *testing.T) {
	run := longRun(t, 1500)
	whole, err := run.Encode()
	require.NoError(t, err)
	require.Greater(t, len(whole), 40<<10)
	check := func(data []byte, at int, what string) {
		got, err := snapshot.Decode(data)
		if err == nil {
			t.Fatalf("%s at %d of %d is not noticed", what, at, len(whole))
		}
		if !errors.Is(err, snapshot.ErrCorrupt) && !errors.Is(err, snapshot.ErrFormat) {
			t.Fatalf("%s at %d: %v", what, at, err)
		}
		if got == nil {
			return
		}
		for seq := uint64(1); seq <= uint64(got.Len()); seq++ {
			if !bytes.Equal(got.Encoded(seq), run.Encoded(seq)) {
				t.Fatalf("%s at %d: record %d has changed", what, at, seq)
			}
		}
		if at > 128<<10 && got.Len() < 2*at/300 {
			t.Fatalf("%s at %d: only %d records can be read", what, at, got.Len())
		}
	}
	for at := 0; at < len(whole); at += 1 + at%1499 {
		data := slices.Clone(whole)
		data[at] ^= 1 << (at % 8)
		check(data, at, "a flip")
		check(whole[:at], at, "a cut")
	}
}

// header decodes the document of a snapshot without using package snapshot, like a program in
// another language.
func header(t *testing.T, s *snapshot.Snapshot) map[string]any {
	t.Helper()
	data, err := s.Encode()
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, msgpack.Unmarshal(data, &m))
	return m
}

func TestDocumentHoldsTheTotalsOfItsRecords(t *testing.T) {
	large := testkit.ValueRecord(t, "large", nil)
	large.Detail = &record.Detail{Artifact: "bbbb"}
	rendered := testkit.CallRecord(t, "render", record.StatusCompleted, nil)
	rendered.Detail = &record.Detail{Artifact: "aaaa"}
	written, unfinished := testkit.ValueRecord(t, "by", "a"), testkit.ValueRecord(t, "by", "b")
	written.Address, unfinished.Address = testkit.Address(t, "a"), testkit.Address(t, "b")
	m := header(t, testkit.Stored(snapshot.StatusCompleted,
		written, testkit.CallRecord(t, "a", record.StatusCompleted, 1), unfinished, testkit.CallRecord(t, "b", record.StatusFailed, 1),
		testkit.ValueRecord(t, "city", "Oslo"), large, rendered, rendered,
		testkit.ValueRecord(t, "city", "Bergen"),
	))
	assert.Equal(t, map[string]any{"city": testkit.Encoded(t, "Bergen"), "large": "bbbb", "by": testkit.Encoded(t, "a")}, m["values"])
	assert.Equal(t, []any{"aaaa", "bbbb"}, m["artifacts"])
	assert.Equal(t, "reprise-run", m["format"])
	assert.EqualValues(t, 1, m["version"])
	assert.EqualValues(t, 9, m["last_seq"])
	assert.Len(t, m["records"], 9)
	assert.Nil(t, m["created_at"])
}

func TestEncodeRefusesRecordsThatItCouldNotRead(t *testing.T) {
	s := testkit.Stored("", record.Record{}, record.Record{}, record.Record{})
	s.Records[1].Seq = 7
	_, err := s.Encode()
	assert.ErrorContains(t, err, "got record 7, want record 2")
	s = testkit.Stored("", record.Record{Time: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)})
	_, err = s.Encode()
	assert.ErrorContains(t, err, "record 1: the time 9999")
	_, err = (&snapshot.Snapshot{Info: snapshot.Info{RunID: "r", Updated: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}}).Encode()
	assert.ErrorContains(t, err, `encode run r: updated_at: the time 9999`)
}

// document returns a document with the pairs in the given order, and a single checksum for all of
// it.
func document(t *testing.T, pairs ...any) []byte {
	t.Helper()
	data := []byte{0xde, 0, byte((len(pairs)+1)/2 + 1)}
	for _, v := range pairs {
		b, err := msgpack.Marshal(v)
		require.NoError(t, err)
		data = append(data, b...)
	}
	data = append(data, "\xa9checksums\xc6\x00\x00\x00\x14"...)
	table := binary.BigEndian.AppendUint64(nil, uint64(len(data)))
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	table = binary.BigEndian.AppendUint32(table, crc32.Checksum(data, castagnoli))
	table = binary.BigEndian.AppendUint32(table, 1)
	table = binary.BigEndian.AppendUint32(table, crc32.Checksum(table, castagnoli))
	return append(data, table...)
}

// least returns a record with as few fields as possible.
func least(seq int, fields ...any) []any {
	r := append([]any{1, seq}, fields...)
	for len(r) < 30 {
		r = append(r, nil)
	}
	return r
}

func TestInvalidDocumentsAreRefusedWithTheReason(t *testing.T) {
	whole, err := everything(t).Encode()
	require.NoError(t, err)
	begin := []any{"format", "reprise-run", "version"}
	for name, test := range map[string]struct {
		data []byte
		kind error
		want string
	}{
		"empty":            {nil, snapshot.ErrCorrupt, "byte 0, after record 0: it is empty"},
		"text":             {[]byte("hello, world"), snapshot.ErrFormat, "not a run of Reprise"},
		"other msgpack":    {document(t, "format", "other"), snapshot.ErrFormat, "not a run of Reprise"},
		"before a release": {document(t, "format", "reprise-snapshot", "version", 1), snapshot.ErrFormat, "not a run of Reprise"},
		"json":             {[]byte(`{"format":"reprise-run"}`), snapshot.ErrFormat, "not a run of Reprise"},
		"jsonl":            {[]byte(`{"seq":1}` + "\n"), snapshot.ErrFormat, "`reprise export RUN --format msgpack -o FILE` writes such files"},
		"newer":            {document(t, append(begin, 2, "records", "in another way")...), snapshot.ErrFormat, "version 2, and this version of Reprise reads up to version 1; use a newer Reprise"},
		"far newer":        {document(t, append(begin, uint64(1)<<63)...), snapshot.ErrFormat, "version 9223372036854775808"},
		"version zero":     {document(t, append(begin, 0)...), snapshot.ErrCorrupt, "never a version 0"},
		"version of text":  {document(t, append(begin, "1")...), snapshot.ErrCorrupt, "byte 3"},
		"trailing bytes":   {append(slices.Clone(whole), 1, 2, 3), snapshot.ErrCorrupt, "no table of checksums at the end"},
		"sequence":         {document(t, append(begin, 1, "last_seq", 3, "records", []any{least(1), least(3)})...), snapshot.ErrCorrupt, "record 3 where record 2 is expected"},
		"last_seq":         {document(t, append(begin, 1, "last_seq", 3, "records", []any{least(1), least(2)})...), snapshot.ErrCorrupt, "the last record is 2, but the document says 3"},
		"tiny records":     {document(t, append(begin, 1, "records", []any{[]any{1, 1}, []any{1, 2}})...), snapshot.ErrCorrupt, "not a record: an array of 2 fields"},
		"newer record":     {document(t, append(begin, 1, "records", []any{[]any{5, 1}})...), snapshot.ErrFormat, "the record has version 5"},
		"no newer record":  {append(document(t, append(begin, 1, "records", []any{[]any{5, 1}})...), 1), snapshot.ErrCorrupt, "no table of checksums at the end"},
		"header":           {document(t, append(begin, 1, "status", 7)...), snapshot.ErrCorrupt, `"status": byte `},
		"too many records": {document(t, append(begin, 1, "records", 7)...), snapshot.ErrCorrupt, "byte "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := snapshot.Decode(test.data)
			assert.ErrorIs(t, err, test.kind)
			assert.ErrorContains(t, err, test.want)
		})
	}
}

func TestARecordThatCannotBeDecodedIsFoundWhenItIsRead(t *testing.T) {
	run, err := snapshot.Decode(document(t, "format", "reprise-run", "version", 1, "last_seq", 2, "records", []any{least(1), least(2, "noon")}))
	require.NoError(t, err)
	_, err = run.Record(1)
	require.NoError(t, err)
	_, err = run.Record(2)
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
	require.ErrorContains(t, err, "record 2: snapshot: damaged: field 2: byte ")
	_, err = run.Snapshot()
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
	_, err = run.Encode()
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
}

func TestKeysAddedLaterAreSkipped(t *testing.T) {
	got := decode(t, document(t, "format", "reprise-run", "version", 1,
		"levels", map[string]any{"deep": []any{1}}, "run_id", "r", "metadata", map[string]any{"new": []any{1}, "pipeline": "p"},
		"last_seq", 1, "records", []any{least(1)}))
	assert.Equal(t, "r", got.RunID)
	assert.Equal(t, "p", got.Metadata.Pipeline)
	assert.Equal(t, []record.Record{{RunID: "r", Seq: 1}}, got.Records)
}

func TestARunIsExtendedByTheNextRecords(t *testing.T) {
	run := longRun(t, 5)
	parts := func(from, to uint64) (part []byte) {
		for seq := from; seq <= to; seq++ {
			part = append(part, run.Encoded(seq)...)
		}
		return part
	}
	empty, err := snapshot.NewRun(snapshot.Info{RunID: "run"}, nil)
	require.NoError(t, err)
	some, taken, err := empty.Extend(parts(1, 3), parts(2, 5), parts(4, 6))
	require.NoError(t, err)
	require.Equal(t, 3, taken)
	require.Equal(t, uint64(6), some.LastSeq)
	require.Zero(t, empty.Len(), "Extend does not change the run")
	more, taken, err := some.Extend(parts(7, 8), parts(9, 10)[1:], parts(9, 10))
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
	require.Equal(t, 1, taken)
	require.Equal(t, uint64(8), more.LastSeq)
	_, _, err = some.Extend(parts(8, 9))
	require.ErrorContains(t, err, "record 8 where record 7 is expected")
	for _, seq := range []uint64{0, 11} {
		_, err = run.Record(seq)
		require.ErrorContains(t, err, fmt.Sprintf("run run has no record %d; it has 10", seq))
	}
}

func BenchmarkRun(b *testing.B) {
	run := longRun(b, 10_000)
	data, err := run.Encode()
	require.NoError(b, err)
	b.Run("encode/calls=10000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = run.Encode()
		}
	})
	b.Run("decode/calls=10000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = snapshot.Decode(data)
		}
	})
	b.Run("records/calls=10000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for range run.Records() {
			}
		}
	})
}

func TestSnapshotDoesNotDifferFromItsDecodedCopy(t *testing.T) {
	s := everything(t)
	data, err := s.Encode()
	require.NoError(t, err)
	d := diff.Compare(s, decode(t, data))
	assert.True(t, d.IsEmpty(), d.String())
	assert.Equal(t, "no difference", d.String())
}

func TestAFileIsReplacedByAWholeDocument(t *testing.T) {
	run, err := snapshot.NewRun(snapshot.Info{RunID: "run", Status: snapshot.StatusQueued}, nil)
	require.NoError(t, err)
	dir := t.TempDir()
	name := filepath.Join(dir, "run.reprise")
	require.NoError(t, os.WriteFile(name, []byte("of before"), 0o600))
	require.NoError(t, run.WriteFile(name))
	want, err := run.Encode()
	require.NoError(t, err)
	found, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, want, found)

	require.NoError(t, os.Mkdir(filepath.Join(dir, "taken"), 0o700))
	require.Error(t, run.WriteFile(filepath.Join(dir, "taken")))
	require.ErrorIs(t, run.WriteFile(filepath.Join(dir, "missing", "run")), fs.ErrNotExist)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "the unfinished file is removed")
}
