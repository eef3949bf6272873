package main

import (
	"io"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

func TestProgramEndsWithARunnerThatIsKilled(t *testing.T) {
	dir := t.TempDir()
	p := runnerOf(t, dir, "testdata/agents")
	status, said := post(t, p.url+"/api/runs", `{"program":"greet","run_id":"r","input":{"name":"Ada"}}`)
	require.Equal(t, http.StatusCreated, status, said)
	p.until(t, "r", "run_paused")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGKILL))
	_, err := io.ReadAll(p.says) // returns only when the program has ended too
	require.NoError(t, err)
	_ = p.cmd.Wait()
	s, err := filestore.New(dir)
	require.NoError(t, err)
	j, err := s.Open(t.Context(), "r", snapshot.OpenOptions{})
	require.NoError(t, err, "no process has the run open")
	assert.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusPaused}))
}
