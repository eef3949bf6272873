package filestore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// put puts an artifact and prints its reference, but does not record it in the run until its
// standard input ends.
func put(args ...string) error {
	ctx := context.Background()
	s, err := filestore.New(args[0])
	if err != nil {
		return err
	}
	j, err := s.Open(ctx, "run", snapshot.OpenOptions{Create: true})
	if err != nil {
		return err
	}
	ref, err := s.Put(ctx, []byte("large output"))
	if err != nil {
		return err
	}
	fmt.Println(ref)
	held, cancel := process.UntilStdinEnds()
	defer cancel()
	<-held.Done()
	r := storetest.Records(uint64(j.Restored().Len())+1, 1)[0]
	r.Detail = &record.Detail{Artifact: ref}
	if err := j.Append(r); err != nil {
		return err
	}
	return j.Close(ctx, snapshot.End{Status: snapshot.StatusCompleted})
}

// Between storing an artifact and recording its reference, a process may be killed, or suspended
// for longer than any grace period.
func TestGCKeepsTheArtifactsOfAnOpenRun(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	begun := func() (*process.Process, string) {
		p := process.Start(t, process.Command(t, "put", dir))
		ref, ok := p.Line()
		require.True(t, ok)
		return p, ref
	}
	collect := func(want int, why string) {
		t.Helper()
		removed, err := s.GC(t.Context(), 0)
		require.NoError(t, err)
		assert.Equal(t, want, removed, why)
	}
	p, ref := begun()
	garbage, err := s.Put(t.Context(), []byte("garbage"))
	require.NoError(t, err)
	collect(0, "the open run may record them")
	p.Kill()
	collect(2, "no run has recorded them")

	p, again := begun()
	require.Equal(t, ref, again)
	collect(0, "the open run may record it")
	p.Stop()
	collect(0, "the run has recorded it")
	_, err = s.Get(t.Context(), ref)
	require.NoError(t, err)
	_, err = s.Get(t.Context(), garbage)
	require.ErrorIs(t, err, snapshot.ErrNotFound)

	require.NoError(t, s.Delete(t.Context(), "run"))
	collect(1, "no run has recorded it")
}
