package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/internal/ports"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

func TestWatchShowsARunThatEnded(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	url := served(t, dir)
	shown := timeless(call(t, dir, "show", "oslo").text(t))
	watched := timeless(call(t, dir, "watch", url, "oslo").text(t))
	lines, _, _ := strings.Cut(shown, "📊") // cut off the summary
	assert.Contains(t, lines, "↻")
	assert.Equal(t, strings.TrimSpace(lines), strings.TrimSpace(watched))

	var last struct{ Seq, Generation uint64 }
	out := strings.Split(strings.TrimSpace(call(t, dir, "watch", url, "oslo", "--json").text(t)), "\n")
	for i, line := range out {
		require.NoError(t, json.Unmarshal([]byte(line), &last))
		assert.EqualValues(t, i+1, last.Seq)
	}
}

func TestWatchSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	url := served(t, dir)
	call(t, dir, "watch").failed(t, exitUsage, "URL is missing: usage is reprise watch URL [RUN] [flags]")
	call(t, dir, "watch", url, "").failed(t, exitUsage, "RUN is empty; leave it out to watch all runs")
	call(t, dir, "watch", url, "nobody").failed(t, exitFailure, "there is no run nobody at "+url)
	call(t, dir, "watch", "localhost:80").failed(t, exitFailure, `streamer: Client.URL is "localhost:80": want http:// or https://, followed by a host`)
	call(t, dir, "watch", url, "--header", "nonsense").failed(t, exitUsage, `--header is "nonsense": want a name and a value, such as "Authorization: Bearer ..."`)
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer me" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer locked.Close()
	got := call(t, dir, "watch", locked.URL)
	assert.Equal(t, exitFailure, got.code)
	assert.Contains(t, got.stderr, "authenticate with --header 'Authorization: ...'")
	assert.Empty(t, call(t, dir, "watch", locked.URL, "--header", "Authorization: Bearer me").text(t))
}

func TestWatchSaysWhatWasMissed(t *testing.T) {
	dash, err := streamer.New(nil, streamer.Options{History: 3})
	require.NoError(t, err)
	server := httptest.NewServer(dash)
	defer server.Close()
	defer dash.Close(context.WithoutCancel(t.Context()))
	st := state.New(state.WithRunID("r"), state.WithPublisher(dash))
	tool := define(t, record.KindTool, "look", func(context.Context, int) (int, error) { return 1, nil })
	for range 3 {
		_, err := tool.Event().Execute(st.Context(t.Context()), 1)
		require.NoError(t, err)
	}
	require.NoError(t, st.Close())
	got := call(t, t.TempDir(), "watch", server.URL, "r")
	assert.Equal(t, exitOK, got.code)
	assert.Equal(t, "reprise: 5 events are no longer kept by the server\n", got.stderr)
	assert.Contains(t, got.stdout, "COMPLETED")
}

// Events that contain no record are shown as messages.
func TestWatchSaysWhatIsNotARecord(t *testing.T) {
	end, err := json.Marshal(record.Record{RunID: "r", Seq: 1, Generation: 1, Kind: record.KindRun, Status: record.StatusCompleted})
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range [][2]string{
			{"elsewhere", `{"run_id":"r","message":"another process executes it"}`},
			{"stopping", `{"run_id":"r","stopping":{"reason":"user","by":"ann","message":"enough"}}`},
			{"deleted", `{"run_id":"r"}`},
			{"run_completed", string(end)},
		} {
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e[0], e[1])
		}
	}))
	defer server.Close()
	got := call(t, t.TempDir(), "watch", server.URL, "r")
	assert.Equal(t, exitOK, got.code)
	assert.Equal(t, "reprise: another process executes it\nreprise: the run r was asked to stop by ann: enough\nreprise: the run r was deleted\n", got.stderr)
	assert.Contains(t, got.stdout, "run r [COMPLETED]")
}

// A model's output is shown on a terminal. Elsewhere, only records are shown.
func TestWatchShowsDeltasOnlyOnATerminal(t *testing.T) {
	dash, err := streamer.New(nil, streamer.Options{})
	require.NoError(t, err)
	server := httptest.NewServer(dash)
	defer server.Close()
	defer dash.Close(context.WithoutCancel(t.Context()))
	for _, flags := range [][]string{nil, {"--json"}} {
		st := state.New(state.WithRunID("r"), state.WithPublisher(dash))
		asked := make(chan struct{})
		model := define(t, record.KindLLM, "model", func(ctx context.Context, _ int) (string, error) {
			live.Emit(ctx, live.Delta{Part: live.PartText, Text: "It is"})
			close(asked)
			for dash.Stats().Clients == 0 && ctx.Err() == nil { // until a client watches
				runtime.Gosched()
			}
			return "It is 4 °C.", nil
		})
		go func() {
			_, err := model.Event().Execute(live.Watch(st.Context(t.Context()), dash.PublishDelta), 1)
			assert.NoError(t, err)
			assert.NoError(t, st.Close())
		}()
		<-asked
		got := call(t, t.TempDir(), append([]string{"watch", server.URL, "r"}, flags...)...)
		assert.Equal(t, exitOK, got.code, got.stderr)
		assert.Empty(t, got.stderr)
		assert.NotContains(t, got.stdout, "It is")
		assert.Contains(t, strings.ToLower(got.stdout), "completed")
	}
}

// A background is a program that runs alongside the test.
type background struct {
	*exec.Cmd
	out *bufio.Reader
}

func start(t *testing.T, cmd *exec.Cmd) *background {
	t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return &background{Cmd: cmd, out: bufio.NewReader(out)}
}

// until reads lines up to and including the first one that contains text.
func (p *background) until(t *testing.T, text string) (lines []string) {
	t.Helper()
	for {
		line, err := p.out.ReadString('\n')
		lines = append(lines, strings.TrimSuffix(line, "\n"))
		require.NoError(t, err, "before %q: %q", text, lines)
		if strings.Contains(line, text) {
			return lines
		}
	}
}

// interrupt sends the same signal as Ctrl-C.
func (p *background) interrupt(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Process.Signal(os.Interrupt))
	_, _ = io.Copy(io.Discard, p.out)
	require.NoError(t, p.Wait(), "Ctrl-C is not an error")
}

// freeAddress returns an address at which a server can be started more than once.
func freeAddress(t *testing.T) string {
	t.Helper()
	free, err := ports.Free(1)
	require.NoError(t, err)
	return fmt.Sprint("127.0.0.1:", free[0])
}

// TestWatchSurvivesARestartOfTheServer starts one process that serves a directory and another that
// watches a run in it, and kills the server in the middle.
func TestWatchSurvivesARestartOfTheServer(t *testing.T) {
	dir, address := t.TempDir(), freeAddress(t)
	serve := func() *background {
		p := start(t, reprise(t, "--dir", dir, "serve", "--addr", address))
		p.until(t, "the dashboard of")
		return p
	}
	st, err := state.Open(t.Context(), newStore(t, dir), "r")
	require.NoError(t, err)
	fails := true
	step := func(name string) {
		tool := define(t, record.KindTool, name, func(context.Context, int) (int, error) {
			if fails = !fails; !fails {
				return 0, core.Retryable(errors.New("down"))
			}
			return 1, nil
		})
		_, err := tool.Event().Execute(st.Context(t.Context()), 1)
		require.NoError(t, err)
	}
	step("one")
	server := serve()
	watch := start(t, reprise(t, "watch", "http://"+address, "r"))
	lines := watch.until(t, "✔ one")
	require.NoError(t, server.Process.Kill())
	_ = server.Wait()
	step("two") // while no server runs
	server = serve()
	lines = append(lines, watch.until(t, "✔ two")...)
	step("three")
	lines = append(lines, watch.until(t, "✔ three")...)
	require.NoError(t, st.Close())
	lines = append(lines, watch.until(t, "run r [COMPLETED]")...)
	require.NoError(t, watch.Wait(), "the command ends with the run")
	text := strings.Join(lines, "\n")
	for _, name := range []string{"one", "two", "three"} {
		assert.Equal(t, 1, strings.Count(text, name+" [STARTED]\n"), text)
		assert.Equal(t, 1, strings.Count(text, "✔ "+name), text)
	}
	server.interrupt(t)
}

// TestWatchSurvivesARestartOfTheExample is like TestWatchSurvivesARestartOfTheServer, but for a
// server that keeps its runs in memory.
func TestWatchSurvivesARestartOfTheExample(t *testing.T) {
	address := freeAddress(t)
	example := filepath.Join(t.TempDir(), "dashboard")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", example, "../../examples/dashboard").CombinedOutput()
	require.NoError(t, err, "%s", out)
	serve := func() *background {
		p := start(t, exec.CommandContext(t.Context(), example, "-addr", address, "-seed", "7", "-rate", "300"))
		p.until(t, "The dashboard is at")
		return p
	}
	server := serve()
	watch := start(t, reprise(t, "watch", "http://"+address+"/"))
	watch.until(t, "[COMPLETED]")
	server.interrupt(t)
	server = serve()
	watch.until(t, "▶")
	watch.until(t, "[COMPLETED]")
	watch.interrupt(t)
	server.interrupt(t)
}
