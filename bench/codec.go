package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// failedAttempt returns the record that Encode and Decode use: the end of a call's fourth attempt,
// which will be followed by another attempt.
func failedAttempt(nth int) record.Record {
	address, err := record.ParseAddress(fmt.Sprintf("assistant/get_weather#%d", nth))
	if err != nil {
		panic(err)
	}
	return record.Record{
		Seq: 4711, Time: time.Date(2026, 11, 20, 8, 30, 0, 123456789, time.UTC),
		Address: address, Name: "get_weather", Kind: record.KindTool, Status: record.StatusFailed,
		Stage: record.StageHandler, Class: record.ClassServer, DelaySource: record.SourceBackoff,
		Attempt: 3, MaxAttempts: 5, WillRetry: true,
		Duration: 153 * time.Millisecond, Elapsed: 2170 * time.Millisecond, Delay: 1870 * time.Millisecond,
		Err: &record.Error{
			Message: "get weather: 503 Service Unavailable", Type: "*weather.StatusError",
			Class: record.ClassServer, Status: 503, After: time.Second, Sentinels: []string{"io.ErrUnexpectedEOF"},
		},
	}
}

// plainRecord is the same record as a plain struct, which any library can encode.
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
}

type plainError struct {
	Message   string
	Type      string
	Class     uint8
	Status    int
	After     time.Duration
	Sentinels []string
}

func plainAttempt() plainRecord {
	r := failedAttempt(2)
	var e *record.Error
	errors.As(r.Err, &e)
	return plainRecord{
		r.Seq, r.Time, r.Address.String(), r.Name, uint8(r.Kind), uint8(r.Status), uint8(r.Reason), uint8(r.Stage),
		uint8(r.Class), uint8(r.DelaySource), r.Attempt, r.MaxAttempts, r.WillRetry, r.Replayed, r.Duration, r.Elapsed, r.Delay,
		&plainError{e.Message, e.Type, uint8(e.Class), e.Status, e.After, e.Sentinels},
	}
}

// startEncode appends each record to a reused buffer, as the journal does.
func startEncode(rec func() record.Record) func(context.Context, *work) instance {
	return func(_ context.Context, w *work) instance {
		r := rec()
		buffer, err := snapshot.AppendRecord(nil, &r)
		if err != nil {
			return broken(err)
		}
		size := len(buffer)
		return instance{size: size, call: func() (int, error) {
			w.calls++
			var err error
			if buffer, err = snapshot.AppendRecord(buffer[:0], &r); err == nil && len(buffer) != size {
				err = fmt.Errorf("got %d bytes, want %d", len(buffer), size)
			}
			return answer, err
		}}
	}
}

func oneAttempt() record.Record { return failedAttempt(2) }

// liveAttempt returns a record whose error is one that a handler returned.
func liveAttempt() record.Record {
	r := failedAttempt(2)
	r.Err = fmt.Errorf("get weather: %w", io.ErrUnexpectedEOF)
	return r
}

// startDecode decodes records from the given number of calls, in turn.
func startDecode(calls int) func(context.Context, *work) instance {
	return func(_ context.Context, w *work) instance {
		encoded := make([][]byte, calls)
		for i := range encoded {
			r := failedAttempt(i + 2)
			var err error
			if encoded[i], err = snapshot.AppendRecord(nil, &r); err != nil {
				return broken(err)
			}
		}
		return instance{size: len(encoded[0]), call: func() (int, error) {
			r, err := snapshot.DecodeRecord(encoded[w.calls%calls])
			w.calls++
			if err == nil && r.Seq != 4711 {
				err = fmt.Errorf("got record %d", r.Seq)
			}
			return answer, err
		}}
	}
}

func startMarshal(marshal func(any) ([]byte, error)) func(context.Context, *work) instance {
	return func(_ context.Context, w *work) instance {
		r := plainAttempt()
		data, err := marshal(&r)
		if err != nil {
			return broken(err)
		}
		size := len(data)
		return instance{size: size, call: func() (int, error) {
			w.calls++
			data, err := marshal(&r)
			if err == nil && len(data) != size {
				err = fmt.Errorf("got %d bytes, want %d", len(data), size)
			}
			return answer, err
		}}
	}
}

func startUnmarshal(marshal func(any) ([]byte, error), unmarshal func([]byte, any) error) func(context.Context, *work) instance {
	return func(_ context.Context, w *work) instance {
		r := plainAttempt()
		data, err := marshal(&r)
		if err != nil {
			return broken(err)
		}
		return instance{size: len(data), call: func() (int, error) {
			w.calls++
			var into plainRecord
			err := unmarshal(data, &into)
			if err == nil && into.Seq != r.Seq {
				err = fmt.Errorf("got record %d", into.Seq)
			}
			return answer, err
		}}
	}
}

var encoders = []contestant{
	{"reprise", startEncode(oneAttempt)},
	{"reprise-live", startEncode(liveAttempt)},
	{"msgpack", startMarshal(msgpack.Marshal)},
	{"json", startMarshal(json.Marshal)},
}

var decoders = []contestant{
	{"reprise", startDecode(1)},
	{"reprise-new-address", startDecode(2000)},
	{"msgpack", startUnmarshal(msgpack.Marshal, msgpack.Unmarshal)},
	{"json", startUnmarshal(json.Marshal, json.Unmarshal)},
}
