package mcp_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// reference returns a client of one of the reference servers from npm.
func reference(t *testing.T, env []string, server string, args ...string) *mcp.Client {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("skipped: node is not installed")
	}
	servers := filepath.Join("testdata", "servers")
	script := filepath.Join(servers, "node_modules", "@modelcontextprotocol", "server-"+server, "dist", "index.js")
	if _, err := os.Stat(script); err != nil {
		t.Skip("skipped: run npm ci --prefix adapters/mcp/testdata/servers first")
	}
	cmd := exec.Command(node, append([]string{"--require", "./" + filepath.Join(servers, "killed.cjs"), script}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	c := mcp.Command("ref", cmd, mcp.Options{})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestToolsOfTheServerEverything(t *testing.T) {
	t.Parallel()
	c := reference(t, nil, "everything")
	listed, err := c.List(t.Context())
	require.NoError(t, err)
	assert.Len(t, listed, 13, "the tools for a client without capabilities")
	for _, l := range listed {
		if l.ServerName == "simulate-research-query" {
			assert.Contains(t, l.LeftOut, "it requires a task as of protocol version 2025-11-25")
		} else {
			assert.Empty(t, l.LeftOut, l.ServerName)
		}
	}
	for name, c2 := range map[string]struct {
		arguments, text string
		parts           []string // the MIME types
	}{
		"ref_echo":                   {`{"message":"hi"}`, "Echo: hi", nil},
		"ref_get-sum":                {`{"a":1,"b":2}`, "The sum of 1 and 2 is 3.", nil},
		"ref_get-tiny-image":         {`{}`, "Here's the image you requested:", []string{"image/png"}},
		"ref_get-structured-content": {`{"location":"New York"}`, `{"temperature":33,`, nil},
		"ref_get-resource-links":     {`{"count":2}`, "Blob Resource 1: demo://resource/dynamic/blob/1 (Resource 1: plaintext resource)", nil},
		"ref_get-resource-reference": {`{"resourceType":"Text","resourceId":1}`, "This is a plaintext resource created at", nil},
		"ref_get-annotated-message":  {`{"messageType":"error","includeImage":true}`, "Error: Operation failed", nil},
	} {
		out, err := call(t, t.Context(), c, name, c2.arguments)
		require.NoError(t, err, name)
		assert.Contains(t, out.Text, c2.text, name)
		var parts []string
		for _, p := range out.Parts {
			parts = append(parts, p.MIME)
		}
		assert.Equal(t, c2.parts, parts, name)
	}
	var mu sync.Mutex
	var shown []string
	ctx := live.Watch(t.Context(), func(d live.Delta) {
		mu.Lock()
		defer mu.Unlock()
		shown = append(shown, d.Text)
	})
	_, err = call(t, ctx, c, "ref_trigger-long-running-operation", `{"duration":0.1,"steps":3}`)
	require.NoError(t, err)
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, []string{"1/3", "2/3", "3/3"}, shown)
}

func TestToolsOfTheServerFilesystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := reference(t, nil, "filesystem", dir)
	_, err := call(t, t.Context(), c, "ref_write_file", `{"path":"`+dir+`/a.txt","content":"hello"}`)
	require.NoError(t, err)
	out, err := call(t, t.Context(), c, "ref_read_text_file", `{"path":"`+dir+`/a.txt"}`)
	require.NoError(t, err)
	assert.Equal(t, "hello", out.Text)
	_, err = call(t, t.Context(), c, "ref_read_text_file", `{"path":"/etc/passwd"}`)
	require.ErrorContains(t, err, "Access denied")
}

// The server is killed during an edit, after it has changed the file. The edit is not idempotent.
func TestAnEditDuringWhichTheServerFilesystemIsKilledIsMadeOnce(t *testing.T) {
	t.Parallel()
	dir, kill, store := t.TempDir(), t.TempDir()+"/kill", memstore.New()
	require.NoError(t, os.WriteFile(dir+"/log", []byte("end"), 0o600))
	require.NoError(t, os.WriteFile(kill, nil, 0o600))
	c := reference(t, []string{"KILLED=" + kill}, "filesystem", dir)
	edit := actorstest.Calls(actorstest.Call("ref_edit_file", map[string]any{
		"path": dir + "/log", "edits": []map[string]string{{"oldText": "end", "newText": "written end"}},
	}))
	_, err := run(t, store, c, edit)
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.ErrorContains(t, err, "signal: killed")
	text, err := os.ReadFile(dir + "/log")
	require.NoError(t, err)
	assert.Equal(t, "written end", string(text))

	require.NoError(t, state.Answer(t.Context(), store, "r", "a/ref_edit_file?in-doubt1", "", map[string]any{"decision": "completed", "output": map[string]any{"text": "I have looked: it is there"}}))
	out, err := run(t, store, c, actorstest.Say("done"))
	require.NoError(t, err)
	assert.Equal(t, "I have looked: it is there", out.Messages[2].Text)
	text, err = os.ReadFile(dir + "/log")
	require.NoError(t, err)
	assert.Equal(t, "written end", string(text))
}
