package runner_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"service": service, "release": release})
}

// service serves the programs of these tests until its standard input ends. It prints a line for
// each event.
func service(args ...string) error {
	dir := args[0]
	store, err := filestore.New(dir)
	if err != nil {
		return err
	}
	r, err := runner.New(store, runner.Options{
		Limit: 2000, MaxRestarts: 3, SweepEvery: 50 * time.Millisecond, Grace: 50 * time.Millisecond, ParkAfter: time.Millisecond,
		Observe: func(e runner.Notice) {
			if e.Stop.Reason == record.InterruptCrashLoop {
				fmt.Println("set aside", e.RunID)
				return
			}
			fmt.Println(e.Type, e.RunID, e.Status)
		},
	})
	if err != nil {
		return err
	}
	registerServices(r, dir)
	ctx, cancel := process.UntilStdinEnds()
	defer cancel()
	return r.Serve(ctx)
}

func registerServices(r *runner.Runner, dir string) {
	// deadly ends its process unless the file "mended" exists.
	runner.Register(r, agent("deadly", func(context.Context, word) (string, error) {
		if _, err := os.Stat(filepath.Join(dir, "mended")); err != nil {
			os.Exit(3)
		}
		return "alive", nil
	}))
	runner.Register(r, echo)
	// poison ends its process while calls of slow are in progress.
	for name, do := range map[string]func(){
		"poison": func() { <-time.After(30 * time.Millisecond); os.Exit(3) },
		"slow":   func() { <-time.After(100 * time.Millisecond) },
	} {
		work := decorators.Tool("work", "", func(_ context.Context, in word) (string, error) { do(); return in.Text, nil })
		runner.Register(r, agent(name, work.Call))
	}
	// hold makes a call, and then waits until the file "mended" exists. late makes a call that is
	// retried every 20 ms until the file "mended" exists.
	note := func(_ context.Context, in word) (string, error) {
		return in.Text, appendLine(filepath.Join(dir, "ledger"), in.Text)
	}
	late := decorators.Tool("late_note", "", func(ctx context.Context, in word) (string, error) {
		if _, err := note(ctx, word{fmt.Sprint(in.Text, " ", core.ScopeOf(ctx).Attempt())}); err != nil {
			return "", err
		}
		if _, err := os.Stat(filepath.Join(dir, "mended")); err != nil {
			return "", core.Retryable(err)
		}
		return in.Text, nil
	}, actors.WithRetry(core.RetryConfig{
		MaxAttempts: core.Unlimited, InitialDelay: 20 * time.Millisecond, Jitter: core.NoJitter, Backoff: core.Constant,
	}))
	runner.Register(r, agent("late", late.Call))
	step := decorators.Tool("note", "", note, actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited}))
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

func begin(t *testing.T, dir string) *process.Process {
	return process.Start(t, process.Command(t, "service", dir))
}

// starter returns a runner that starts runs in the directory but serves none of them.
func starter(t *testing.T) (*runner.Runner, string) {
	dir := t.TempDir()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	r := newRunner(t, store, runner.Options{})
	registerServices(r, dir)
	return r, dir
}

func TestRunOfAKilledServiceContinuesInTheNext(t *testing.T) {
	r, dir := starter(t)
	_, err := r.Start(t.Context(), "hold", "a", word{"a"}, runner.StartOptions{})
	require.NoError(t, err)
	p := begin(t, dir)
	p.Await("holding a")
	second := begin(t, dir) // it must not take the run while the first process has it
	p.Kill()
	second.Await("crashed a interrupted")
	second.Await("holding a")
	info, err := r.Info(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, 1, info.Restarts)
	assert.True(t, info.Open)
	assert.EqualValues(t, 2, info.Generation)

	second.Stop()
	info, err = r.Info(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, snapshot.Stop{Reason: record.InterruptShutdown}, info.Stop)
	assert.Zero(t, info.Restarts, "the process ended normally")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mended"), nil, 0o600))
	third := begin(t, dir)
	third.Await("closed a completed")
	third.Stop()
	out, err := r.Result(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, "let go", out)
	ledger, err := os.ReadFile(filepath.Join(dir, "ledger"))
	require.NoError(t, err)
	assert.Equal(t, "a\n", string(ledger), "a call with an outcome is not made again")
}

func TestRunThatKillsItsProcessIsSetAside(t *testing.T) {
	r, dir := starter(t)
	_, err := r.Start(t.Context(), "deadly", "a", word{}, runner.StartOptions{})
	require.NoError(t, err)
	for range 4 { // once for the first start, and once for each of 3 restarts
		require.Equal(t, 3, begin(t, dir).Wait())
	}
	_, err = r.Start(t.Context(), "echo", "b", word{}, runner.StartOptions{})
	require.NoError(t, err)
	p := begin(t, dir)
	p.Await("set aside a", "closed b completed")
	info, err := newRunner(t, r.Store(), runner.Options{}).Wait(t.Context(), "a")
	require.ErrorIs(t, err, runner.ErrCrashLoop)
	assert.Equal(t, snapshot.StatusInterrupted, info.Status)
	assert.Equal(t, snapshot.Stop{
		Reason: record.InterruptCrashLoop, Message: "the process ended 4 times in a row without an outcome; in progress: deadly",
	}, info.Stop)
	_, err = r.Result(t.Context(), "a")
	require.ErrorIs(t, err, runner.ErrCrashLoop)
	require.ErrorContains(t, err, "in progress: deadly")
	run, err := r.Store().Load(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusInterrupted, run.Status)
	p.Stop()
	p = begin(t, dir) // it must not continue the run
	_, err = r.Start(t.Context(), "echo", "c", word{}, runner.StartOptions{})
	require.NoError(t, err)
	p.Await("closed c completed")
	p.Stop()

	require.NoError(t, r.Resume(t.Context(), "a")) // before the cause is mended
	for range 4 {
		require.Equal(t, 3, begin(t, dir).Wait())
	}
	p = begin(t, dir)
	p.Await("set aside a")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mended"), nil, 0o600))
	require.NoError(t, r.Resume(t.Context(), "a"))
	p.Await("closed a completed")
	p.Stop()
	info, err = r.Info(t.Context(), "a")
	require.NoError(t, err)
	assert.Zero(t, info.Restarts)
	assert.Empty(t, info.Stop)
	out, err := state.Result[string](t.Context(), r.Store(), "a")
	require.NoError(t, err)
	assert.Equal(t, "alive", out)
}

func TestRunThatKillsItsProcessDoesNotSetItsNeighboursAside(t *testing.T) {
	const neighbours = 49
	r, dir := starter(t)
	_, err := r.Start(t.Context(), "poison", "poison", word{}, runner.StartOptions{})
	require.NoError(t, err)
	for i := range neighbours {
		_, err := r.Start(t.Context(), "slow", fmt.Sprint("slow-", i), word{}, runner.StartOptions{})
		require.NoError(t, err)
	}
	completed, setAside := make(map[string]bool), ""
	starts := 0
	for len(completed) < neighbours || setAside == "" {
		starts++
		require.LessOrEqual(t, starts, 10, "the process is restarted repeatedly")
		for i := range neighbours { // a process may end before it prints the line
			info, err := r.Info(t.Context(), fmt.Sprint("slow-", i))
			require.NoError(t, err)
			if info.Status == snapshot.StatusCompleted {
				completed[info.RunID] = true
			}
		}
		p := begin(t, dir)
		for len(completed) < neighbours || setAside == "" {
			line, ok := p.Line()
			if !ok {
				break
			}
			if name, ok := strings.CutPrefix(line, "set aside "); ok {
				assert.Empty(t, setAside)
				setAside = name
			} else if words := strings.Fields(line); words[0] == "closed" && words[2] == "completed" {
				completed[words[1]] = true
			}
		}
		if len(completed) == neighbours && setAside != "" {
			p.Stop()
		} else {
			require.Equal(t, 3, p.Wait())
		}
	}
	assert.Equal(t, "poison", setAside)
	t.Logf("%d starts", starts)
	info, err := newRunner(t, r.Store(), runner.Options{}).Wait(t.Context(), "poison")
	require.ErrorIs(t, err, runner.ErrCrashLoop)
	assert.Equal(t, "the process ended 4 times in a row without an outcome; in progress: poison/work", info.Stop.Message)
}

func TestRunThatIsParkedBetweenAttemptsOutlivesItsProcess(t *testing.T) {
	r, dir := starter(t)
	_, err := r.Start(t.Context(), "late", "a", word{"a"}, runner.StartOptions{})
	require.NoError(t, err)
	for range 3 {
		p := begin(t, dir)
		p.Await("closed a paused")
		p.Kill()
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mended"), nil, 0o600))
	p := begin(t, dir)
	p.Await("closed a completed")
	p.Stop()
	ledger, err := os.ReadFile(filepath.Join(dir, "ledger"))
	require.NoError(t, err)
	lines := strings.Fields(strings.ReplaceAll(string(ledger), "a ", ""))
	assert.GreaterOrEqual(t, len(lines), 4)
	last := -1
	for _, line := range lines {
		attempt, err := strconv.Atoi(line)
		require.NoError(t, err)
		assert.Greater(t, attempt, last, "each attempt is made only once")
		last = attempt
	}
}
