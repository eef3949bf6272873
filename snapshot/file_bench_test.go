package snapshot_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func benchJournal(b *testing.B, disk snapshot.Disk) snapshot.Journal {
	s := newFileStore(b, b.TempDir(), snapshot.WithDisk(disk))
	j := begin(b, s)
	b.Cleanup(func() { require.NoError(b, j.Close(snapshot.StatusCompleted)) })
	return j
}

// benchRecord is an outcome as calls have it, with a hundred bytes of output.
func benchRecord() core.Record {
	r := storetest.Records(2, 1)[0]
	r.Detail = &core.Detail{Output: make([]byte, 100), InputHash: core.Hash{1}}
	return r
}

// BenchmarkDurable is what it takes until a record has survived the power,
// beside a bare append and fsync of as many bytes.
func BenchmarkDurable(b *testing.B) {
	r := benchRecord()
	encoded, err := snapshot.AppendRecord(nil, &r)
	require.NoError(b, err)
	b.Run("bare", func(b *testing.B) {
		f, err := os.OpenFile(filepath.Join(b.TempDir(), "file"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		require.NoError(b, err)
		defer f.Close()
		data := make([]byte, len(encoded)+9)
		for b.Loop() {
			if _, err := f.Write(data); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel=1", func(b *testing.B) {
		j, r := benchJournal(b, snapshot.OSDisk), r
		b.ReportAllocs()
		r.Seq = 0
		for b.Loop() {
			r.Seq++
			if err := j.Append(r); err != nil {
				b.Fatal(err)
			}
			if err := j.Sync(r.Seq); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel=16", func(b *testing.B) {
		j := benchJournal(b, snapshot.OSDisk)
		b.ReportAllocs()
		var mu sync.Mutex
		last := uint64(0)
		var wait sync.WaitGroup
		for n := range 16 {
			wait.Go(func() {
				r := r
				for range (b.N + 15 - n) / 16 {
					mu.Lock()
					last++
					r.Seq = last
					err := j.Append(r)
					mu.Unlock()
					if err == nil {
						err = j.Sync(r.Seq)
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wait.Wait()
	})
}

func BenchmarkAppend(b *testing.B) {
	j, r := benchJournal(b, fastDisk{snapshot.OSDisk}), benchRecord()
	b.ReportAllocs()
	r.Seq = 0
	for b.Loop() {
		r.Seq++
		if err := j.Append(r); err != nil {
			b.Fatal(err)
		}
	}
}

// benchRun makes a run of n calls, with two records each, and returns its
// store.
func benchRun(b *testing.B, n int, closed bool) *snapshot.FileStore {
	s := newFileStore(b, b.TempDir())
	j := begin(b, s)
	for i := range n {
		address, err := core.ParseAddress(fmt.Sprintf("assistant/get_weather#%d", i+2))
		require.NoError(b, err)
		started := core.Record{
			Seq: 2*uint64(i) + 1, Time: time.Unix(1_700_000_000, int64(i)).UTC(), Address: address, Name: "get_weather",
			Kind: core.KindTool, Status: core.StatusStarted, MaxAttempts: 3,
			Detail: &core.Detail{Input: []byte(`{"name":"Oslo"}`), InputHash: core.Hash{byte(i)}},
		}
		completed := started
		completed.Seq, completed.Status = started.Seq+1, core.StatusCompleted
		completed.Detail = &core.Detail{Output: make([]byte, 100), InputHash: core.Hash{byte(i)}}
		require.NoError(b, j.Append(started))
		require.NoError(b, j.Append(completed))
	}
	if closed {
		require.NoError(b, j.Close(snapshot.StatusCompleted))
	} else {
		snapshot.Abandon(j)
	}
	return s
}

func BenchmarkLoad(b *testing.B) {
	for _, closed := range []bool{true, false} {
		b.Run(fmt.Sprintf("calls=10000/closed=%t", closed), func(b *testing.B) {
			s := benchRun(b, 10_000, closed)
			b.ReportAllocs()
			for b.Loop() {
				if sn, err := s.Load(b.Context(), "run"); err != nil || len(sn.Records) != 20_000 {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen opens a run and closes it, syncing as always.
func BenchmarkOpen(b *testing.B) {
	for _, calls := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("calls=%d", calls), func(b *testing.B) {
			s := benchRun(b, calls, true)
			snapshot.WithDisk(snapshot.OSDisk)(s)
			b.ReportAllocs()
			for b.Loop() {
				if err := begin(b, s).Close(snapshot.StatusCompleted); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompact(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s := newFileStore(b, b.TempDir())
		j := begin(b, s)
		for seq := uint64(1); seq <= 5000; seq++ {
			require.NoError(b, j.Append(storetest.Records(seq, 1)...))
		}
		b.StartTimer()
		require.NoError(b, j.Close(snapshot.StatusCompleted))
	}
}

func BenchmarkList(b *testing.B) {
	s := newFileStore(b, b.TempDir())
	for n := range 1000 {
		j, err := s.Open(b.Context(), fmt.Sprintf("run-%d", n), snapshot.OpenOptions{Create: true})
		require.NoError(b, err)
		require.NoError(b, j.Close(snapshot.StatusCompleted))
	}
	b.ReportAllocs()
	for b.Loop() {
		if all, err := s.List(b.Context(), snapshot.Filter{}); err != nil || len(all) != 1000 {
			b.Fatal(err)
		}
	}
}
