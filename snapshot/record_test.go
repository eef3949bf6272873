package snapshot_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

func roundTrip(t *testing.T, r record.Record) record.Record {
	t.Helper()
	data, err := snapshot.AppendRecord(nil, &r)
	require.NoError(t, err)
	got, err := snapshot.DecodeRecord(data)
	require.NoError(t, err)
	return got
}

func TestAnyRecordIsRestoredUnchanged(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		want := randomRecord(t, rng, seed)
		assertSameRecord(t, want, roundTrip(t, want))
		if t.Failed() {
			t.Fatalf("seed %d: %+v", seed, want)
		}
	}
}

func TestZeroRecordComesBackAsZero(t *testing.T) {
	assert.Equal(t, record.Record{}, roundTrip(t, record.Record{}))
	assert.Equal(t, record.Record{Detail: &record.Detail{}}, roundTrip(t, record.Record{Detail: &record.Detail{}}))
}

func TestAppendRecordAppends(t *testing.T) {
	r := failedAttempt(t)
	data, err := snapshot.AppendRecord([]byte("before"), &r)
	require.NoError(t, err)
	assert.Equal(t, "before", string(data[:6]))
	got, err := snapshot.DecodeRecord(data[6:])
	require.NoError(t, err)
	assertSameRecord(t, r, got)
}

func TestRunIDIsNotInARecord(t *testing.T) {
	r := failedAttempt(t)
	r.RunID = "run-0815"
	data, err := snapshot.AppendRecord(nil, &r)
	require.NoError(t, err)
	assert.NotContains(t, string(data), r.RunID)
	got, err := snapshot.DecodeRecord(data)
	require.NoError(t, err)
	assert.Empty(t, got.RunID)
}

func TestAppendRecordAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := failedAttempt(t)
	dst := make([]byte, 0, 1024)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { dst, _ = snapshot.AppendRecord(dst[:0], &r) }))
}

func TestDecodedRecordSharesNothingWithItsBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		want := randomRecord(t, rng, 1)
		data, err := snapshot.AppendRecord(nil, &want)
		require.NoError(t, err)
		got, err := snapshot.DecodeRecord(data)
		require.NoError(t, err)
		for i := range data {
			data[i] = 0xc1
		}
		assertSameRecord(t, want, got)
	}
}

func TestTimesOutOfRangeAreRefusedAndLeaveDstAlone(t *testing.T) {
	for _, at := range []time.Time{time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC)} {
		r := record.Record{Seq: 7, Time: at}
		data, err := snapshot.AppendRecord([]byte("kept"), &r)
		assert.ErrorContains(t, err, "record 7: the time "+at.String())
		assert.Equal(t, "kept", string(data))
	}
	for _, n := range []int64{math.MinInt64 + 2e9, -1, 0, 1, math.MaxInt64 - 2e9} {
		at := time.Unix(0, n).UTC()
		assert.Equal(t, at, roundTrip(t, record.Record{Time: at}).Time)
	}
}

type node struct{ Next *node }

type panicky struct{ N *int }

func (p panicky) MarshalText() ([]byte, error) { return []byte{byte(*p.N)}, nil }

func TestMetadataThatCannotBeEncodedBecomesItsText(t *testing.T) {
	ring := &node{}
	ring.Next = ring
	selfish := map[string]any{}
	selfish["self"] = selfish
	got := roundTrip(t, record.Record{Detail: &record.Detail{Metadata: map[string]any{
		"fine": 7, "error": errors.New("boom"), "func": complex(1, 2), "ring": ring, "selfish": selfish, "panics": panicky{},
		"typed keys": map[int]string{3: "x"}, "duration": time.Second, "struct": struct {
			A int `json:"a"`
		}{5},
	}}})
	m := got.Detail.Metadata
	assert.Equal(t, int64(7), m["fine"])
	assert.Equal(t, "boom", m["error"])
	assert.Equal(t, "(1+2i)", m["func"])
	assert.Equal(t, "(*snapshot_test.node, nested too deeply)", m["ring"])
	assert.Equal(t, "(map[string]interface {}, nested too deeply)", m["selfish"])
	assert.Equal(t, "{<nil>}", m["panics"])
	assert.Equal(t, map[string]any{"3": "x"}, m["typed keys"])
	assert.Equal(t, int64(time.Second), m["duration"])
	assert.Equal(t, map[string]any{"a": int64(5)}, m["struct"])
}

func TestEqualRecordsAreEqualBytes(t *testing.T) {
	build := func(from, step int) record.Record {
		m := map[string]any{}
		for i := range 20 {
			k := fmt.Sprint("key", (from+step*i+20)%20)
			m[k] = map[string]any{k: 1, "x": map[string]any{"b": 1, "a": 2}}
		}
		return record.Record{Detail: &record.Detail{Metadata: m}}
	}
	a, b := build(0, 1), build(19, -1)
	first, err := snapshot.AppendRecord(nil, &a)
	require.NoError(t, err)
	for range 20 {
		second, err := snapshot.AppendRecord(nil, &b)
		require.NoError(t, err)
		require.Equal(t, first, second)
	}
}

func TestInterruptComesBackAsAnInterrupt(t *testing.T) {
	want := record.Record{Kind: record.KindAgent, Status: record.StatusInterrupted, Err: &record.InterruptedError{
		Reason: record.InterruptUser, Message: "deploy", By: "ops", Cause: errDomain,
	}}
	got := roundTrip(t, want)
	e := got.Interrupt()
	require.NotNil(t, e)
	assert.Equal(t, "interrupted (user) by ops: deploy: out of stock", e.Error())
	assert.ErrorIs(t, e, errDomain)
	assert.Nil(t, e.Origin)
}

func TestInterruptInsideAFailureIsNotAnInterrupt(t *testing.T) {
	got := roundTrip(t, record.Record{Status: record.StatusFailed, Err: fmt.Errorf("gave up: %w", &record.InterruptedError{Reason: "x"})})
	assert.NotErrorIs(t, got.Err, record.ErrInterrupted)
	assert.EqualError(t, got.Err, "gave up: interrupted (x)")
}

func TestNilPointersAsErrorsDoNoHarm(t *testing.T) {
	var interrupt *record.InterruptedError
	var recorded *record.Error
	assert.EqualError(t, roundTrip(t, record.Record{Err: interrupt}).Err, "<nil>")
	assert.NoError(t, roundTrip(t, record.Record{Err: recorded}).Err)
}

func TestRecordOfANewerVersionIsRefusedByName(t *testing.T) {
	_, err := snapshot.DecodeRecord([]byte{0x92, 0x09, 0x01})
	assert.ErrorIs(t, err, snapshot.ErrFormat)
	assert.ErrorContains(t, err, "version 9")
	assert.ErrorContains(t, err, "up to version 1")
}

func TestRecordOfAnUnknownVersionIsRefused(t *testing.T) {
	_, err := snapshot.DecodeRecord([]byte{0x92, 0x00, 0x01})
	assert.ErrorIs(t, err, snapshot.ErrFormat)
	assert.ErrorContains(t, err, "never a version 0")
}

// fieldsOf decodes a record without package snapshot, as a program in another language would.
func fieldsOf(t *testing.T, r record.Record) []any {
	t.Helper()
	data, err := snapshot.AppendRecord(nil, &r)
	require.NoError(t, err)
	var all []any
	require.NoError(t, msgpack.Unmarshal(data, &all))
	return all
}

func TestFieldsAddedLaterAreSkipped(t *testing.T) {
	r := failedAttempt(t)
	r.Detail = &record.Detail{Message: "m", Usage: record.Usage{InputTokens: 1, Estimated: true}, Metadata: map[string]any{"k": "v"}}
	all := fieldsOf(t, r)
	failure, detail := all[20].([]any), all[21].([]any)
	detail[4] = append(detail[4].([]any), "new")
	all[20] = append(failure, map[string]any{"new": []any{1, 2}})
	detail = append(detail, false, 0, []any{}, nil, nil, false, nil, false, "", nil, nil, false, 0, nil, false, nil, false, "", "", []any{}, false, []any{}) // the fields that are written if any of them is set
	all[21] = append(detail, "new")
	data, err := msgpack.Marshal(append(all, "new", []any{map[string]any{"deep": 1}}))
	require.NoError(t, err)
	got, err := snapshot.DecodeRecord(data)
	require.NoError(t, err)
	assertSameRecord(t, r, got)
}

func TestMissingFieldsAtTheEndAreZero(t *testing.T) {
	r := failedAttempt(t)
	all := fieldsOf(t, r)
	for n := 1; n <= len(all); n++ {
		data, err := msgpack.Marshal(all[:n])
		require.NoError(t, err)
		got, err := snapshot.DecodeRecord(data)
		require.NoError(t, err, "%d fields", n)
		assert.Equal(t, n > 4, got.Name == r.Name)
		assert.Equal(t, n > 20, got.Err != nil)
	}
}

func TestNumbersOfLaterKindsAreKept(t *testing.T) {
	got := roundTrip(t, record.Record{Kind: 200, Status: 201, Reason: 202, Stage: 203, Class: 204, DelaySource: 205})
	assert.Equal(t, record.Record{Kind: 200, Status: 201, Reason: 202, Stage: 203, Class: 204, DelaySource: 205}, got)
}

func TestDamagedRecordIsAnErrorWithItsPosition(t *testing.T) {
	r := failedAttempt(t)
	r.Detail = randomDetail(t, rand.New(rand.NewPCG(5, 5)))
	data, err := snapshot.AppendRecord(nil, &r)
	require.NoError(t, err)
	for cut := 0; cut < len(data); cut += 1 + cut/200 {
		_, err := snapshot.DecodeRecord(data[:cut])
		require.ErrorIs(t, err, snapshot.ErrCorrupt, "cut at %d", cut)
		require.ErrorContains(t, err, "byte ")
	}
	_, err = snapshot.DecodeRecord(append(data, 1, 2))
	assert.ErrorIs(t, err, snapshot.ErrCorrupt)
	assert.ErrorContains(t, err, fmt.Sprintf("byte %d: 2 bytes after the record", len(data)))

	for name, damage := range map[string]struct {
		field int
		value any
		want  string
	}{
		"kind":    {5, 256, "256 is above 255"},
		"seq":     {1, -5, "-5 is negative"},
		"address": {3, "a//b", "no name"},
		"name":    {4, []any{}, "got an array, want a string"},
		"error":   {20, []any{7, "x"}, "an error has the unknown form 7"},
		"cause":   {20, []any{1, "", "", "", "", false, []any{1}}, "a cause has the unknown form 1"},
		"hash":    {21, []any{[]byte{1, 2}}, "a hash of 2 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			all := fieldsOf(t, failedAttempt(t))
			all[damage.field] = damage.value
			data, err := msgpack.Marshal(all)
			require.NoError(t, err)
			_, err = snapshot.DecodeRecord(data)
			assert.ErrorIs(t, err, snapshot.ErrCorrupt)
			assert.ErrorContains(t, err, fmt.Sprintf("field %d: byte ", damage.field))
			assert.ErrorContains(t, err, damage.want)
		})
	}
}

func TestLengthsBeyondTheBytesAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, data := range map[string][]byte{
		"array of fields": {0xdd, 0xff, 0xff, 0xff, 0xff, 1},
		"name":            {0x95, 1, 1, 0xc0, 0xa0, 0xdb, 0xff, 0xff, 0xff, 0xff},
		"address":         {0x94, 1, 1, 0xc0, 0xdb, 0x7f, 0xff, 0xff, 0xff, 'a'},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range 100 {
				_, err := snapshot.DecodeRecord(data)
				require.ErrorIs(t, err, snapshot.ErrCorrupt)
			}
			runtime.ReadMemStats(&after)
			assert.Less(t, (after.TotalAlloc-before.TotalAlloc)/100, uint64(4096))
		})
	}
}

func TestRecordsAreDecodedInParallel(t *testing.T) {
	for worker := range 8 {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(worker), 2))
			for range 200 {
				want := randomRecord(t, rng, 1)
				assertSameRecord(t, want, roundTrip(t, want))
			}
		})
	}
}

func TestRecordsAreDecodedOneAfterTheOther(t *testing.T) {
	var data []byte
	for seq := uint64(1); seq <= 3; seq++ {
		var err error
		data, err = snapshot.AppendRecord(data, &record.Record{Seq: seq, Name: "a", Kind: record.KindTool, Status: record.StatusStarted})
		require.NoError(t, err)
	}
	last := uint64(0)
	for rec, err := range snapshot.DecodeRecords(data) {
		require.NoError(t, err)
		last++
		assert.Equal(t, last, rec.Seq)
	}
	assert.EqualValues(t, 3, last)
	for _, err := range snapshot.DecodeRecords(data[:len(data)-1]) {
		if err != nil {
			require.ErrorIs(t, err, snapshot.ErrCorrupt)
			last = 0
		}
	}
	assert.Zero(t, last, "the last record is incomplete")

	rest := data
	for want := uint64(1); want <= 3; want++ {
		encoded, seq, after, err := snapshot.CutRecord(rest)
		require.NoError(t, err)
		require.Equal(t, want, seq)
		require.Equal(t, rest, append(encoded, after...))
		rest = after
	}
	assert.Empty(t, rest)
	_, _, _, err := snapshot.CutRecord(data[:5])
	assert.ErrorIs(t, err, snapshot.ErrCorrupt)
}
