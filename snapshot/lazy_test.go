package snapshot_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

// TestRunIsTheSameDecodedOrNot has records of every shape in a snapshot and in
// a journal, of frames with one and with many.
func TestRunIsTheSameDecodedOrNot(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	s := newFileStore(t, t.TempDir())
	var seq uint64
	for range 2 {
		j := begin(t, s)
		for range 40 {
			records := make([]core.Record, 1+rng.IntN(9))
			for i := range records {
				seq++
				records[i] = randomRecord(t, rng, seq)
				records[i].Seq = seq
			}
			require.NoError(t, j.Append(records...))
		}
		requireSameLazily(t, s)
		require.NoError(t, j.Close(snapshot.StatusPaused))
		requireSameLazily(t, s)
	}
}

func requireSameLazily(t *testing.T, s *snapshot.FileStore) {
	t.Helper()
	want, err := s.Load(t.Context(), "run")
	require.NoError(t, err)
	got, err := s.LoadLazy(t.Context(), "run")
	require.NoError(t, err)
	require.Equal(t, want.Info, got.Info)
	require.Equal(t, len(want.Records), got.Len())
	for head, err := range got.Heads() {
		require.NoError(t, err)
		requireHead(t, *head, want.Records[head.Seq-1])
	}
	for _, i := range rand.Perm(got.Len()) {
		r, err := got.Record(uint64(i) + 1)
		require.NoError(t, err)
		require.Equal(t, want.Records[i], r)
	}
}

func TestManyReadTheRecordsOfOneRunAtOnce(t *testing.T) {
	s := newFileStore(t, t.TempDir())
	j := begin(t, s)
	for seq := range uint64(200) {
		r := failedAttempt(t)
		r.Seq, r.Attempt = seq+1, int(seq)
		require.NoError(t, j.Append(r))
	}
	require.NoError(t, j.Close(snapshot.StatusPaused))
	run, err := s.LoadLazy(t.Context(), "run")
	require.NoError(t, err)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for seq := range uint64(200) {
				r, err := run.Record(seq + 1)
				if assert.NoError(t, err) {
					assert.Equal(t, seq+1, r.Seq)
					assert.Equal(t, int(seq), r.Attempt)
				}
			}
		})
	}
	wait.Wait()
}

// TestDamageOfAPayloadIsFoundWithoutDecodingIt: of one whose checksum is right,
// too.
func TestDamageOfAPayloadIsFoundWithoutDecodingIt(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "runs", "run"), 0o700))
	s := newFileStore(t, dir)
	j := begin(t, s)
	r := failedAttempt(t)
	r.Seq = 1
	require.NoError(t, j.Append(r))
	snapshot.Abandon(j)
	name := filepath.Join(dir, "runs", "run", "journal-00000001")
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	bodies := snapshot.Bodies(data)
	form := bytes.Index(bodies[1], []byte("get weather: 503")) - 3 // before the head of the text
	require.Zero(t, bodies[1][form])
	bodies[1][form] = 7
	require.NoError(t, os.WriteFile(name, snapshot.FramesOf(bodies...), 0o600))
	for _, open := range []func() error{
		func() error { _, err := s.LoadLazy(t.Context(), "run"); return err },
		func() error { _, err := s.Load(t.Context(), "run"); return err },
		func() error { _, err := s.Open(t.Context(), "run", snapshot.OpenOptions{}); return err },
	} {
		var corrupt *snapshot.CorruptError
		require.ErrorAs(t, open(), &corrupt)
		assert.ErrorContains(t, corrupt, "an error of the form 7")
	}
}
