package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/record/redact"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/streamer"
)

// A logLine is a line of a service's log.
type logLine struct {
	Level, Msg, Run, Status, Reason, Error, Call, Stack, Took, Grace string
	Attempt, Open                                                    int
}

// logged serves programs while use is running, and returns what the service logged.
func logged(t *testing.T, o Options, level string, register func(*runner.Runner) error, use func(url string)) []logLine {
	t.Helper()
	var mu sync.Mutex
	var out bytes.Buffer
	log, err := newLog(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	}), level, "json")
	require.NoError(t, err)
	o.Log, o.Runner.Grace = log, -1
	url, stop := served(t, o, register)
	use(url)
	stop()
	var lines []logLine
	for line := range strings.Lines(out.String()) {
		var l logLine
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
		lines = append(lines, l)
	}
	return lines
}

func startRun(t *testing.T, url, program, id string) {
	t.Helper()
	status, body := do(t, "POST", url+"api/runs", `{"program":"`+program+`","run_id":"`+id+`","input":{"text":"hi"}}`)
	require.Equal(t, 201, status, body)
}

func TestFailedRunIsLoggedAsAWarningWithItsRedactedError(t *testing.T) {
	rules, err := redact.New("ink")
	require.NoError(t, err)
	lines := logged(t, Options{Streamer: streamer.Options{Redact: rules}}, "warn", register, func(url string) {
		startRun(t, url, "fail", "f")
		until(t, url, "f", "run_failed")
	})
	require.Len(t, lines, 1)
	assert.Equal(t, logLine{Level: "WARN", Msg: "run closed", Run: "f", Status: "failed", Error: lines[0].Error, Took: lines[0].Took}, lines[0])
	_, err = time.ParseDuration(lines[0].Took)
	assert.NoError(t, err, lines[0].Took)
	assert.Contains(t, lines[0].Error, "out of ")
	assert.NotContains(t, lines[0].Error, "ink")
}

func TestErrorIsRedactedBeforeItIsCut(t *testing.T) {
	rules, err := redact.New("sk-[a-z]{20}")
	require.NoError(t, err)
	l := logger{redact: rules.Text}
	text := l.text(errors.New(strings.Repeat("x", record.MessageLimit-10) + "sk-" + strings.Repeat("a", 20)))
	assert.NotContains(t, text, "sk-a")
}

func TestMessageOfAStopIsRedactedInTheLog(t *testing.T) {
	rules, err := redact.New("sk-[a-z]{20}")
	require.NoError(t, err)
	var out bytes.Buffer
	l := logger{to: slog.New(slog.NewTextHandler(&out, nil)), redact: rules.Text}
	l.notice(&runner.Notice{Type: runner.NoticeClosed, RunID: "a", Stop: snapshot.Stop{By: "ann", Message: "the key sk-" + strings.Repeat("a", 20) + " is public"}})
	assert.Contains(t, out.String(), "is public")
	assert.NotContains(t, out.String(), "sk-a")
}

func TestWhatDiffersIsLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	l := logger{to: slog.New(slog.NewTextHandler(&out, nil))}
	stop := snapshot.Stop{Reason: record.InterruptDiverge, Message: "recorded look, now tell"}
	l.notice(&runner.Notice{Type: runner.NoticeClosed, RunID: "a", Stop: stop, Err: errors.New("divergence: " + stop.Message)})
	assert.Equal(t, 1, strings.Count(out.String(), stop.Message), out.String())
}

func TestRunThatIsOpenedAgainIsLoggedAsResumed(t *testing.T) {
	o := Options{Store: memstore.New()}
	isRunning := func(url string) {
		for body := ""; !strings.Contains(body, `"status":"running"`); {
			_, body = do(t, "GET", url+"api/runs/w", "")
		}
	}
	logged(t, o, "info", register, func(url string) {
		startRun(t, url, "wait", "w")
		isRunning(url)
	})
	lines := logged(t, o, "info", register, isRunning)
	for i := range lines {
		lines[i].Took = ""
	}
	assert.Equal(t, []logLine{
		{Level: "INFO", Msg: "run resumed", Run: "w", Status: "running"},
		{Level: "INFO", Msg: "stopping", Grace: "0s", Open: 1},
		{Level: "INFO", Msg: "run closed", Run: "w", Status: "interrupted", Reason: "shutdown"},
		{Level: "INFO", Msg: "stopped"},
	}, lines)
}

func TestProbeOfAServiceThatStopsIsNoWarning(t *testing.T) {
	var out bytes.Buffer
	l := logger{to: slog.New(slog.NewTextHandler(&out, nil))}
	r, err := runner.New(memstore.New(), runner.Options{})
	require.NoError(t, err)
	l.notReady(r.Ready(t.Context()))
	assert.Contains(t, out.String(), `level=WARN msg="not ready" error="runner: not ready: the runner is starting"`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, r.Serve(ctx))
	out.Reset()
	l.notReady(r.Ready(t.Context()))
	assert.Contains(t, out.String(), `level=INFO msg="not ready" error="runner: not ready: the runner is stopping"`)
}

// TestPanicOfAToolIsLoggedOnceWithItsStack: the panic is logged even if the calls around the tool
// do not fail.
func TestPanicOfAToolIsLoggedOnceWithItsStack(t *testing.T) {
	boom := decorators.Tool("boom", "", func(context.Context, ticket) (string, error) {
		var m map[string]int
		m["x"] = 1 //nolint:govet,staticcheck // panics
		return "", nil
	})
	lines := logged(t, Options{}, "warn", func(r *runner.Runner) error {
		runner.Register(r, decorators.Agent("fragile", "", func(ctx context.Context, in ticket) (string, error) { return boom.Call(ctx, in) }))
		runner.Register(r, decorators.Agent("robust", "", func(ctx context.Context, in ticket) (string, error) {
			_, err := boom.Call(ctx, in)
			assert.Error(t, err)
			return "done", nil
		}))
		return nil
	}, func(url string) {
		startRun(t, url, "fragile", "a")
		until(t, url, "a", "run_failed")
		startRun(t, url, "robust", "b")
		until(t, url, "b", "run_completed")
	})
	require.Len(t, lines, 3)
	for i, run := range map[int]string{0: "a", 2: "b"} {
		l := lines[i]
		assert.Contains(t, l.Stack, "log_test.go:")
		l.Stack = ""
		assert.Equal(t, logLine{
			Level: "ERROR", Msg: "a handler panicked", Run: run, Call: map[string]string{"a": "fragile", "b": "robust"}[run] + "/boom",
			Attempt: 1, Error: "panic: assignment to entry in nil map",
		}, l)
	}
	assert.Equal(t, "WARN run closed", lines[1].Level+" "+lines[1].Msg)
	assert.Contains(t, lines[1].Error, "assignment to entry in nil map")
}
