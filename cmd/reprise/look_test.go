package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
	"github.com/reprise-go/reprise/state"
)

func TestRunsAreListedWithTheLastUpdatedFirst(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "first", true, snapshot.Metadata{Pipeline: "weather", Tags: []string{"a", "b"}})
	weather(t, dir, "second", false, snapshot.Metadata{Tags: []string{"\x1b[31mred"}})
	refund(t, dir, "third")
	call(t, dir, "cancel", "third", "--by", "ops", "--message", "not \x1b[31mnow").text(t)
	want := `RUN     STATUS     UPDATED               RECORDS  PIPELINE  TAGS         STOPPED
third   cancelled  2026-01-31T08:00:00Z  6        -         -            by ops: not \x1b[31mnow
second  completed  2026-01-31T08:00:00Z  12       -         \x1b[31mred  -
first   failed     2026-01-31T08:00:00Z  14       weather   a, b         -
`
	got := timeless(call(t, dir, "runs").text(t))
	assert.Equal(t, want, got)
	assert.NotContains(t, got, "\x1b")
	got = timeless(call(t, dir, "runs", "--status", "completed,failed", "--limit", "1").text(t))
	assert.Equal(t, "RUN     STATUS     UPDATED               RECORDS  TAGS\nsecond  completed  2026-01-31T08:00:00Z  12       \\x1b[31mred\n", got)
}

func TestLongStopIsCutInTheTableOfRuns(t *testing.T) {
	dir := t.TempDir()
	refund(t, dir, "r1")
	long := "the program differs: " + strings.Repeat("ü", 200)
	call(t, dir, "cancel", "r1", "--by", "ops", "--message", long).text(t)
	want := "RUN  STATUS     UPDATED               RECORDS  STOPPED\n" +
		"r1   cancelled  2026-01-31T08:00:00Z  6        by ops: the program differs: " + strings.Repeat("ü", 50) + "…\n"
	assert.Equal(t, want, timeless(call(t, dir, "runs").text(t)))
	assert.Contains(t, call(t, dir, "runs", "--json").text(t), long)
}

func TestPausedRunsShowWhatTheyWaitFor(t *testing.T) {
	dir := t.TempDir()
	pause := func(runID string, handler core.Handler[int, bool], beforeClose func(snapshot.Store)) {
		store := newStore(t, dir)
		st, err := state.Open(t.Context(), store, runID, state.WithParking(time.Minute))
		require.NoError(t, err)
		_, err = define(t, record.KindTool, "wait", handler).Event().Execute(st.Context(t.Context()), 5)
		require.ErrorIs(t, err, core.ErrInterrupted)
		beforeClose(store)
		require.NoError(t, st.Close())
	}
	nothing := func(snapshot.Store) {}
	refund(t, dir, "open")
	refund(t, dir, "ready")
	call(t, dir, "answer", "ready", "refund?1", "true").text(t)
	pause("asleep", func(ctx context.Context, _ int) (bool, error) { return true, core.Sleep(ctx, time.Hour) }, nothing)
	pause("answered", func(ctx context.Context, _ int) (bool, error) { return core.Await[bool](ctx, "well?") }, func(store snapshot.Store) {
		require.NoError(t, state.Answer(t.Context(), store, "answered", "wait?1", "ann", true))
	})
	pause("default", func(ctx context.Context, _ int) (bool, error) {
		return core.Await(ctx, "well?", core.AwaitDefault(time.Hour, true))
	}, nothing)
	runs := timeless(call(t, dir, "runs").text(t))
	for id, want := range map[string]string{
		"open": "1 answer", "ready": "its program", "answered": "its program", "asleep": "2026-01-31T08:00:00Z", "default": "1 answer or 2026-01-31T08:00:00Z",
	} {
		assert.Regexp(t, `(?m)^`+id+` +paused +\S+ +\d+  +`+want+`$`, runs)
	}
}

func TestRunWhoseMessagesCannotBeReadDoesNotEndTheList(t *testing.T) {
	dir := t.TempDir()
	refund(t, dir, "bad")
	refund(t, dir, "good")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", "bad", "inbox"), nil, 0o600))
	got := call(t, dir, "runs")
	assert.Equal(t, exitFailure, got.code)
	assert.Regexp(t, `(?m)^bad +paused .* \?$`, got.stdout)
	assert.Regexp(t, `(?m)^good +paused .* 1 answer$`, got.stdout)
	assert.Regexp(t, "^reprise: inbox of run bad: .*\n$", got.stderr)
	got = call(t, dir, "verify")
	assert.Equal(t, exitFailure, got.code)
	assert.Regexp(t, `(?m)^BAD      bad: inbox of run bad: `, got.stdout)
	assert.Equal(t, "reprise: 1 of 2 runs damaged or unreadable\n", got.stderr)
}

// Times do not depend on the zone of the user.
func TestTimesAreInUTCAndThoseOfTheCommand(t *testing.T) {
	dir := t.TempDir()
	st, err := state.Open(t.Context(), newStore(t, dir), "r1", state.WithParking(time.Minute))
	require.NoError(t, err)
	_, err = define(t, record.KindTool, "wait", func(ctx context.Context, _ int) (bool, error) {
		return core.Await(ctx, "well?", core.AwaitDefault(time.Hour, true))
	}).Event().Execute(st.Context(t.Context()), 5)
	require.ErrorIs(t, err, core.ErrInterrupted)
	require.NoError(t, st.Close())
	zone := time.Local
	defer func() { time.Local = zone }()
	time.Local = time.FixedZone("", 3600)
	assert.Regexp(t, `well\? \(until \S+Z\)`, call(t, dir, "questions", "r1").text(t))
	assert.Contains(t, callWith(t, dir, later(2*time.Hour), "runs").text(t), "its program")
}

func TestRunsHaveTheTokensOfTheirCalls(t *testing.T) {
	dir := t.TempDir()
	used := record.Usage{InputTokens: 120, OutputTokens: 5, Cost: 0.25}
	model := define(t, record.KindLLM, "model", func(ctx context.Context, in string) (string, error) {
		core.AddUsage(ctx, used)
		return in, nil
	})
	st, err := state.Open(t.Context(), newStore(t, dir), "chat")
	require.NoError(t, err)
	_, err = model.Event().Execute(st.Context(t.Context()), "hello")
	require.NoError(t, err)
	require.NoError(t, st.Close())

	assert.Regexp(t, `RECORDS +TOKENS +COST\n`, call(t, dir, "runs").text(t))
	assert.Contains(t, call(t, dir, "runs").text(t), "  125     0.25\n")
	assert.Contains(t, call(t, dir, "show", "chat").text(t), "Tokens: 125 (120 in, 5 out)")
	var infos []snapshot.Info
	require.NoError(t, json.Unmarshal([]byte(call(t, dir, "runs", "--json").text(t)), &infos))
	require.Len(t, infos, 1)
	assert.Equal(t, used, infos[0].Usage)
	var shown snapshot.Info
	require.NoError(t, json.Unmarshal([]byte(call(t, dir, "show", "chat", "--json").text(t)), &shown))
	assert.Equal(t, used, shown.Usage)
}

func TestFiltersPickRuns(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "first", true, snapshot.Metadata{Pipeline: "weather", Tags: []string{"a", "b"}})
	weather(t, dir, "second", false, snapshot.Metadata{Tags: []string{"b"}})
	refund(t, dir, "third")
	tomorrow := time.Now().Add(24 * time.Hour).Format(time.RFC3339)
	for _, c := range []struct{ flags, want string }{
		{"", "third second first"},
		{"--status failed", "first"},
		{"--status failed,paused", "third first"},
		{"--status failed --status completed", "second first"},
		{"--status interrupted", ""},
		{"--tag b", "second first"},
		{"--tag a --tag b", "first"},
		{"--pipeline weather", "first"},
		{"--since 1h", "third second first"},
		{"--since 0s", ""},
		{"--until 1d", ""},
		{"--since 2d --until " + tomorrow, "third second first"},
		{"--since " + tomorrow, ""},
		{"--limit 2", "third second"},
		{"--reason exhausted", "first"},
		{"--reason exhausted --limit 1", "first"},
		{"--reason exhausted --status completed", ""},
		{"--reason permanent", ""},
	} {
		t.Run(c.flags, func(t *testing.T) {
			out := call(t, dir, append([]string{"runs", "--json"}, strings.Fields(c.flags)...)...).text(t)
			var infos []snapshot.Info
			require.NoError(t, json.Unmarshal([]byte(out), &infos))
			ids := []string{}
			for _, in := range infos {
				ids = append(ids, in.RunID)
			}
			assert.Equal(t, c.want, strings.Join(ids, " "))
			assert.NotContains(t, out, "null")
		})
	}
	none := call(t, dir, "runs", "--tag", "c")
	assert.Equal(t, result{exitOK, "", "no runs\n"}, none)
}

func TestInvalidFiltersAreUsageErrors(t *testing.T) {
	dir := t.TempDir()
	newStore(t, dir)
	call(t, dir, "runs", "--status", "done").failed(t, exitUsage,
		`--status "done": want one of queued, running, paused, interrupted, completed, failed, cancelled`)
	for _, value := range []string{"yesterday", "-1h", "2026-13-01T00:00:00Z", "99999999999d", "d", "24"} {
		call(t, dir, "runs", "--since="+value).failed(t, exitUsage,
			`--since "`+value+`": want a time such as 2026-01-31T08:00:00Z, or an age such as 90s, 24h or 7d`)
	}
	call(t, dir, "runs", "--limit", "-1").failed(t, exitUsage, "--limit -1: want 1 or more, or 0 for all")
}

func TestUnreadableRunsAreListedAsSuch(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "good", false, snapshot.Metadata{})
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "runs", "bad"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", "bad", "00000001.snapshot"), []byte("hello"), 0o600))
	got := call(t, dir, "runs")
	assert.Equal(t, exitFailure, got.code)
	assert.Contains(t, got.stdout, "unreadable")
	assert.Contains(t, got.stdout, "good")
	const damaged = "reprise: run bad is damaged: 00000001.snapshot, byte 0, after record 0: it does not begin like a snapshot\n"
	assert.Equal(t, damaged+"1 run cannot be read; `reprise verify` says why\n", got.stderr)

	require.NoError(t, os.MkdirAll(filepath.Join(dir, "runs", "worse", "00000001.snapshot"), 0o700))
	got = call(t, dir, "runs")
	assert.Equal(t, exitFailure, got.code)
	assert.Regexp(t, `(?m)^worse +unreadable`, got.stdout)
	assert.Regexp(t, "^"+damaged+"reprise: run worse: read run worse: .*it is not a file; want a file\n2 runs cannot be read; `reprise verify` says why\n$", got.stderr)
	inJSON := call(t, dir, "runs", "--json")
	assert.Equal(t, exitFailure, inJSON.code)
	assert.Empty(t, inJSON.stderr)
	assert.Equal(t, 2, strings.Count(inJSON.stdout, `"unreadable"`))
	assert.Contains(t, call(t, dir, "verify").stdout, "BAD      worse: read run worse: ")
}

// The meta file of a run whose process was killed is whole, even if its journal is damaged.
func TestDamagedCrashedRunIsListedAsUnreadable(t *testing.T) {
	dir, killed := t.TempDir(), t.TempDir()
	st, err := state.Open(t.Context(), newStore(t, dir), "k1")
	require.NoError(t, err)
	const calls = 5
	tool := define(t, record.KindTool, "tool", func(_ context.Context, i int) (string, error) {
		if i == calls-1 {
			require.NoError(t, os.CopyFS(killed, os.DirFS(dir))) // without the lock: as if the process had ended here
		}
		return "done", nil
	})
	for i := range calls {
		_, err = tool.Event().Execute(st.Context(t.Context()), i)
		require.NoError(t, err)
	}
	require.NoError(t, st.Close())
	assert.Equal(t, result{exitOK, "k1\n", "would delete 1 run\n"}, call(t, killed, "delete", "--status", "interrupted", "--dry-run"))
	damage(t, killed, "k1")

	got := call(t, killed, "runs")
	assert.Equal(t, exitFailure, got.code)
	assert.Regexp(t, `(?m)^k1 +unreadable`, got.stdout)
	assert.Regexp(t, "^reprise: run k1 is damaged: .*\n1 run cannot be read; `reprise verify` says why\n$", got.stderr)
	got = call(t, killed, "runs", "--json")
	assert.Equal(t, exitFailure, got.code)
	assert.Contains(t, got.stdout, `"status": "unreadable"`)
	got = call(t, killed, "delete", "--status", "interrupted", "--dry-run")
	assert.Empty(t, got.stdout)
	assert.Contains(t, got.stderr, "kept 1 run: 1 unreadable\nwould delete 0 runs\n")
}

func TestShowPrintsTheRunWithItsRetries(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", true, snapshot.Metadata{Pipeline: "weather"})
	want := `# weather (run oslo) [STARTED]
@ agent [STARTED]
  * look [STARTED]
  x look [FAILED] (1ms) - the service is down
    ~ Retrying (attempt 2/2) at once...
  * look [STARTED] (retry 2/2)
  + look [COMPLETED after 2 attempts] (1ms total)
    ~ Recovered after 1 retry
  * tell [STARTED]
  x tell [FAILED] (1ms) - the service is down
    ~ Retrying (attempt 2/2) at once...
  * tell [STARTED] (retry 2/2)
  x tell [FAILED] (1ms) - the service is down
  x tell [EXHAUSTED all 2 attempts] (1ms total)
x agent [FAILED] (1ms) - agent/tell: exhausted after 2 attempts: the service is down
x weather (run oslo) [FAILED] (1ms) - agent/tell: exhausted after 2 attempts: the service is down
SUMMARY
`
	got := timeless(call(t, dir, "show", "oslo", "--ascii").text(t))
	assert.True(t, strings.HasPrefix(got, want), got)
	assert.NotContains(t, got, "sunny")
	assert.Contains(t, call(t, dir, "show", "oslo", "--previews").text(t), "sunny")

	var doc struct {
		Status  string
		Records []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(call(t, dir, "show", "oslo", "--json").text(t)), &doc))
	assert.Equal(t, "failed", doc.Status)
	assert.NotEmpty(t, doc.Records)
}

func TestDiffShowsDifferences(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "one", false, snapshot.Metadata{})
	weather(t, dir, "same", false, snapshot.Metadata{})
	weather(t, dir, "two", true, snapshot.Metadata{})
	assert.Equal(t, "no difference\n", call(t, dir, "diff", "one", "same").text(t))

	text := call(t, dir, "diff", "one", "two").text(t)
	assert.Contains(t, text, `~ status "completed" → "failed"`+"\n")
	assert.Contains(t, text, "~ tool_call agent/tell completed → failed (exhausted, attempt 2): ")

	assert.Equal(t, exitOK, call(t, dir, "diff", "--exit-code", "one", "same").code)
	differs := call(t, dir, "diff", "--exit-code", "one", "two")
	assert.Equal(t, result{exitFailure, text, ""}, differs)

	var d difference
	require.NoError(t, json.Unmarshal([]byte(call(t, dir, "diff", "--json", "one", "same").text(t)), &d))
	assert.Equal(t, difference{
		Status: []textChange{}, Metadata: []textChange{}, Retry: []textChange{}, Events: []eventChange{},
		Values: []textChange{}, Artifacts: []textChange{},
	}, d, "empty lists, not null")
	out := call(t, dir, "diff", "--json", "one", "two").text(t)
	assert.Contains(t, out, `"change": "changed"`)
	assert.Contains(t, out, `"change": "removed"`, "the artifact")
}

func TestExportWritesWhatOthersRead(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	found := loadRun(t, dir, "oslo")

	lines := strings.Split(strings.TrimSpace(call(t, dir, "export", "oslo").text(t)), "\n")
	require.Len(t, lines, len(found.Records))
	for i, line := range lines {
		var r struct{ Seq int }
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		assert.Equal(t, i+1, r.Seq)
	}

	file := filepath.Join(t.TempDir(), "oslo.json")
	assert.Empty(t, call(t, dir, "export", "oslo", "--format", "json", "-o", file).text(t))
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, call(t, dir, "export", "oslo", "--format", "json").text(t), string(data))
	assert.Equal(t, call(t, dir, "show", "oslo", "--json").text(t), string(data))
	stat, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), stat.Mode().Perm())

	again, err := snapshot.Decode([]byte(call(t, dir, "export", "oslo", "--format", "msgpack").text(t)))
	require.NoError(t, err)
	assert.Equal(t, found.Info, again.Info)
	assert.Equal(t, len(found.Records), again.Len())

	call(t, dir, "export", "oslo", "--format", "xml").failed(t, exitUsage, `--format "xml": want jsonl, json or msgpack`)
}

func TestLimitedListReachesPastManyCrashedRuns(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	weather(t, dir, "failed", true, snapshot.Metadata{})
	store, err := filestore.New(dir)
	require.NoError(t, err)
	for n := range 40 {
		j, err := store.Open(t.Context(), fmt.Sprint("crashed-", n), snapshot.OpenOptions{Create: true})
		require.NoError(t, err)
		t.Cleanup(func() {
			_ = j.Close(context.WithoutCancel(t.Context()), snapshot.End{Status: snapshot.StatusCompleted})
		})
	}
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir))) // in the copy, no process has the runs open
	assert.Contains(t, call(t, copied, "runs", "--status", "failed", "--limit", "1").text(t), "failed")
	assert.Equal(t, 4, strings.Count(call(t, copied, "runs", "--limit", "3").text(t), "\n"))
}

// If a run's process was killed, the run's records do not show that it has stopped.
func TestShowEndsWithTheStatusOfARunThatHasNotEnded(t *testing.T) {
	dir, killed := t.TempDir(), t.TempDir()
	st, err := state.Open(t.Context(), newStore(t, dir), "k1")
	require.NoError(t, err)
	tool := define(t, record.KindTool, "tool", func(context.Context, int) (string, error) {
		require.NoError(t, os.CopyFS(killed, os.DirFS(dir))) // without the lock: as if the process had ended here
		return "done", nil
	})
	_, err = tool.Event().Execute(st.Context(t.Context()), 1)
	require.NoError(t, err)
	end := func(dir string) string {
		text := timeless(call(t, dir, "show", "k1").text(t))
		return text[strings.LastIndex(text, "run k1 is "):]
	}
	assert.Equal(t, "run k1 is interrupted (crash), as of 2026-01-31T08:00:00Z\nto continue it: open it again with its program\n", end(killed))
	assert.Equal(t, "run k1 is running, as of 2026-01-31T08:00:00Z\n", end(dir))
	assert.Equal(t, result{exitOK, "", "run k1 has no open questions\n"}, call(t, dir, "questions", "k1"))
	const noQuestions = `run k1 has no open questions
it is interrupted (crash), and may ask about a call in doubt when it continues
to continue it: open it again with its program
`
	assert.Equal(t, result{exitOK, "", noQuestions}, call(t, killed, "questions", "k1"))
	setProgram := func(i *snapshot.Info) error { i.Program = "refund"; return nil }
	_, err = newStore(t, killed).Update(t.Context(), "k1", setProgram)
	require.NoError(t, err)
	assert.Equal(t, "run k1 is interrupted (crash), as of 2026-01-31T08:00:00Z\nto continue it: start a runner with program refund\n", end(killed))
	require.NoError(t, st.Close())
	assert.NotContains(t, call(t, dir, "show", "k1").text(t), "as of", "it has completed")

	refund(t, dir, "k2")
	assert.Contains(t, call(t, dir, "show", "k2").text(t), "run k2 is paused, as of ")
	_, err = newStore(t, dir).Update(t.Context(), "k2", func(i *snapshot.Info) error {
		i.Status, i.Stop = snapshot.StatusInterrupted, snapshot.Stop{Reason: record.InterruptUser, By: "ops", Message: "\x1b[31mdeploy"}
		return nil
	})
	require.NoError(t, err)
	assert.Contains(t, call(t, dir, "show", "k2").text(t), `run k2 is interrupted (by ops: \x1b[31mdeploy), as of `)
	_, err = newStore(t, dir).Update(t.Context(), "k2", setProgram)
	require.NoError(t, err)
	assert.Regexp(t, `\nto continue it: reprise (--dir \S+ )?resume k2\n$`, call(t, dir, "show", "k2").text(t))
	_, err = newStore(t, dir).Update(t.Context(), "k2", func(i *snapshot.Info) error { i.Stop.Reason = record.InterruptDiverge; return nil })
	require.NoError(t, err)
	assert.Regexp(t, `\nto continue it: run a program that makes the recorded calls, and then reprise (--dir \S+ )?resume k2; the same program would stop again\n$`, call(t, dir, "show", "k2").text(t))
	assert.NotContains(t, call(t, dir, "show", "k2", "--redact", "deploy").text(t), "deploy")
}

// A newer version may add fields at the end of a record without changing the version of the format.
func TestExportKeepsFieldsOfANewerVersion(t *testing.T) {
	rec, err := snapshot.AppendRecord(nil, &storetest.Records(1, 1)[0])
	require.NoError(t, err)
	require.Equal(t, []byte{0xdc, 0}, rec[:2], "an array of at most 255 elements")
	rec[2]++
	rec = append(rec, 42)
	run, err := snapshot.NewRun(snapshot.Info{RunID: "newer", Status: snapshot.StatusCompleted, Created: time.Now(), Updated: time.Now()}, nil)
	require.NoError(t, err)
	run, _, err = run.Extend(rec)
	require.NoError(t, err)
	dir := t.TempDir()
	_, err = newStore(t, dir).Create(t.Context(), run)
	require.NoError(t, err)
	for _, data := range []string{call(t, dir, "export", "newer", "--format", "msgpack").text(t), readFile(t, export(t, dir, "newer"))} {
		again, err := snapshot.Decode([]byte(data))
		require.NoError(t, err)
		assert.Equal(t, rec, again.Encoded(1))
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}
