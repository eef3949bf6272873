package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// served runs "reprise serve" on a directory until the test ends and returns its URL.
func served(t *testing.T, dir string, args ...string) (url string) {
	t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	var command sync.WaitGroup
	command.Go(func() {
		got := callContext(ctx, dir, func(env *environment) { env.stdout = w },
			append([]string{"serve", "--addr", "127.0.0.1:0", "--json"}, args...)...)
		assert.Equal(t, exitOK, got.code, got.stderr)
		_ = w.Close()
	})
	t.Cleanup(func() {
		cancel()
		go io.Copy(io.Discard, r) // discard further output
		command.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
	var said struct{ URL string }
	require.NoError(t, json.NewDecoder(r).Decode(&said))
	return strings.TrimSuffix(said.URL, "/")
}

func TestServeShowsStoredRunsAndRunsOfOtherProcesses(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "done", false, snapshot.Metadata{Tags: []string{"nightly"}})
	url := served(t, dir)

	resp, err := http.Get(url + "/")
	require.NoError(t, err)
	page, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Contains(t, string(page), "<!doctype html>")

	var all struct {
		Cursor string
		Runs   []streamer.RunState
		Can    struct{ Answer bool }
	}
	fetch(t, url+"/api/runs", &all)
	require.Len(t, all.Runs, 1)
	assert.Equal(t, "completed", all.Runs[0].Status)
	assert.Equal(t, []string{"nightly"}, all.Runs[0].Tags)
	assert.Equal(t, 3, all.Runs[0].Calls.Started, "a list does not read records")
	var one struct{ Run streamer.RunState }
	fetch(t, url+"/api/runs/done", &one)
	assert.Equal(t, 3, one.Run.Calls.Completed)
	assert.False(t, all.Can.Answer)

	weather(t, dir, "new", false, snapshot.Metadata{})
	client := streamer.Client{URL: url, After: all.Cursor}
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		require.Contains(t, string(e.Data), `"run_id":"new"`)
		if e.Name == "run_completed" {
			break
		}
	}
}

func fetch(t *testing.T, url string, into any) {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 200, resp.StatusCode)
	require.NoError(t, json.NewDecoder(resp.Body).Decode(into))
}

func post(t *testing.T, url, body string) (status int, said string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(data)
}

func TestServeAnswersQuestionsIfItMay(t *testing.T) {
	dir := t.TempDir()
	_, err := refund(t, dir, "r")
	require.Error(t, err)
	status, _ := post(t, served(t, dir)+"/api/runs/r/answer", `{"question":"refund?1","value":true}`)
	assert.Equal(t, 403, status)

	url := served(t, dir, "--control")
	status, said := post(t, url+"/api/runs/r/answer", `{"question":"other?1","value":true}`)
	assert.Equal(t, 404, status, said)
	status, said = post(t, url+"/api/runs/r/answer", `{"question":"refund?1","value":true}`)
	require.Equal(t, 200, status, said)
	status, said = post(t, url+"/api/runs/r/answer", `{"question":"refund?1","value":false}`)
	assert.Equal(t, 409, status)
	assert.Contains(t, said, "already answered")
	approved, err := refund(t, dir, "r")
	require.NoError(t, err)
	assert.True(t, approved)
}

func TestServeInterruptsARunThatIsOpenElsewhere(t *testing.T) {
	dir := t.TempDir()
	store := newStore(t, dir)
	url := served(t, dir, "--control")
	wait := define(t, record.KindTool, "wait", func(ctx context.Context, _ int) (int, error) {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	})
	st, err := state.Open(t.Context(), store, "r")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		_, err := wait.Event().Execute(st.Context(t.Context()), 1)
		var interrupted *record.InterruptedError
		if assert.ErrorAs(t, err, &interrupted) {
			assert.Equal(t, "enough", interrupted.Message)
		}
	})
	client := streamer.Client{URL: url, Run: "r"}
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		if e.Name == "started" {
			break
		}
	}
	status, said := post(t, url+"/api/runs/r/interrupt", `{"message":"enough"}`)
	require.Equal(t, 202, status, said) // the run's program has not closed it yet
	running.Wait()
	require.NoError(t, st.Close())
	status, said = post(t, url+"/api/runs/r/interrupt", `{}`)
	assert.Equal(t, 409, status, said)
}

func TestServeRefusesPublicAddresses(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "r", false, snapshot.Metadata{})
	for _, address := range []string{"0.0.0.0:8080", ":8080", "192.0.2.1:80", "example.com:80", "[::]:80"} {
		got := call(t, dir, "serve", "--addr", address)
		assert.Equal(t, exitUsage, got.code)
		assert.Contains(t, got.stderr, "want a loopback address", address)
	}
	call(t, dir, "serve", "--addr", "8080").failed(t, exitUsage, `--addr is "8080": want a host and a port, such as 127.0.0.1:8080`)
	call(t, dir, "serve", "--clients", "0").failed(t, exitUsage, "--clients is 0: want 1 or more")
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	got := call(t, dir, "serve", "--addr", busy.Addr().String())
	assert.Equal(t, exitFailure, got.code)
	assert.Contains(t, got.stderr, "address already in use; --addr selects another address\n")
}

func TestServeOutlivesSlowAndManyConnections(t *testing.T) {
	server := newServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "well") }))
	require.NotZero(t, server.ReadHeaderTimeout)
	server.ReadHeaderTimeout = 200 * time.Millisecond
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(limitListener(listener, 1)) })
	defer serving.Wait()
	defer server.Close()
	for range 5 * (1 + extraConnections) {
		conn, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		require.NoError(t, err)
	}
	resp, err := http.Get("http://" + listener.Addr().String()) // once the others were cut off
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := bufio.NewReader(resp.Body).ReadString(0)
	require.ErrorIs(t, err, io.EOF)
	assert.Equal(t, "well", text)
}
