package snapshot_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/reprise-go/reprise/snapshot/diff"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// FuzzDecodeRecord checks that DecodeRecord never panics, and that a decoded
// record stays the same when it is encoded and decoded again.
func FuzzDecodeRecord(f *testing.F) {
	for seed := range uint64(30) {
		r := randomRecord(f, rand.New(rand.NewPCG(seed, 3)), seed)
		if data, err := snapshot.AppendRecord(nil, &r); err == nil && len(data) < 300 {
			f.Add(data)
		}
	}
	r := failedAttempt(f)
	r.Detail = &record.Detail{Usage: record.Usage{Cost: 1}, Metadata: map[string]any{"a": []any{1, nil}, "b": map[int]bool{1: true}}}
	data, err := snapshot.AppendRecord(nil, &r)
	require.NoError(f, err)
	f.Add(data)
	r.Err = fmt.Errorf("call: %w", &url.Error{Op: "Get", URL: "x", Err: &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}})
	data, err = snapshot.AppendRecord(nil, &r)
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte{0x91, 0x01})
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := snapshot.DecodeRecord(data)
		if err != nil {
			return
		}
		var refused net.Error
		_, _ = errors.Is(first.Err, fs.ErrNotExist), errors.As(first.Err, &refused)
		_ = first.Address.String()
		once, err := snapshot.AppendRecord(nil, &first)
		if err != nil {
			assert.ErrorContains(t, err, "is outside the years")
			return
		}
		second, err := snapshot.DecodeRecord(once)
		require.NoError(t, err)
		twice, err := snapshot.AppendRecord(nil, &second)
		require.NoError(t, err)
		require.Equal(t, once, twice)
		// Metadata may hold NaN, which is not equal to itself.
		first.Detail, second.Detail = nil, nil
		require.Equal(t, first, second)
	})
}

// FuzzDecodeRun is like FuzzDecodeRecord, for whole runs.
func FuzzDecodeRun(f *testing.F) {
	whole := everything(f)
	for _, n := range []int{0, 1, 3} {
		s := &snapshot.Snapshot{Info: whole.Info}
		for i := 0; len(s.Records) < n; i++ {
			r := whole.Records[i]
			if data, err := snapshot.AppendRecord(nil, &r); err == nil && len(data) < 200 {
				r.Seq = uint64(len(s.Records)) + 1
				s.Records = append(s.Records, r)
			}
		}
		data, err := s.Encode()
		require.NoError(f, err)
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := snapshot.Decode(data)
		if err != nil {
			return
		}
		decoded, err := first.Snapshot()
		if err != nil {
			return // the checksums are wrong, as the fuzzer does not compute them
		}
		once, err := decoded.Encode()
		if err != nil {
			assert.ErrorContains(t, err, "is outside the years")
			return
		}
		second, err := snapshot.Decode(once)
		require.NoError(t, err)
		twice, err := second.Encode()
		require.NoError(t, err)
		require.Equal(t, once, twice)
		require.Equal(t, first.Info, second.Info)
		again, err := second.Snapshot()
		require.NoError(t, err)
		require.True(t, diff.Compare(decoded, again).IsEmpty())
	})
}
