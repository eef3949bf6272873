//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/streamer"
)

// A servedProgram is a program that "reprise runner" serves in a separate process.
type servedProgram struct {
	cmd  *exec.Cmd
	says *bufio.Reader // the program's standard error
	url  string
}

// runnerOf starts "reprise runner" and returns once the program serves requests.
func runnerOf(t *testing.T, dir, program string) *servedProgram {
	t.Helper()
	cmd := reprise(t, "--dir", dir, "runner", program, "-addr", "127.0.0.1:0", "-grace", "10ms")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // kill the program too
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &servedProgram{cmd: cmd, says: bufio.NewReader(stderr)}
	line, err := p.says.ReadString('\n')
	require.NoError(t, err)
	if stat, err := os.Stat(program); err == nil && stat.IsDir() {
		require.Equal(t, "reprise: building "+program+"\n", line)
		line, err = p.says.ReadString('\n')
		require.NoError(t, err)
	}
	_, rest, ok := strings.Cut(line, "runs of "+dir+" are at ")
	require.True(t, ok, line)
	p.url, _, _ = strings.Cut(rest, "/ ")
	return p
}

// end asks the process to end. It returns its output and exit code.
func (p *servedProgram) end(t *testing.T) (said string, code int) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(p.says)
	require.NoError(t, err)
	_ = p.cmd.Wait()
	return string(rest), p.cmd.ProcessState.ExitCode()
}

func (p *servedProgram) until(t *testing.T, run, event string) {
	t.Helper()
	client := streamer.Client{URL: p.url, Run: run}
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		if e.Name == event {
			return
		}
	}
}

func TestRunnerServesTheAgentsOfAProgram(t *testing.T) {
	dir := t.TempDir()
	p := runnerOf(t, dir, "testdata/agents") // built by the command
	status, said := post(t, p.url+"/api/runs", `{"program":"greet","run_id":"r","input":{"name":"Ada"}}`)
	require.Equal(t, http.StatusCreated, status, said)
	p.until(t, "r", "run_paused")
	said, code := p.end(t)
	for line := range strings.Lines(said) {
		assert.Contains(t, line, " level=INFO ", "no errors")
	}
	assert.Zero(t, code)

	agents := filepath.Join(t.TempDir(), "agents")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", agents, "./testdata/agents").CombinedOutput()
	require.NoError(t, err, "%s", out)
	p = runnerOf(t, dir, agents)
	status, said = post(t, p.url+"/api/runs/r/answer", `{"question":"greet?1","value":"Hello"}`)
	require.Equal(t, 200, status, said)
	p.until(t, "r", "run_completed")
	var result struct{ Output string }
	fetch(t, p.url+"/api/runs/r/result", &result)
	assert.Equal(t, "Hello Ada", result.Output)
	assert.Contains(t, call(t, dir, "runs").text(t), "completed")
	_, code = p.end(t)
	assert.Zero(t, code)
}

func TestRunnerSaysWhyAProgramIsNotServed(t *testing.T) {
	dir := t.TempDir()
	call(t, dir, "runner").failed(t, exitUsage, "PROGRAM is missing: usage is reprise runner PROGRAM [FLAG]...")
	got := call(t, dir, "runner", "./missing")
	assert.Equal(t, exitFailure, got.code)
	assert.Contains(t, got.stderr, "./missing")
	got = call(t, dir, "runner", "../../record")
	assert.Equal(t, exitFailure, got.code)
	assert.Contains(t, got.stderr, "no main packages to build")
	assert.Contains(t, got.stderr, "reprise: build ../../record: exit status 1\n")
	got = call(t, dir, "runner", t.TempDir())
	assert.Equal(t, exitFailure, got.code)
	assert.Contains(t, got.stderr, "go.mod file not found")

	agents := filepath.Join(t.TempDir(), "agents")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", agents, "./testdata/agents").CombinedOutput()
	require.NoError(t, err, "%s", out)
	got = call(t, dir, "runner", agents, "-addr", "0.0.0.0:0")
	assert.Equal(t, exitFailure, got.code)
	assert.Contains(t, got.stderr, "want a loopback address")
	assert.Contains(t, got.stderr, "reprise: "+agents+" ended with exit status 2\n")
	got = call(t, dir, "--json", "runner", agents, "-colour", "red")
	assert.Equal(t, exitFailure, got.code)
	assert.Contains(t, got.stderr, "flag provided but not defined: -colour")
	var report struct{ Error, Code string }
	lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &report))
	assert.Equal(t, "failure", report.Code)
	got = call(t, dir, "runner", agents, "-h")
	assert.Equal(t, exitOK, got.code)
	assert.Contains(t, got.stderr, "-grace")
}
