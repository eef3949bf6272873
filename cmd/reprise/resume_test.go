package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/waiting"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// serveUntil runs a runner with one program on the store until the run is settled.
func serveUntil(t *testing.T, store *filestore.Store, runID string, fails bool) snapshot.Info {
	t.Helper()
	r, err := runner.New(store, runner.Options{})
	require.NoError(t, err)
	runner.Register(r, decorators.Agent("order", "", func(context.Context, string) (string, error) {
		if fails {
			return "", core.Permanent(errors.New("the warehouse is closed"))
		}
		return "sent", nil
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 1})))
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- r.Serve(ctx) }()
	if _, err := store.Info(ctx, runID); errors.Is(err, snapshot.ErrNotFound) {
		_, err := r.Start(ctx, "order", runID, "a book", runner.StartOptions{})
		require.NoError(t, err)
	}
	info, err := r.Wait(ctx, runID)
	require.NoError(t, err)
	stop()
	<-served
	return info
}

func TestRetryContinuesAFailedRun(t *testing.T) {
	dir := t.TempDir()
	store := newStore(t, dir)
	require.Equal(t, snapshot.StatusFailed, serveUntil(t, store, "order-1", true).Status)
	assert.Contains(t, call(t, dir, "show", "order-1").text(t), "to retry the failed calls: reprise")

	call(t, dir, "resume", "order-1").failed(t, exitFailure, "resume run order-1: only a run that was interrupted can be resumed; it has failed; retry it instead")
	assert.Equal(t, "run order-1 is queued, and its failed calls are made again; a runner with program order continues it\n", call(t, dir, "retry", "order-1").text(t))
	assert.JSONEq(t, `{"run_id":"order-1","status":"queued"}`, call(t, dir, "retry", "order-1", "--json").text(t))
	require.Equal(t, snapshot.StatusCompleted, serveUntil(t, store, "order-1", false).Status)
	call(t, dir, "retry", "order-1").failed(t, exitFailure, "retry run order-1: only a run that has failed can be retried; it is completed")
}

// docs/changes.md says to remove a version once no unfinished run of that version is listed.
func TestRunsAreListedWithTheVersionOfTheirProgram(t *testing.T) {
	dir := t.TempDir()
	serveUntil(t, newStore(t, dir), "order-1", true)
	refund(t, dir, "refund-1")

	got := call(t, dir, "runs", "--program", "order").text(t)
	assert.Contains(t, got, "PROGRAM")
	assert.Contains(t, got, "order-1  failed")
	assert.Contains(t, got, "  order 1\n")
	assert.NotContains(t, got, "refund-1")
	assert.Equal(t, got, call(t, dir, "runs", "--program", "order", "--version", "1").text(t))
	assert.Equal(t, result{0, "", "no runs\n"}, call(t, dir, "runs", "--program", "order", "--version", "2"))
}

func TestManyRunsAreRetriedAtOnce(t *testing.T) {
	dir := t.TempDir()
	store := newStore(t, dir)
	for i := range 3 {
		serveUntil(t, store, fmt.Sprint("order-", i), true)
	}
	assert.Equal(t, result{0, "", "no runs\n"}, call(t, dir, "retry", "--program", "other"))
	assert.Equal(t, result{0, "", "no runs\n"}, call(t, dir, "resume", "--reason", "divergence", "--since", "1h"))
	dry := call(t, dir, "retry", "--reason", "permanent", "--dry-run")
	assert.Equal(t, result{0, "order-2\norder-1\norder-0\n", "would retry 3 runs\n"}, dry)
	assert.JSONEq(t, `[{"run_id":"order-2"},{"run_id":"order-1"},{"run_id":"order-0"}]`, call(t, dir, "retry", "--reason", "permanent", "--dry-run", "--json").text(t))
	assert.Equal(t, 3, strings.Count(call(t, dir, "runs", "--reason", "permanent").text(t), " failed "), "nothing has changed")
	text := call(t, dir, "retry", "--status", "failed", "--reason", "permanent", "--program", "order").text(t)
	assert.Contains(t, text, "run order-0 is queued, and its failed calls are made again\n")
	assert.Contains(t, text, "3 runs queued\n")
	for i := range 3 {
		require.Equal(t, snapshot.StatusCompleted, serveUntil(t, store, fmt.Sprint("order-", i), false).Status)
	}
}

func TestErrorsOfSelectedRunsAreOneLineWithoutControlCharacters(t *testing.T) {
	var stderr strings.Builder
	a := &app{environment: &environment{stderr: &stderr}, out: bufio.NewWriter(io.Discard)}
	chosen := []state.SelectedRun{{RunID: "r1", Err: errors.New("the model said \x1b[31mno\nand no")}}
	require.NoError(t, a.printContinued(&continueAction{name: "retry"}, chosen, 1, false))
	assert.Equal(t, "r1: the model said \\x1b[31mno; and no\n", stderr.String())
}

func TestResumeNeedsARunOrFlags(t *testing.T) {
	dir := t.TempDir()
	newStore(t, dir)
	for _, name := range []string{"resume", "retry"} {
		call(t, dir, name).failed(t, exitUsage, "RUN is missing: name a run, or select runs with --status, --reason, --program or --since")
		call(t, dir, name, "r", "--since", "1h").failed(t, exitUsage, "RUN r and flags that select runs: want one or the other")
		call(t, dir, name, "r", "--dry-run").failed(t, exitUsage, "RUN r and --dry-run, which shows what flags select: want one or the other")
		call(t, dir, name, "--dry-run").failed(t, exitUsage, "RUN is missing: name a run, or select runs with --status, --reason, --program or --since")
		call(t, dir, name, "r", "s").failed(t, exitUsage, `"s" is one argument too many: usage is reprise `+name+" [RUN] [flags]")
		call(t, dir, name, "--status", "queued").failed(t, exitUsage, `--status is "queued": want `+map[string]string{"resume": "interrupted", "retry": "failed"}[name])
	}
	got := call(t, dir, "retry", "--reason", "bad luck")
	assert.Equal(t, exitUsage, got.code)
	assert.Contains(t, got.stderr, `reason "bad luck": runs fail for one of permanent, exhausted`)
}

func TestAnswerSaysThatARunnerContinuesTheRun(t *testing.T) {
	dir := t.TempDir()
	store := newStore(t, dir)
	r, err := runner.New(store, runner.Options{})
	require.NoError(t, err)
	runner.Register(r, decorators.Agent("order", "", func(ctx context.Context, _ string) (bool, error) { return core.Await[bool](ctx, "send it?") }))
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- r.Serve(ctx) }()
	_, err = r.Start(ctx, "order", "order-1", "a book", runner.StartOptions{})
	require.NoError(t, err)
	for event, err := range store.Watch(ctx, snapshot.WatchOptions{RunID: "order-1"}) {
		require.NoError(t, err)
		if event.Info.Status == snapshot.StatusPaused {
			break
		}
	}
	stop()
	require.NoError(t, <-served)
	assert.Equal(t, "question order?1 of run order-1 is answered; a runner with program order continues the run\n", call(t, dir, "answer", "order-1", "order?1", "true").text(t))
}

func TestRunsAreListedByReason(t *testing.T) {
	dir := t.TempDir()
	fail(t, dir, "failed", false)
	weather(t, dir, "exhausted", true, snapshot.Metadata{})
	refund(t, dir, "cancelled")
	call(t, dir, "cancel", "cancelled").text(t)
	for reason, want := range map[string]string{"permanent": "failed", "exhausted": "exhausted", "cancel": "cancelled"} {
		got := call(t, dir, "runs", "--reason", reason).text(t)
		assert.Contains(t, got, want)
		assert.Equal(t, 2, strings.Count(got, "\n"), "one run and the header: %s", got)
	}
	assert.Equal(t, result{0, "", "no runs\n"}, call(t, dir, "runs", "--reason", "crash"))

	damage(t, dir, "failed")
	got := call(t, dir, "runs", "--reason", "exhausted")
	assert.Equal(t, exitFailure, got.code)
	assert.Contains(t, got.stdout, "exhausted", "the other runs are listed")
	assert.Regexp(t, "^reprise: run failed is damaged: .*; `reprise repair failed` saves what can be read\n$", got.stderr)
}

// fail calls a tool in a run that was not started by a runner. The tool fails unless mended is set.
func fail(t *testing.T, dir, runID string, mended bool) snapshot.Status {
	t.Helper()
	st, err := state.Open(t.Context(), newStore(t, dir), runID)
	require.NoError(t, err)
	ask := define(t, record.KindTool, "ask", func(context.Context, int) (string, error) {
		if !mended {
			return "", core.Permanent(errors.New("no API key"))
		}
		return "sunny", nil
	})
	_, _ = ask.Event().Execute(st.Context(t.Context()), 5)
	require.NoError(t, st.Close())
	return st.Status()
}

func TestRetryOfARunWithoutARunnerIsLeftToItsProgram(t *testing.T) {
	dir := t.TempDir()
	require.Equal(t, snapshot.StatusFailed, fail(t, dir, "k1", false))
	require.Equal(t, snapshot.StatusFailed, fail(t, dir, "k1", true))
	assert.Contains(t, call(t, dir, "show", "k1").text(t), "to retry the failed calls: reprise")
	for range 2 {
		assert.Equal(t, "run k1 is interrupted: its program tries the failed calls again when it opens the run\n", call(t, dir, "retry", "k1").text(t))
	}
	assert.JSONEq(t, `{"run_id":"k1","status":"interrupted"}`, call(t, dir, "retry", "k1", "--json").text(t))
	assert.Contains(t, call(t, dir, "runs").text(t), "retry: its program tries the failed calls again when it opens the run")
	require.Equal(t, snapshot.StatusCompleted, fail(t, dir, "k1", true))
}

// A countingStore counts how often the records of a run are read.
type countingStore struct {
	snapshot.Store
	reads int
}

func (s *countingStore) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	s.reads++
	return s.Store.Load(ctx, runID)
}

func (s *countingStore) Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error] {
	s.reads++
	return s.Store.Records(ctx, runID, after)
}

func TestRecordsOfAPausedRunAreReadOnce(t *testing.T) {
	dir := t.TempDir()
	_, err := refund(t, dir, "r7")
	require.ErrorIs(t, err, core.ErrAwaiting)
	s := &countingStore{Store: newStore(t, dir)}
	waits, _, err := waiting.For(t.Context(), s, "r7")
	require.NoError(t, err)
	assert.Equal(t, "1 answer", waits)
	assert.Equal(t, 1, s.reads)
}
