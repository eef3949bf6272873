package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/streamer"
)

type ticket struct {
	Text string `json:"text"`
}

// register registers programs that answer, ask and fail.
func register(r *runner.Runner) error {
	runner.Register(r, decorators.Agent("echo", "", func(_ context.Context, in ticket) (ticket, error) { return in, nil }))
	runner.Register(r, decorators.Agent("ask", "", func(ctx context.Context, _ ticket) (string, error) {
		return core.Await[string](ctx, "who?")
	}))
	runner.Register(r, decorators.Agent("fail", "", func(context.Context, ticket) (string, error) {
		return "", errors.New("out of ink")
	}))
	runner.Register(r, decorators.Agent("wait", "", func(ctx context.Context, _ ticket) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}))
	return nil
}

// begin serves the directory, and returns its URL and what stops it.
func begin(t *testing.T, dir string) (url string, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan string, 1)
	var serving sync.WaitGroup
	serving.Go(func() {
		o := Options{Dir: dir, Addr: "127.0.0.1:0", Ready: func(url string) { ready <- url }, Runner: runner.Options{Grace: -1}}
		assert.NoError(t, Serve(ctx, o, register))
	})
	stop = func() {
		cancel()
		serving.Wait()
	}
	t.Cleanup(stop)
	return <-ready, stop
}

// do makes a request and returns status and body.
func do(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, strings.TrimSpace(string(data))
}

// until follows the run until an event of that name has come.
func until(t *testing.T, url, run, event string) { t.Helper(); untilIn(t, url, run, event, "") }

// untilIn is until for an event of a generation of the run.
func untilIn(t *testing.T, url, run, event, generation string) {
	t.Helper()
	client := &streamer.Client{URL: url, Run: run}
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		if e.Name == event && strings.HasPrefix(e.ID, generation) {
			return
		}
	}
}

func TestRunsAreStartedAnsweredAndStoppedOverHTTP(t *testing.T) {
	dir := t.TempDir()
	url, stop := begin(t, dir)
	status, body := do(t, "GET", url+"api/programs", "")
	assert.Equal(t, 200, status)
	assert.JSONEq(t, `{"programs":["ask","echo","fail","wait"]}`, body)

	status, body = do(t, "POST", url+"api/runs", `{"program":"echo","run_id":"e","input":{"text":"hi"},"tags":["x"]}`)
	require.Equal(t, 200, status, body)
	assert.JSONEq(t, `{"run_id":"e","status":"queued"}`, body)
	until(t, url, "e", "run_completed")
	status, body = do(t, "GET", url+"api/runs/e/result", "")
	assert.Equal(t, 200, status)
	assert.JSONEq(t, `{"run_id":"e","status":"completed","output":{"text":"hi"}}`, body)
	status, _ = do(t, "POST", url+"api/runs", `{"program":"echo","run_id":"e","input":{"text":"hi"}}`)
	assert.Equal(t, 200, status, "again")

	status, _ = do(t, "POST", url+"api/runs", `{"program":"fail","run_id":"f","input":{"text":""}}`)
	require.Equal(t, 200, status)
	until(t, url, "f", "run_failed")
	status, body = do(t, "GET", url+"api/runs/f/result", "")
	assert.Equal(t, 200, status)
	assert.Contains(t, body, "out of ink")
	assert.Contains(t, body, `"failed"`)

	status, _ = do(t, "POST", url+"api/runs", `{"program":"ask","run_id":"a","input":{"text":""}}`)
	require.Equal(t, 200, status)
	until(t, url, "a", "run_paused")
	status, body = do(t, "GET", url+"api/runs/a/result", "")
	assert.Equal(t, 409, status, body)
	for value, want := range map[string]string{
		"7": "got an integer, want a string", "null": "got null, want a string", `{"name":"Ada"}`: "got an object, want a string",
		strings.Repeat("[", 9000) + strings.Repeat("]", 9000): "deep",
	} {
		status, body = do(t, "POST", url+"api/runs/a/answer", `{"question":"ask?1","value":`+value+`}`)
		assert.Equal(t, 400, status, body)
		assert.Contains(t, body, want)
	}
	status, body = do(t, "POST", url+"api/runs/a/answer", `{"question":"ask?1","value":"Ada"}`)
	assert.Equal(t, 200, status, body)
	until(t, url, "a", "run_completed")
	_, body = do(t, "GET", url+"api/runs/a/result", "")
	assert.JSONEq(t, `{"run_id":"a","status":"completed","output":"Ada"}`, body)

	for _, id := range []string{"w", "c"} {
		status, _ = do(t, "POST", url+"api/runs", `{"program":"wait","run_id":"`+id+`","input":{"text":""}}`)
		require.Equal(t, 200, status)
		until(t, url, id, "started")
	}
	status, _ = do(t, "POST", url+"api/runs/w/interrupt", `{"message":"lunch"}`)
	assert.Equal(t, 200, status)
	until(t, url, "w", "run_interrupted")
	status, body = do(t, "POST", url+"api/runs/w/resume", `{}`)
	assert.Equal(t, 200, status, body)
	untilIn(t, url, "w", "started", "2-")
	status, _ = do(t, "POST", url+"api/runs/c/cancel", `{"by":"ann","message":"wrong customer"}`)
	assert.Equal(t, 200, status)
	until(t, url, "c", "run_cancelled")
	_, body = do(t, "GET", url+"api/runs/c/result", "")
	assert.JSONEq(t, `{"run_id":"c","status":"cancelled","error":"run c was cancelled by ann: wrong customer"}`, body)
	_, body = do(t, "GET", url+"api/runs/c", "")
	assert.Contains(t, body, `"stop":{"reason":"cancel","by":"ann","message":"wrong customer"}`)
	status, _ = do(t, "POST", url+"api/runs/c/resume", `{}`)
	assert.Equal(t, 409, status)

	var vars struct{ Reprise runner.Stats }
	_, body = do(t, "GET", url+"debug/vars", "")
	require.NoError(t, json.Unmarshal([]byte(body), &vars), body)
	assert.EqualValues(t, 5, vars.Reprise.Started)

	stop()
	url, _ = begin(t, dir)
	untilIn(t, url, "w", "started", "3-") // it goes on
	_, body = do(t, "GET", url+"api/runs/e/result", "")
	assert.Contains(t, body, "hi")
}

func TestBadRequestsStartNothing(t *testing.T) {
	url, _ := begin(t, t.TempDir())
	for body, want := range map[string]struct {
		status int
		text   string
	}{
		`{"program":"other","input":{}}`:                         {404, "want one of [ask echo fail wait]"},
		`{"program":"echo","version":"7","input":{"text":""}}`:   {404, `no version \"7\" of program \"echo\"`},
		`{"program":"echo","input":{"text":7}}`:                  {400, "text"},
		`{"program":"echo","input":{"txet":"x"}}`:                {400, "txet"},
		`{"program":"echo"}`:                                     {400, "program and input are needed"},
		`{"input":{}}`:                                           {400, "program and input are needed"},
		`{"program":"echo","input":{"text":""},"run_id":"../x"}`: {400, "not allowed"},
		`{"program":"echo","input":{"text":""},"colour":"red"}`:  {400, "colour"},
		`{"program":"echo","input":{"text":""},"at":"tomorrow"}`: {400, "body"},
		`nonsense`: {400, "body"},
	} {
		status, text := do(t, "POST", url+"api/runs", body)
		assert.Equal(t, want.status, status, body)
		assert.Contains(t, text, want.text, body)
	}
	resp, err := http.Post(url+"api/runs", "text/plain", strings.NewReader(`{"program":"echo","input":{"text":""}}`))
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, http.StatusUnsupportedMediaType, resp.StatusCode)
	req, err := http.NewRequestWithContext(t.Context(), "POST", url+"api/runs", strings.NewReader(`{"program":"echo","input":{"text":""}}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", "https://evil.example")
	resp, err = http.DefaultClient.Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, http.StatusForbidden, resp.StatusCode)
	_, body := do(t, "GET", url+"api/runs", "")
	assert.Contains(t, body, `"runs":[]`)
	status, _ := do(t, "GET", url+"api/runs/none/result", "")
	assert.Equal(t, 404, status)
	status, _ = do(t, "POST", url+"api/runs/none/resume", "{}")
	assert.Equal(t, 404, status)
}

func TestAddressThatOthersReachIsRefused(t *testing.T) {
	for _, addr := range []string{":8080", "0.0.0.0:0", "example.com:80", "here"} {
		err := Serve(t.Context(), Options{Dir: t.TempDir(), Addr: addr}, register)
		assert.ErrorContains(t, err, "want a", addr)
	}
}

func TestAnErrorOfRegisterEndsTheService(t *testing.T) {
	err := Serve(t.Context(), Options{Dir: t.TempDir(), Addr: "127.0.0.1:0"}, func(r *runner.Runner) error {
		runner.Register(r, decorators.Agent("echo", "", func(_ context.Context, in ticket) (ticket, error) { return in, nil }))
		return r.Schedule("echo", ticket{}, runner.Schedule{Name: "daily", Cron: "at dawn"})
	})
	assert.ErrorContains(t, err, "at dawn")
}

func TestFlags(t *testing.T) {
	var out bytes.Buffer
	o, err := parse([]string{"bin/agents", "-dir", "d", "-addr", "localhost:0", "-limit", "7", "-grace", "3s"}, &out)
	require.NoError(t, err)
	assert.Equal(t, Options{Dir: "d", Addr: "localhost:0", Runner: runner.Options{Limit: 7, Grace: 3 * time.Second}}, o)
	_, err = parse([]string{"agents", "more"}, &out)
	assert.ErrorContains(t, err, "takes no arguments")
	_, err = parse([]string{"agents", "-limit", "many"}, &out)
	assert.Error(t, err)
	assert.Contains(t, out.String(), "-limit")
}

func TestRunsAreKeptInTheStoreThatIsGiven(t *testing.T) {
	store := memstore.New()
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan string, 1)
	var serving sync.WaitGroup
	serving.Go(func() {
		assert.NoError(t, Serve(ctx, Options{Store: store, Addr: "127.0.0.1:0", Ready: func(url string) { ready <- url }}, register))
	})
	defer serving.Wait()
	defer cancel()
	url := <-ready
	status, body := do(t, "POST", url+"api/runs", `{"program":"echo","run_id":"e","input":{"text":"hi"}}`)
	require.Equal(t, 200, status, body)
	until(t, url, "e", "run_completed")
	info, err := store.Info(t.Context(), "e")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusCompleted, info.Status)
}
