package jetstream_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// endRun stores an ended run whose records name the artifacts.
func endRun(t *testing.T, s *jetstream.Store, id string, preview string, artifacts ...string) {
	t.Helper()
	j, err := s.Open(t.Context(), id, snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	records := storetest.Records(1, len(artifacts)+1)
	records[0].Detail = &record.Detail{Input: []byte(preview)}
	for i, ref := range artifacts {
		records[i+1].Detail = &record.Detail{Artifact: ref}
	}
	require.NoError(t, j.Append(records...))
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
}

// putText returns a function that stores a string as an artifact.
func putText(t *testing.T, s *jetstream.Store) func(text string) string {
	return func(text string) string {
		t.Helper()
		ref, err := s.Put(t.Context(), []byte(text))
		require.NoError(t, err)
		return ref
	}
}

func TestArtifactsGoWithTheRunsThatNameThem(t *testing.T) {
	t.Parallel()
	s := open(t, jstest.Start(t).Connect(), jetstream.Options{Lease: patience}) // a slow machine needs seconds for a large artifact
	put := putText(t, s)
	kept, shared, gone, never := put("kept"), put("shared"), put("gone"), put("never named")
	endRun(t, s, "one", "", kept, shared)
	endRun(t, s, "two", "", gone, shared)
	large := strings.Repeat("large", 1<<20) // too large for a message, and therefore stored as an artifact
	endRun(t, s, "three", large)
	require.NoError(t, s.Delete(t.Context(), "two"))
	require.NoError(t, jetstream.PutHalf(t.Context(), s, []byte("half")))

	references, err := s.Garbage(t.Context(), time.Hour)
	require.NoError(t, err)
	assert.Empty(t, references, "the artifacts are too new")
	references, err = s.Garbage(t.Context(), 0)
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{gone, never}, references)
	removed, err := s.GC(t.Context(), time.Hour)
	require.NoError(t, err)
	assert.Zero(t, removed, "the artifacts are too new")

	removed, err = s.GC(t.Context(), 0)
	require.NoError(t, err)
	assert.Equal(t, 2, removed)
	for _, ref := range []string{kept, shared} {
		_, err := s.Get(t.Context(), ref)
		require.NoError(t, err)
	}
	for _, ref := range []string{gone, never} {
		_, err := s.Get(t.Context(), ref)
		require.ErrorIs(t, err, snapshot.ErrNotFound)
	}
	run, err := s.Load(t.Context(), "three")
	require.NoError(t, err)
	rec, err := run.Record(1)
	require.NoError(t, err)
	assert.Equal(t, large, string(rec.Detail.Input), "an artifact that holds records is not garbage")

	for _, id := range []string{"one", "three"} {
		require.NoError(t, s.Delete(t.Context(), id))
	}
	_, err = s.GC(t.Context(), 0)
	require.NoError(t, err)
	left, err := jetstream.Bucket(t.Context(), s)
	require.NoError(t, err)
	assert.Zero(t, left, "nothing of the artifacts remains")
	assert.Equal(t, gone, put("gone"), "the artifact can be put again")
	_, err = s.Get(t.Context(), gone)
	require.NoError(t, err)
}

func TestGCKeepsTheEffectsThatAForkMayTakeOver(t *testing.T) {
	t.Parallel()
	s := open(t, jstest.Start(t).Connect(), jetstream.Options{Lease: longLease})
	kept := putText(t, s)("the output of a payment of the deleted original")
	j, err := s.Open(t.Context(), "fork", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	records := storetest.Records(1, 1)
	records[0].Detail = &record.Detail{Fork: &record.Fork{Effects: []record.Effect{{RunID: "original", Artifact: kept}}}}
	require.NoError(t, j.Append(records...))
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))

	_, err = s.GC(t.Context(), 0)
	require.NoError(t, err)
	_, err = s.Get(t.Context(), kept)
	require.NoError(t, err)
}

func TestGCRefusesWhatItCannotKnow(t *testing.T) {
	t.Parallel()
	conn := jstest.Start(t).Connect()
	s := open(t, conn, jetstream.Options{Lease: longLease})
	_, err := s.GC(t.Context(), -time.Second)
	require.ErrorContains(t, err, "the grace is -1s; want 0 or more")

	ref, err := s.Put(t.Context(), []byte("data"))
	require.NoError(t, err)
	require.NoError(t, conn.Publish("rp.reprise.r.foreign", []byte("none of ours")))
	require.NoError(t, conn.Flush())
	_, err = s.GC(t.Context(), 0)
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
	_, err = s.Get(t.Context(), ref)
	require.NoError(t, err)
}

func TestWhatIsPutAgainIsNotRemoved(t *testing.T) {
	t.Parallel()
	s := open(t, jstest.Start(t).Connect(), jetstream.Options{Lease: longLease})
	put := putText(t, s)
	again, old := put("again"), put("old")
	require.NoError(t, jetstream.RemoveArtifacts(t.Context(), s, func() { put("again") }))
	_, err := s.Get(t.Context(), again)
	require.NoError(t, err)
	_, err = s.Get(t.Context(), old)
	require.ErrorIs(t, err, snapshot.ErrNotFound)
}

// TestPutAndRemovalAtOnceLeaveWholeArtifacts lets several processes put artifacts while another one
// keeps removing them.
func TestPutAndRemovalAtOnceLeaveWholeArtifacts(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	data := func(n int) []byte { return bytes.Repeat(fmt.Append(nil, "artifact ", n), 20_000) } // in two chunks
	var putting, removing sync.WaitGroup
	for range 3 {
		s := open(t, server.Connect(), jetstream.Options{Lease: longLease})
		putting.Go(func() {
			for i := range 60 {
				if _, err := s.Put(t.Context(), data(i%4)); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	s := open(t, server.Connect(), jetstream.Options{Lease: longLease})
	done := make(chan struct{})
	removing.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				assert.NoError(t, jetstream.RemoveArtifacts(t.Context(), s, func() {}))
			}
		}
	})
	putting.Wait()
	close(done)
	removing.Wait()
	for i := range 4 {
		ref, err := s.Put(t.Context(), data(i))
		require.NoError(t, err)
		found, err := s.Get(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, data(i), found)
	}
	removed, err := s.GC(t.Context(), 0)
	require.NoError(t, err)
	assert.Equal(t, 4, removed)
	left, err := jetstream.Bucket(t.Context(), s)
	require.NoError(t, err)
	assert.Zero(t, left, "if two put the same artifact, the data of one remains until GC")
}

func TestGCCompletesARemovalThatWasInterrupted(t *testing.T) {
	t.Parallel()
	s := open(t, jstest.Start(t).Connect(), jetstream.Options{Lease: patience})
	put := putText(t, s)
	gone := put("gone")
	require.NoError(t, jetstream.RemoveHalf(t.Context(), s))
	references, err := s.Garbage(t.Context(), 0)
	require.NoError(t, err)
	assert.Empty(t, references, "the artifact is removed")
	_, err = s.GC(t.Context(), time.Hour)
	require.NoError(t, err)
	left, err := jetstream.Bucket(t.Context(), s)
	require.NoError(t, err)
	assert.EqualValues(t, 2, left, "it is too new")
	_, err = s.GC(t.Context(), 0)
	require.NoError(t, err)
	left, err = jetstream.Bucket(t.Context(), s)
	require.NoError(t, err)
	assert.Zero(t, left)
	assert.Equal(t, gone, put("gone"))
	_, err = s.Get(t.Context(), gone)
	require.NoError(t, err)
}
