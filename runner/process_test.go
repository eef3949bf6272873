package runner_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// The tests of this file run services as processes: this test binary, called
// with a directory.
const serviceDir = "REPRISE_RUNNER_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serviceDir); dir != "" {
		if err := service(dir); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// service serves the programs of these tests until its standard input ends, and
// prints a line for each event.
func service(dir string) error {
	store, err := filestore.New(dir)
	if err != nil {
		return err
	}
	r, err := runner.New(store, runner.Options{
		Limit: 2000, MaxRestarts: 3, SweepEvery: 50 * time.Millisecond, Grace: 50 * time.Millisecond,
		Observe: func(e runner.Event) { fmt.Println(e.Type, e.RunID, e.Status) },
	})
	if err != nil {
		return err
	}
	registerServices(r, dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return r.Serve(ctx)
}

func registerServices(r *runner.Runner, dir string) {
	// deadly ends its process until there is a file "mended".
	runner.Register(r, agent("deadly", func(context.Context, word) (string, error) {
		if _, err := os.Stat(filepath.Join(dir, "mended")); err != nil {
			os.Exit(3)
		}
		return "alive", nil
	}))
	runner.Register(r, echo)
	// hold makes a call, and then waits until there is a file "mended".
	step := decorators.Tool("note", "", func(_ context.Context, in word) (string, error) {
		return in.Text, appendLine(filepath.Join(dir, "ledger"), in.Text)
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited}))
	runner.Register(r, agent("hold", func(ctx context.Context, in word) (string, error) {
		if _, err := step.Call(ctx, in); err != nil {
			return "", err
		}
		if _, err := os.Stat(filepath.Join(dir, "mended")); err != nil {
			fmt.Println("holding", in.Text)
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
		return "let go", nil
	}))
}

func appendLine(name, line string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(line + "\n")
	return err
}

// A process is a service that was begun.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func begin(t *testing.T, dir string) *process {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), serviceDir+"="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return &process{cmd, stdin, bufio.NewScanner(stdout)}
}

// await returns when the service has printed the line.
func (p *process) await(t *testing.T, line string) {
	t.Helper()
	for p.lines.Scan() {
		if p.lines.Text() == line {
			return
		}
	}
	require.Fail(t, "the service ended before it printed "+line)
}

// kill ends the process as a crash does.
func (p *process) kill(t *testing.T) {
	require.NoError(t, p.cmd.Process.Kill())
	p.wait()
}

// wait waits until it has ended, and returns how.
func (p *process) wait() int {
	for p.lines.Scan() {
	}
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

// stop ends the service gracefully.
func (p *process) stop(t *testing.T) {
	require.NoError(t, p.stdin.Close())
	require.Zero(t, p.wait())
}

// starter returns a runner that starts runs in the directory and serves
// nothing.
func starter(t *testing.T) (*runner.Runner, string) {
	dir := t.TempDir()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	r := newRunner(t, store, runner.Options{})
	registerServices(r, dir)
	return r, dir
}

func TestRunOfAKilledServiceGoesOnInTheNext(t *testing.T) {
	r, dir := starter(t)
	_, err := r.Start(t.Context(), "hold", "a", word{"a"}, runner.StartOptions{})
	require.NoError(t, err)
	p := begin(t, dir)
	p.await(t, "holding a")
	second := begin(t, dir) // which leaves it alone while the first has it
	p.kill(t)
	second.await(t, "crashed a interrupted")
	second.await(t, "holding a")
	info, err := r.Info(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, 1, info.Restarts)
	assert.True(t, info.Open)
	assert.EqualValues(t, 2, info.Generation)

	second.stop(t)
	info, err = r.Info(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, snapshot.Stop{Reason: record.InterruptShutdown}, info.Stop)
	assert.Zero(t, info.Restarts, "it was closed as it should")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mended"), nil, 0o600))
	third := begin(t, dir)
	third.await(t, "ended a completed")
	third.stop(t)
	out, err := r.Result(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, "let go", out)
	ledger, err := os.ReadFile(filepath.Join(dir, "ledger"))
	require.NoError(t, err)
	assert.Equal(t, "a\n", string(ledger), "what had its outcome has not run again")
}

func TestRunThatKillsItsProcessIsSetAside(t *testing.T) {
	r, dir := starter(t)
	_, err := r.Start(t.Context(), "deadly", "a", word{}, runner.StartOptions{})
	require.NoError(t, err)
	for range 4 { // once, and 3 restarts
		require.Equal(t, 3, begin(t, dir).wait())
	}
	_, err = r.Start(t.Context(), "echo", "b", word{}, runner.StartOptions{})
	require.NoError(t, err)
	p := begin(t, dir)
	p.await(t, "crashed a failed")
	p.await(t, "ended b completed")
	info, err := r.Info(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusFailed, info.Status)
	assert.Equal(t, record.InterruptCrashLoop, info.Stop.Reason)
	_, err = r.Result(t.Context(), "a")
	require.ErrorIs(t, err, runner.ErrCrashLoop)
	run, err := r.Store().Load(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusFailed, run.Status)
	p.stop(t)
	p = begin(t, dir) // it is left alone
	_, err = r.Start(t.Context(), "echo", "c", word{}, runner.StartOptions{})
	require.NoError(t, err)
	p.await(t, "ended c completed")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "mended"), nil, 0o600))
	require.NoError(t, r.Resume(t.Context(), "a"))
	p.await(t, "ended a completed")
	p.stop(t)
	info, err = r.Info(t.Context(), "a")
	require.NoError(t, err)
	assert.Zero(t, info.Restarts)
	assert.Empty(t, info.Stop)
	out, err := state.Result[string](t.Context(), r.Store(), "a")
	require.NoError(t, err)
	assert.Equal(t, "alive", out)
}
