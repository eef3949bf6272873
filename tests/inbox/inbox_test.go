package inbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

const runID = "run-1"

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"work": inStore(work), "answer": inStore(answerAll), "wait": inStore(waitLong)})
}

// inStore returns a program with the arguments directory and name. It calls do with the store in
// that directory and the name.
func inStore(do func(ctx context.Context, store *filestore.Store, name string) error) func(...string) error {
	return func(args ...string) error {
		store, err := filestore.New(args[0])
		if err != nil {
			return err
		}
		return do(context.Background(), store, args[1])
	}
}

// start starts a program with the directory and name as arguments.
func start(t *testing.T, program, dir, name string) (*exec.Cmd, io.Reader, *bytes.Buffer) {
	t.Helper()
	cmd := process.Command(t, program, dir, name)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	require.NoError(t, cmd.Start())
	return cmd, out, stderr
}

const (
	rounds   = 4
	branches = 3
)

type order struct {
	N int `json:"n"`
}

// program asks questions in several rounds. In each round, it asks several at the same time, while
// another branch is still running.
func program() actors.Agent[order, string] {
	ask := decorators.Tool("ask", "", func(ctx context.Context, in order) (string, error) {
		if in.N == 0 { // this branch asks nothing
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
			return "", ctx.Err()
		}
		return core.Await[string](ctx, fmt.Sprint("number ", in.N))
	}, actors.WithRetry(core.RetryConfig{MaxLosses: 50})) // each kill may cut off an attempt
	return decorators.Agent("agent", "", func(ctx context.Context, _ order) (string, error) {
		var all []string
		for range rounds {
			outs, err := actors.Map(ctx, actors.Group{Name: "g"}, ask, []order{{0}, {1}, {2}, {3}}[:branches+1])
			if err != nil {
				return "", err
			}
			all = append(all, outs[1:]...)
		}
		return strings.Join(all, " "), nil
	})
}

// work runs the program until it has completed, waiting for answers in between, and prints its
// output.
func work(ctx context.Context, store *filestore.Store, _ string) error {
	for {
		st, err := state.Open(ctx, store, runID, state.WithWait())
		if err != nil {
			return err
		}
		out, err := program().Call(st.Context(ctx), order{})
		if closed := st.Close(); closed != nil {
			return closed
		}
		switch {
		case err == nil:
			fmt.Println(out)
			return nil
		case !errors.Is(err, core.ErrAwaiting):
			return err
		}
		if err := state.AwaitAnswers(ctx, store, runID); err != nil {
			return err
		}
	}
}

// answerAll answers all questions until the run has completed. It prints those of its answers that
// were accepted, because they came first.
func answerAll(ctx context.Context, store *filestore.Store, name string) error {
	for n := 0; ; {
		found, err := store.Load(ctx, runID)
		if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
			return err
		}
		if err == nil && found.Status == snapshot.StatusCompleted {
			return nil
		}
		open, err := state.Questions(ctx, store, runID)
		if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
			return err
		}
		<-time.After(time.Millisecond)
		for _, q := range open {
			n++
			value := fmt.Sprintf("%s-%d", name, n)
			err := state.Answer(ctx, store, runID, q.ID, "", value)
			if err == nil {
				fmt.Println(q.ID, value)
			} else if !errors.Is(err, state.ErrAnswered) {
				return err
			}
		}
	}
}

// crew is the sequence of processes in one role, which are killed and started again.
type crew struct {
	fail  context.CancelFunc // ends all processes
	mu    sync.Mutex
	lines []string
	kills int
}

// keep runs processes in the given role, one after another, until one of them ends by itself.
func (c *crew) keep(ctx context.Context, t *testing.T, rng *rand.Rand, role, dir string, kills int) {
	for n := 0; ctx.Err() == nil; n++ {
		cmd, out, stderr := start(t, role, dir, fmt.Sprint(role, n))
		var timer *time.Timer
		if n < kills {
			timer = time.AfterFunc(time.Duration(rng.Int64N(int64(60*time.Millisecond))), func() { _ = cmd.Process.Kill() })
		}
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			c.mu.Lock()
			c.lines = append(c.lines, scanner.Text())
			c.mu.Unlock()
		}
		err := cmd.Wait()
		if timer != nil {
			timer.Stop()
		}
		if err == nil {
			return
		}
		if !assert.Equal(t, -1, cmd.ProcessState.ExitCode(), "%s: %v: %s", role, err, stderr) {
			c.fail() // the process failed although it was not killed
			return
		}
		c.mu.Lock()
		c.kills++
		c.mu.Unlock()
	}
}

func TestAnswersOfOtherProcessesAreReceivedOnceWhoeverIsKilled(t *testing.T) {
	times := 5
	if testing.Short() {
		times = 1
	}
	killed := 0
	for range times {
		dir := t.TempDir()
		_, err := filestore.New(dir)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		workers, answerers := &crew{fail: stop}, &crew{fail: stop}
		var wait sync.WaitGroup
		wait.Go(func() { workers.keep(ctx, t, rand.New(rand.NewPCG(rand.Uint64(), 1)), "work", dir, 8) })
		for range 2 {
			wait.Go(func() { answerers.keep(ctx, t, rand.New(rand.NewPCG(rand.Uint64(), 2)), "answer", dir, 4) })
		}
		wait.Wait()
		stop()
		if t.Failed() {
			return
		}
		check(t, dir, workers.lines, answerers.lines)
		killed += workers.kills + answerers.kills
	}
	t.Logf("%d processes were killed", killed)
}

// check compares what the processes printed with the stored run.
func check(t *testing.T, dir string, results, won []string) {
	t.Helper()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	found := testkit.LoadRun(t, store, runID)
	answers, inOrder := make(map[string]string), []string(nil)
	questions := make(map[string]int)
	for i := range found.Records {
		switch r := &found.Records[i]; r.Kind {
		case record.KindQuestion:
			questions[r.Name]++
		case record.KindAnswer:
			var value string
			require.NoError(t, record.Decode(r.Encoded(), &value))
			require.NotContains(t, answers, r.Name, "answered twice")
			answers[r.Name] = value
		}
	}
	assert.Len(t, questions, rounds*branches)
	assert.Len(t, answers, rounds*branches)
	for _, line := range won {
		id, value, _ := strings.Cut(line, " ")
		assert.Equal(t, answers[id], value, "the answer that was accepted first for %s", id)
	}
	for round := range rounds {
		for branch := range branches {
			group := "g"
			if round > 0 {
				group = fmt.Sprint("g#", round+1)
			}
			inOrder = append(inOrder, answers[fmt.Sprintf("agent/group:%s/%d?1", group, branch+2)])
		}
	}
	require.NotEmpty(t, results)
	assert.Equal(t, strings.Join(inOrder, " "), results[len(results)-1])
	st, err := state.Open(t.Context(), store, runID) // Open drops late answers that a killed process has left
	require.NoError(t, err)
	require.NoError(t, st.Close())
	waiting, err := store.Messages(t.Context(), runID)
	require.NoError(t, err)
	assert.Empty(t, waiting)
	entries, err := filepath.Glob(filepath.Join(dir, "runs", runID, "inbox", "*.refused*"))
	require.NoError(t, err)
	assert.Empty(t, entries)
}

// waitLong makes a call that waits an hour for its retry, and prints how that call ended.
func waitLong(ctx context.Context, store *filestore.Store, _ string) error {
	st, err := state.Open(ctx, store, runID, state.WithPublisher(announcer{}))
	if err != nil {
		return err
	}
	flaky := decorators.Tool("flaky", "", func(context.Context, order) (string, error) {
		return "", core.Retryable(errors.New("not yet"))
	}, actors.WithRetry(core.RetryConfig{InitialDelay: time.Hour, MaxDelay: time.Hour}))
	_, err = flaky.Call(st.Context(ctx), order{})
	fmt.Println(err)
	return st.Close()
}

// announcer prints a line each time a wait begins.
type announcer struct{}

func (announcer) Publish(r record.Record) {
	if r.Status == record.StatusRetrying {
		fmt.Println("waiting")
	}
}

// owner is a process that has the run open and is waiting for a retry.
type owner struct {
	*exec.Cmd
	store  snapshot.Store // contains the run
	out    io.Reader      // output that lines has not read
	lines  *bufio.Scanner // lines of its output
	stderr *bytes.Buffer
}

func startOwner(t *testing.T) *owner {
	t.Helper()
	dir := t.TempDir()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	o := &owner{store: store}
	o.Cmd, o.out, o.stderr = start(t, "wait", dir, "owner")
	o.lines = bufio.NewScanner(o.out)
	require.True(t, o.lines.Scan(), o.stderr)
	require.Equal(t, "waiting", o.lines.Text())
	return o
}

func TestProcessIsInterruptedInTheMiddleOfAWait(t *testing.T) {
	o := startOwner(t)
	require.NoError(t, state.Interrupt(t.Context(), o.store, runID, snapshot.Stop{By: "ops", Message: "deploy"}))
	require.True(t, o.lines.Scan(), o.stderr)
	assert.Equal(t, "interrupted (user) by ops: deploy", o.lines.Text())
	_, _ = io.Copy(io.Discard, o.out)
	require.NoError(t, o.Wait(), o.stderr)
	found := testkit.LoadRun(t, o.store, runID)
	assert.Equal(t, snapshot.StatusInterrupted, found.Status)
	require.ErrorIs(t, state.Interrupt(t.Context(), o.store, runID, snapshot.Stop{By: "ops", Message: "deploy"}), state.ErrNotRunning)
}

func TestProcessIsCancelledInTheMiddleOfAWait(t *testing.T) {
	o := startOwner(t)
	require.NoError(t, state.Cancel(t.Context(), o.store, runID, snapshot.Stop{By: "ops", Message: "for good"}))
	require.True(t, o.lines.Scan(), o.stderr)
	assert.Equal(t, "interrupted (cancel) by ops: for good: the run was cancelled", o.lines.Text())
	_, _ = io.Copy(io.Discard, o.out)
	require.NoError(t, o.Wait(), o.stderr)
	found := testkit.LoadRun(t, o.store, runID)
	assert.Equal(t, snapshot.StatusCancelled, found.Status)
	assert.Equal(t, snapshot.Stop{Reason: record.InterruptCancel, By: "ops", Message: "for good"}, found.Stop)
	_, err := state.Open(t.Context(), o.store, runID)
	require.ErrorIs(t, err, state.ErrCancelled)
}

// TestAKilledProcessLeavesARunInterruptedByACrash also checks that such a run can be cancelled.
func TestAKilledProcessLeavesARunInterruptedByACrash(t *testing.T) {
	o := startOwner(t)
	require.NoError(t, o.Process.Kill())
	_, _ = io.Copy(io.Discard, o.out)
	require.Error(t, o.Wait())
	stopped := func() snapshot.Info {
		info, err := o.store.Info(t.Context(), runID)
		require.NoError(t, err)
		page, err := o.store.List(t.Context(), snapshot.Filter{})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
		assert.Equal(t, info.Stop, page.Runs[0].Stop)
		assert.Equal(t, info.Status, page.Runs[0].Status)
		return info
	}
	info := stopped()
	assert.Equal(t, snapshot.StatusInterrupted, info.Status)
	assert.Equal(t, snapshot.Stop{Reason: record.InterruptCrash}, info.Stop)
	require.NoError(t, state.Cancel(t.Context(), o.store, runID, snapshot.Stop{By: "ops"}))
	info = stopped()
	assert.Equal(t, snapshot.StatusCancelled, info.Status)
	assert.Equal(t, "by ops", info.Stop.String())
}

func TestAwaitAnswersNoticesThatTheOwnerWasKilled(t *testing.T) {
	o := startOwner(t)
	returned := make(chan error, 1)
	go func() { returned <- state.AwaitAnswers(t.Context(), o.store, runID) }()
	require.NoError(t, o.Process.Kill())
	_, _ = io.Copy(io.Discard, o.out)
	require.Error(t, o.Wait())
	require.NoError(t, <-returned)
	require.ErrorIs(t, state.Interrupt(t.Context(), o.store, runID, snapshot.Stop{By: "ops", Message: "deploy"}), state.ErrNotRunning)
}

func TestSecondProcessIsRefusedOrWaits(t *testing.T) {
	o := startOwner(t)
	_, err := state.Open(t.Context(), o.store, runID)
	require.ErrorIs(t, err, snapshot.ErrLocked)
	require.ErrorContains(t, err, fmt.Sprintf("state: open run run-1: snapshot: run run-1 is open for writing in process %d; with state.WithWait, Open waits until that process closes it", o.Process.Pid))
	opened := make(chan error, 1)
	go func() {
		st, err := state.Open(t.Context(), o.store, runID, state.WithWait())
		if err == nil {
			err = st.Close()
		}
		opened <- err
	}()
	require.NoError(t, state.Interrupt(t.Context(), o.store, runID, snapshot.Stop{By: "ops", Message: "deploy"}))
	_, _ = io.Copy(io.Discard, o.out)
	require.NoError(t, o.Wait(), o.stderr)
	require.NoError(t, <-opened)
}

// TestAwaitAnswersReturnsWhenTheRunCanBeOpened answers a question while the run is open.
// AwaitAnswers must not return before the run's owner has closed it.
func TestAwaitAnswersReturnsWhenTheRunCanBeOpened(t *testing.T) {
	dir := t.TempDir()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	ask := decorators.Tool("ask", "", func(ctx context.Context, _ order) (string, error) { return core.Await[string](ctx, "well?") })
	for n := range 20 {
		id := fmt.Sprint("run-", n)
		st, err := state.Open(t.Context(), store, id)
		require.NoError(t, err)
		_, err = ask.Call(st.Context(t.Context()), order{})
		require.ErrorIs(t, err, core.ErrAwaiting)
		other, err := filestore.New(dir)
		require.NoError(t, err)
		opened := make(chan error, 1)
		go func() {
			err := state.AwaitAnswers(t.Context(), other, id)
			if err == nil {
				var st *state.ExecutionState
				if st, err = state.Open(t.Context(), other, id); err == nil {
					err = st.Close()
				}
			}
			opened <- err
		}()
		require.NoError(t, state.Answer(t.Context(), store, id, "ask?1", "", "yes"))
		require.NoError(t, st.Close())
		require.NoError(t, <-opened)
	}
}
