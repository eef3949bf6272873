package snapshot_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// failedAttempt returns the record for the benchmarks of the codec.
func failedAttempt(tb testing.TB) record.Record {
	a, err := record.ParseAddress("assistant/get_weather#2")
	require.NoError(tb, err)
	return record.Record{
		Seq: 4711, Time: time.Date(2026, 11, 20, 8, 30, 0, 123456789, time.UTC),
		Address: a, Name: "get_weather", Kind: record.KindTool, Status: record.StatusFailed,
		Stage: record.StageHandler, Class: record.ClassServer, DelaySource: record.SourceBackoff,
		Attempt: 2, MaxAttempts: 5, WillRetry: true,
		Duration: 153 * time.Millisecond, Elapsed: 2170 * time.Millisecond, Delay: 1870 * time.Millisecond,
		Err: &record.Error{
			Message: "get weather: 503 Service Unavailable", Type: "*weather.StatusError",
			Class: record.ClassServer, Status: 503, After: time.Second, Sentinels: []string{"io.ErrUnexpectedEOF"},
		},
	}
}

// BenchmarkRecord compares the record codec with the reflection-based codec of the msgpack library.
func BenchmarkRecord(b *testing.B) {
	r := failedAttempt(b)
	data, err := snapshot.AppendRecord(nil, &r)
	require.NoError(b, err)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		b.ReportMetric(float64(len(data)), "bytes")
		dst := make([]byte, 0, 1024)
		for b.Loop() {
			dst, _ = snapshot.AppendRecord(dst[:0], &r)
		}
	})
	b.Run("encode/error=live", func(b *testing.B) {
		live := r
		live.Err = fmt.Errorf("get weather: %w", io.ErrUnexpectedEOF)
		b.ReportAllocs()
		dst := make([]byte, 0, 1024)
		for b.Loop() {
			dst, _ = snapshot.AppendRecord(dst[:0], &live)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = snapshot.DecodeRecord(data)
		}
	})
	b.Run("decode/addresses=new", func(b *testing.B) {
		var all [][]byte
		for i := range 1000 { // more than a decoder remembers
			other := r
			other.Address, err = record.ParseAddress(fmt.Sprintf("assistant/get_weather#%d", i+2))
			require.NoError(b, err)
			data, err := snapshot.AppendRecord(nil, &other)
			require.NoError(b, err)
			all = append(all, data)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			_, _ = snapshot.DecodeRecord(all[i%len(all)])
		}
	})
	// The same fields in a struct, which the library encodes by reflection.
	e := record.ErrorOf(r.Err)
	plain := plainRecord{
		r.Seq, r.Time, r.Address.String(), r.Name, uint8(r.Kind), uint8(r.Status), uint8(r.Reason), uint8(r.Stage), uint8(r.Class),
		uint8(r.DelaySource), r.Attempt, r.MaxAttempts, r.WillRetry, r.Replayed, r.Duration, r.Elapsed, r.Delay,
		&plainError{e.Message, e.Type, uint8(e.Class), e.Status, e.After, e.Sentinels, e.Typed}, nil,
	}
	data, err = msgpack.Marshal(&plain)
	require.NoError(b, err)
	b.Run("encode/by=msgpack.Marshal", func(b *testing.B) {
		b.ReportAllocs()
		b.ReportMetric(float64(len(data)), "bytes")
		for b.Loop() {
			_, _ = msgpack.Marshal(&plain)
		}
	})
	b.Run("decode/by=msgpack.Unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var into plainRecord
			if err := msgpack.Unmarshal(data, &into); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// plainRecord has the fields of a record.Record, with types that the library encodes.
type plainRecord struct {
	Seq         uint64
	Time        time.Time
	Address     string
	Name        string
	Kind        uint8
	Status      uint8
	Reason      uint8
	Stage       uint8
	Class       uint8
	Waiting     uint8
	Attempt     int
	MaxAttempts int
	WillRetry   bool
	Replayed    bool
	Duration    time.Duration
	Elapsed     time.Duration
	Delay       time.Duration
	Err         *plainError
	Detail      *record.Detail
}

type plainError struct {
	Message   string
	Type      string
	Class     uint8
	Status    int
	After     time.Duration
	Sentinels []string
	Typed     []record.TypedError
}
