package service

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/runner"
)

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{
		"main": func(...string) error {
			os.Stderr = os.Stdout // tests read standard output
			Main(register)
			return nil
		},
		"deaf": func(...string) error {
			os.Stderr = os.Stdout
			Main(func(r *runner.Runner) error {
				runner.Register(r, decorators.Agent("deaf", "", func(context.Context, ticket) (string, error) {
					select {} // the agent ignores its context
				}))
				return nil
			})
			return nil
		},
		"models": serveModels, "follow": followRuns,
	})
}

// A program is a process that calls Main.
type program struct {
	*process.Process
	cmd *exec.Cmd
	url string
}

// begun starts the program with a directory and returns the program once it is serving.
func begun(t *testing.T, dir string) *program { return begunAs(t, "main", dir) }

// begunAs is like begun, but for the named program.
func begunAs(t *testing.T, name, dir string, flags ...string) *program {
	cmd := process.Command(t, name, append([]string{"-dir", dir, "-addr", "127.0.0.1:0", "-grace", "10ms"}, flags...)...)
	p := &program{process.Start(t, cmd), cmd, ""}
	line, ok := p.Line()
	require.True(t, ok)
	_, rest, ok := strings.Cut(line, "runs of "+dir+" are at ")
	require.True(t, ok, line)
	p.url, _, _ = strings.Cut(rest, " ")
	return p
}

// terminate ends the program with SIGTERM and returns its exit code.
func (p *program) terminate(t *testing.T) int {
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	return p.Wait()
}

func TestProgramContinuesAfterSIGTERMAndSIGKILL(t *testing.T) {
	dir := t.TempDir()
	p := begun(t, dir)
	for id, program := range map[string]string{"e": "echo", "w": "wait", "a": "ask"} {
		status, body := do(t, "POST", p.url+"api/runs", `{"program":"`+program+`","run_id":"`+id+`","input":{"text":"hi"}}`)
		require.Equal(t, 201, status, body)
	}
	until(t, p.url, "e", "run_completed")
	until(t, p.url, "a", "run_paused")
	until(t, p.url, "w", "started")
	require.Zero(t, p.terminate(t))

	p = begun(t, dir)
	untilIn(t, p.url, "w", "started", "2-")
	_, body := do(t, "GET", p.url+"api/runs/w", "")
	assert.Contains(t, body, `"running"`)
	p.Kill()

	p = begun(t, dir)
	untilIn(t, p.url, "w", "started", "3-")
	_, body = do(t, "GET", p.url+"api/runs/e/result", "")
	assert.JSONEq(t, `{"run_id":"e","status":"completed","output":{"text":"hi"}}`, body)
	status, body := do(t, "POST", p.url+"api/runs/a/answer", `{"question":"ask?1","value":"Ada"}`)
	require.Equal(t, 200, status, body)
	untilIn(t, p.url, "a", "run_completed", "2-")
	_, body = do(t, "GET", p.url+"debug/vars", "")
	assert.Contains(t, body, `"crashed":1`)
	require.Zero(t, p.terminate(t))
}

func TestRunsThatDoNotStopAreLoggedAndLeftToTheNextProcess(t *testing.T) {
	dir := t.TempDir()
	p := begunAs(t, "deaf", dir, "-log-format", "json")
	status, body := do(t, "POST", p.url+"api/runs", `{"program":"deaf","run_id":"d","input":{"text":"hi"}}`)
	require.Equal(t, 201, status, body)
	until(t, p.url, "d", "started")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	var logged []string
	for line, ok := p.Line(); ok; line, ok = p.Line() {
		var entry struct{ Level, Msg, Error string }
		require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
		logged = append(logged, fmt.Sprintf("%s: %s: %s", entry.Level, entry.Msg, entry.Error))
	}
	require.Zero(t, p.Wait())
	assert.Contains(t, logged, "WARN: not all runs stopped: runner: runs did not stop when they were interrupted: d")

	p = begunAs(t, "deaf", dir)
	untilIn(t, p.url, "d", "started", "2-")
	p.Kill()
}

func TestProgramThatCannotServeSaysWhy(t *testing.T) {
	dir := t.TempDir()
	serving := begun(t, dir)
	taken := strings.Trim(strings.TrimPrefix(serving.url, "http://"), "/")
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"-addr " + taken:               {1, "address already in use; -addr selects another address\n"},
		"-addr 0.0.0.0:0":              {2, "want a loopback address, such as 127.0.0.1:8080, or -tokens or -client-ca, so that"},
		"-limit -1 -addr 127.0.0.1:0":  {1, "Limit is -1; want 1 or more"},
		"-limit many":                  {2, `invalid value "many"`},
		"-colour red":                  {2, "flag provided but not defined: -colour"},
		"start":                        {2, `unexpected argument "start": `},
		"-h":                           {0, "-dir directory"},
		"-dir /dev/null/x -addr [::1]": {1, "want a host and a port"},
	} {
		p := process.Start(t, process.Command(t, "main", append([]string{"-dir", dir}, strings.Fields(args)...)...))
		var said strings.Builder
		for line, ok := p.Line(); ok; line, ok = p.Line() {
			said.WriteString(line + "\n")
		}
		assert.Equal(t, want.code, p.Wait(), args)
		assert.Contains(t, said.String(), want.text, args)
	}
	require.Zero(t, serving.terminate(t))
}
