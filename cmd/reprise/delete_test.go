package main

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/caller"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// ids returns the IDs of all runs in dir, most recently updated first.
func ids(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	for info, err := range snapshot.Runs(t.Context(), newStore(t, dir), snapshot.Filter{}) {
		require.NoError(t, err)
		all = append(all, info.RunID)
	}
	return strings.Join(all, " ")
}

// later makes an environment whose clock is ahead by d.
func later(d time.Duration) func(*environment) {
	return func(env *environment) { env.now = func() time.Time { return time.Now().Add(d) } }
}

func TestSeveralRunsAreDeleted(t *testing.T) {
	dir := t.TempDir()
	for _, id := range []string{"a", "b", "c", "d"} {
		weather(t, dir, id, false, snapshot.Metadata{})
	}
	call(t, dir, "delete", "a", "nobody").failed(t, exitFailure, noRun("nobody", dir))
	assert.Equal(t, result{exitOK, "deleted a\ndeleted b\n", "Delete 2 runs permanently? [y/N] "}, callWith(t, dir, atTerminal("y\n"), "delete", "a", "b"))
	assert.Equal(t, result{exitFailure, "deleted c\n", "reprise: " + noRun("nobody", dir) + "\n"}, call(t, dir, "delete", "-y", "nobody", "c"))
	assert.Equal(t, "d", ids(t, dir))
	got := call(t, dir, "delete", "-y", "nobody", "d", "--json")
	assert.Equal(t, exitFailure, got.code)
	assert.JSONEq(t, `[{"run_id":"nobody","error":"`+noRun("nobody", dir)+`"},{"run_id":"d"}]`, got.stdout)
	assert.Empty(t, got.stderr)
}

func TestSelectedRunsAreDeleted(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "failed", true, snapshot.Metadata{})
	weather(t, dir, "tagged", false, snapshot.Metadata{Tags: []string{"nightly"}})
	weather(t, dir, "done", false, snapshot.Metadata{})
	refund(t, dir, "paused")
	const all = "paused done tagged failed"

	assert.Equal(t, result{exitOK, "", "would delete 0 runs\n"}, call(t, dir, "delete", "--older", "1h", "--dry-run"))
	assert.Equal(t, result{exitOK, "", "no runs\n"}, call(t, dir, "delete", "--older", "1h"))
	assert.Equal(t, result{exitOK, "done\ntagged\nfailed\n", "would delete 3 runs\n"}, callWith(t, dir, later(2*time.Hour), "delete", "--older", "1h", "--dry-run"))
	assert.JSONEq(t, `{"would_delete":["tagged"]}`, call(t, dir, "delete", "--tag", "nightly", "--dry-run", "--json").text(t))
	assert.JSONEq(t, `{"would_delete":[]}`, call(t, dir, "delete", "--tag", "other", "--dry-run", "--json").text(t))
	assert.Equal(t, "[]\n", call(t, dir, "delete", "--tag", "other", "--json").text(t))
	call(t, dir, "delete", "--older", "0s").failed(t, exitFailure, "no terminal to ask for confirmation; --yes deletes without asking")
	assert.Equal(t, result{exitFailure, "", "Delete 3 runs permanently? [y/N] reprise: nothing was deleted\n"}, callWith(t, dir, atTerminal("n\n"), "delete", "--older", "0s"))
	require.Equal(t, all, ids(t, dir))

	assert.Equal(t, "deleted failed\n", call(t, dir, "delete", "--status", "failed", "--yes").text(t))
	assert.Equal(t, "deleted done\ndeleted tagged\n", callWith(t, dir, later(2*time.Hour), "delete", "--older", "1h", "--yes").text(t))
	assert.Equal(t, result{exitOK, "deleted paused\n", "Delete 1 run permanently (1 not ended)? [y/N] "}, callWith(t, dir, atTerminal("y\n"), "delete", "--status", "paused,completed"))
	assert.Empty(t, ids(t, dir))
}

func TestDeleteNeedsRunsOrFlags(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "a", false, snapshot.Metadata{})
	call(t, dir, "delete", "--yes").failed(t, exitUsage, "RUN is missing: name runs, or select runs with --status, --program, --older or other flags")
	call(t, dir, "delete", "--dry-run").failed(t, exitUsage, "RUN is missing: name runs, or select runs with --status, --program, --older or other flags")
	call(t, dir, "delete", "a", "--older", "1h").failed(t, exitUsage, "RUN a and --older, which selects runs: want one or the other")
	call(t, dir, "delete", "a", "--dry-run").failed(t, exitUsage, "RUN a and --dry-run, which shows what flags select: want one or the other")
	call(t, dir, "delete", "--older", "2026-01-31T08:00:00Z").failed(t, exitUsage, `--older "2026-01-31T08:00:00Z": want an age such as 90s, 24h or 7d`)
	assert.Contains(t, call(t, dir, "delete", "--older", "1h", "--until", "1h").stderr, "if any flags in the group [older until] are set none of the others can be")
	assert.Equal(t, "a", ids(t, dir))
}

// The value is empty if a script's variable is not set.
func TestAnEmptyFilterSelectsNothing(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "a", true, snapshot.Metadata{})
	for _, flag := range []string{"status", "tag", "pipeline", "program", "version", "since", "until", "older"} {
		call(t, dir, "delete", "--yes", "--"+flag+"=").failed(t, exitUsage, "--"+flag+" is empty; give it a value, or leave it out")
	}
	call(t, dir, "delete", "--yes", "--older", "0s", "--program", "").failed(t, exitUsage, "--program is empty; give it a value, or leave it out")
	for _, line := range []string{"retry --reason permanent --program=", "resume --since 1h --reason=", "runs --reason=", "questions --tag a --tag="} {
		got := call(t, dir, strings.Fields(line)...)
		assert.Equal(t, exitUsage, got.code, line)
		assert.Contains(t, got.stderr, " is empty; give it a value, or leave it out\n", line)
	}
	assert.Equal(t, "a", ids(t, dir))
}

func TestDeleteBySelectionKeepsWhatIsNeeded(t *testing.T) {
	dir := t.TempDir()
	store := newStore(t, dir)
	turn := snapshot.Metadata{Tags: []string{"conversation:ann"}}
	var called snapshot.Metadata
	caller.Caller{RunID: "calling", Signal: "s"}.AddTo(&called)
	weather(t, dir, "ann-0001", false, turn)
	weather(t, dir, "ann-0002", true, turn)
	weather(t, dir, "ann-0003", false, turn)
	weather(t, dir, "called", false, called)
	refund(t, dir, "calling")
	weather(t, dir, "pinned", false, snapshot.Metadata{})
	_, err := store.Update(t.Context(), "pinned", func(i *snapshot.Info) error { i.Pinned = true; return nil })
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "runs", "bad"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", "bad", "00000001.snapshot"), []byte("hello"), 0o600))
	open, err := state.Open(t.Context(), store, "open")
	require.NoError(t, err)

	got := call(t, dir, "delete", "--status", "completed,interrupted", "--dry-run")
	assert.Equal(t, exitOK, got.code)
	assert.Equal(t, "ann-0003\n", got.stdout)
	assert.Contains(t, got.stderr, "kept 4 runs: 1 pinned, 2 may be read by other runs, 1 unreadable\nwould delete 1 run\n")

	got = call(t, dir, "delete", "--status", "running,completed,failed", "-y")
	assert.Equal(t, exitFailure, got.code)
	assert.Equal(t, "deleted ann-0003\ndeleted ann-0002\ndeleted ann-0001\n", got.stdout, "the failed turn is deleted, too")
	assert.Contains(t, got.stderr, "reprise: run open is open for writing in process ")
	require.NoError(t, open.Close())
	call(t, dir, "cancel", "calling").text(t)
	assert.Contains(t, call(t, dir, "delete", "--older", "0s", "-y").stdout, "deleted called\n")
}

func TestRunThatChangesAfterItWasSelectedIsKept(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "a", true, snapshot.Metadata{})
	weather(t, dir, "b", false, snapshot.Metadata{})
	got := callWith(t, dir, func(env *environment) {
		env.stdin, env.terminal = readerFunc(func(p []byte) (int, error) {
			call(t, dir, "retry", "a").text(t)
			return copy(p, "y\n"), nil
		}), true
	}, "delete", "--older", "0s")
	assert.Equal(t, exitFailure, got.code)
	assert.Equal(t, "deleted b\n", got.stdout)
	assert.Equal(t, "Delete 2 runs permanently? [y/N] reprise: run a: it has changed since it was selected, and is kept\n", got.stderr)
	assert.Equal(t, "a", ids(t, dir))
}

// The turns before a failed turn are needed once it is retried.
func TestTurnsAreKeptIfALaterOneIsRetriedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	turn := snapshot.Metadata{Tags: []string{"conversation:ann"}}
	weather(t, dir, "ann-0001", false, turn)
	weather(t, dir, "ann-0002", true, turn)
	weather(t, dir, "other", false, snapshot.Metadata{})
	got := callWith(t, dir, func(env *environment) {
		env.stdin, env.terminal = readerFunc(func(p []byte) (int, error) {
			call(t, dir, "retry", "ann-0002").text(t)
			return copy(p, "y\n"), nil
		}), true
	}, "delete", "--older", "0s")
	assert.Equal(t, exitFailure, got.code)
	assert.Equal(t, "deleted other\n", got.stdout)
	assert.Equal(t, "Delete 3 runs permanently? [y/N] reprise: run ann-0002: it has changed since it was selected, and is kept\n"+
		"reprise: run ann-0001: another run may read it by now, so it is kept\n", got.stderr)
	assert.Equal(t, "ann-0002 ann-0001", ids(t, dir))
}

func TestInterruptedDeletionSaysWhatWasDeleted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout strings.Builder
	a := &app{environment: &environment{}, out: bufio.NewWriter(&stdout), json: true}
	err := a.deleteEach(ctx, []string{"a", "b"}, func(ctx context.Context, runID string) error {
		if runID == "b" {
			cancel()
		}
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, a.out.Flush())
	assert.JSONEq(t, `[{"run_id":"a"}]`, stdout.String())
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
