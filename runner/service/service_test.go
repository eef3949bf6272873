package service

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record/redact"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/streamer"
)

type ticket struct {
	Text string `json:"text"`
}

// register registers programs that answer, ask a question, fail and wait.
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

// begin serves the directory, and returns the URL of the service and a function that
// stops it.
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

// do makes a request and returns the status and the body of the response.
func do(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	return send(t, req)
}

// send sends a request and returns the status and the body of the response.
func send(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, strings.TrimSpace(string(data))
}

// until follows the run until an event with the given name arrives.
func until(t *testing.T, url, run, event string) { t.Helper(); untilIn(t, url, run, event, "") }

// untilIn is like until, but for an event in the given generation of the run.
func untilIn(t *testing.T, url, run, event, generation string) {
	t.Helper()
	client := &streamer.Client{URL: url, Run: run}
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		if e.Name == event && strings.Contains(e.ID, "."+generation) {
			return
		}
	}
}

func TestRunsAreStartedAnsweredAndStoppedOverHTTP(t *testing.T) {
	dir := t.TempDir()
	url, stop := begin(t, dir)
	status, body := do(t, "GET", url+"api/programs", "")
	assert.Equal(t, 200, status)
	var list struct{ Programs []streamer.Program }
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	var names []string
	for _, p := range list.Programs {
		names = append(names, p.Name)
		assert.Equal(t, []string{"1"}, p.Versions)
	}
	assert.Equal(t, []string{"ask", "echo", "fail", "wait"}, names)
	assert.Contains(t, string(list.Programs[1].Input), `"text"`)

	status, body = do(t, "POST", url+"api/runs", `{"program":"echo","run_id":"e","input":{"text":"hi"},"tags":["x"]}`)
	require.Equal(t, 201, status, body)
	assert.JSONEq(t, `{"run_id":"e","status":"queued"}`, body)
	until(t, url, "e", "run_completed")
	status, body = do(t, "GET", url+"api/runs/e/result", "")
	assert.Equal(t, 200, status)
	assert.JSONEq(t, `{"run_id":"e","status":"completed","output":{"text":"hi"}}`, body)
	status, _ = do(t, "POST", url+"api/runs", `{"program":"echo","run_id":"e","input":{"text":"hi"}}`)
	assert.Equal(t, 200, status, "again")

	status, _ = do(t, "POST", url+"api/runs", `{"program":"fail","run_id":"f","input":{"text":""}}`)
	require.Equal(t, 201, status)
	until(t, url, "f", "run_failed")
	status, body = do(t, "GET", url+"api/runs/f/result", "")
	assert.Equal(t, 200, status)
	assert.Contains(t, body, "out of ink; to make the failed calls again: POST /api/runs/f/retry")
	assert.NotContains(t, body, "--dir")
	assert.Contains(t, body, `"failed"`)

	status, _ = do(t, "POST", url+"api/runs", `{"program":"ask","run_id":"a","input":{"text":""}}`)
	require.Equal(t, 201, status)
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
	status, body = do(t, "POST", url+"api/runs/a/resume", `{}`)
	assert.Equal(t, 409, status, body)
	assert.JSONEq(t, `{"error":{"code":"conflict","message":"it is paused and waits for 1 answer; to answer: POST /api/runs/a/answer"}}`, body)
	status, body = do(t, "POST", url+"api/runs/a/answer", `{"question":"ask?1","value":"Ada"}`)
	assert.Equal(t, 200, status, body)
	until(t, url, "a", "run_completed")
	_, body = do(t, "GET", url+"api/runs/a/result", "")
	assert.JSONEq(t, `{"run_id":"a","status":"completed","output":"Ada"}`, body)

	for _, id := range []string{"w", "c"} {
		status, _ = do(t, "POST", url+"api/runs", `{"program":"wait","run_id":"`+id+`","input":{"text":""}}`)
		require.Equal(t, 201, status)
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
	untilIn(t, url, "w", "started", "3-") // the run continues
	_, body = do(t, "GET", url+"api/runs/e/result", "")
	assert.Contains(t, body, "hi")
}

// nested returns a JSON array that is nested to the given depth.
func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

// TestARunOfAServiceStreams: while a call runs, a client receives the call's redacted deltas, even
// if the program watches the call itself.
func TestARunOfAServiceStreams(t *testing.T) {
	seen := make(chan struct{})
	watched := make(chan string, 10)
	ready := make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		o := Options{
			Store: memstore.New(), Addr: "127.0.0.1:0", Ready: func(url string) { ready <- url },
			Runner: runner.Options{Grace: -1, Context: func(ctx context.Context) context.Context {
				return live.Watch(ctx, func(d live.Delta) { watched <- d.Text })
			}},
		}
		o.Streamer.Redact = redact.Func(func(text string) string { return strings.ReplaceAll(text, "s3cret", "[redacted]") })
		assert.NoError(t, Serve(ctx, o, func(r *runner.Runner) error {
			runner.Register(r, decorators.Agent("talk", "", func(ctx context.Context, _ ticket) (string, error) {
				live.Emit(ctx, live.Delta{Part: live.PartProgress, Text: "the key is s3cret"})
				<-seen // the call continues once the client has seen its first part
				return "done", nil
			}))
			return nil
		}))
	})
	defer serving.Wait()
	defer cancel()
	url := <-ready
	status, body := do(t, http.MethodPost, url+"api/runs", `{"program": "talk", "input": {"text": "hi"}, "run_id": "talk-1"}`)
	require.Less(t, status, 300, body)
	require.Equal(t, "the key is s3cret", <-watched)
	client := &streamer.Client{URL: url, Run: "talk-1", Deltas: true}
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		if e.Name == "delta" && strings.Contains(string(e.Data), "progress") {
			require.Contains(t, string(e.Data), "the key is [redacted]")
			break
		}
	}
	close(seen)
	until(t, url, "talk-1", "completed")
}

func TestRequestThatIsCutOffDoesNothing(t *testing.T) {
	url, _ := begin(t, t.TempDir())
	status, body := do(t, "POST", url+"api/runs", `{"program":"wait","run_id":"w","input":{"text":""}}`)
	require.Equal(t, 201, status, body)
	until(t, url, "w", "started")
	start := `{"program":"echo","input":{"text":""}}`
	for name, request := range map[string]string{
		"in the middle":                 "api/runs\n" + fmt.Sprintf("Content-Length: %d\n\n%s", len(start), start[:20]),
		"after the object":              "api/runs\n" + fmt.Sprintf("Content-Length: %d\n\n%s", len(start)+1, start),
		"in the middle of a chunk":      "api/runs\n" + fmt.Sprintf("Transfer-Encoding: chunked\n\n%x\n%s", len(start), start[:20]),
		"between two chunks":            "api/runs\n" + fmt.Sprintf("Transfer-Encoding: chunked\n\n%x\n%s\n", len(start), start),
		"a cancel, before its body":     "api/runs/w/cancel\nContent-Length: 2\n\n",
		"a cancel, before its chunks":   "api/runs/w/cancel\nTransfer-Encoding: chunked\n\n",
		"a cancel, after its object":    "api/runs/w/cancel\nContent-Length: 3\n\n{}",
		"an interrupt, after its chunk": "api/runs/w/interrupt\nTransfer-Encoding: chunked\n\n2\n{}\n",
	} {
		conn, err := net.Dial("tcp", strings.Trim(strings.TrimPrefix(url, "http://"), "/"))
		require.NoError(t, err)
		path, rest, _ := strings.Cut(request, "\n")
		_, err = io.WriteString(conn, strings.ReplaceAll("POST /"+path+" HTTP/1.1\nHost: localhost\nContent-Type: application/json\n"+rest, "\n", "\r\n"))
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, name)
		said, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, 400, resp.StatusCode, name)
		assert.Contains(t, string(said), "cut off", name)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, conn.Close())
	}
	var list streamer.RunList
	_, body = do(t, "GET", url+"api/runs", "")
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	require.Len(t, list.Runs, 1)
	assert.Equal(t, "running", list.Runs[0].Status)
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
		`{"program":"echo","input":{"text":""},"at":"tomorrow"}`: {400, "2026-01-02T15:04:05Z"},
		`nonsense`: {400, "body"},
		`{"program":"echo","input":{"text":""},"at":"9999-01-01T00:00:00Z"}`:          {400, "want a time from 1678 to 2261"},
		`{"program":"echo","input":{"text":""}}}`:                                     {400, "there is more data after the object"},
		`{"program":"echo","input":{"text":""}} {}`:                                   {400, "there is more data after the object"},
		`{"program":"echo","input":{"text":""}`:                                       {400, "not complete"},
		`{"program":"wait","program":"echo","input":{"text":""}}`:                     {400, `\"program\" is given more than once`},
		`{"program":"wait","Program":"echo","input":{"text":""}}`:                     {400, "is given more than once"},
		`{"program":"echo","input":{"text":"a","text":"b"}}`:                          {400, `\"text\" is given more than once`},
		`{"program":"echo","input":{"text":""},"priority":"high"}`:                    {400, "priority is a string; want an integer"},
		`{"program":"echo","input":{"text":""},"tags":"a"}`:                           {400, "tags is a string; want an array of strings"},
		`{"program":[],"input":{}}`:                                                   {400, "program is an array; want a string"},
		`{"program":"echo","input":{},"at":3}`:                                        {400, "a time is not a string; want a string such as"},
		`{"program":"echo","input":null}`:                                             {400, "got null, want an object"},
		`[]`:                                                                          {400, "want an object"},
		`{"program":"echo","input":` + nested(5000) + `}`:                             {400, "nested deeper than 1000 levels"},
		`{"program":"echo","input":` + nested(50_000) + `}`:                           {400, "max depth"},
		"{\"program\":\"echo\",\"input\":{\"text\":\"\xff\"}}":                        {400, "not UTF-8"},
		`{"program":"echo","input":{"text":"` + strings.Repeat("x", 2<<20) + `"}}`:    {413, "more than 1048576 bytes"},
		`{"program":"echo","input":{"text":""}}` + strings.Repeat(" ", 2<<20):         {413, "more than 1048576 bytes"},
		`{"program":"` + strings.Repeat("x", 1<<19) + `","input":{}}`:                 {404, "want one of [ask echo fail wait]"},
		`{"program":"echo","input":{},"run_id":"` + strings.Repeat("x", 1<<19) + `"}`: {400, "has 524288 bytes"},
	} {
		status, text := do(t, "POST", url+"api/runs", body)
		assert.Equal(t, want.status, status, "%.100s", body)
		assert.Contains(t, text, want.text, "%.100s", body)
		assert.Less(t, len(text), 1000, "%.100s", body)
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
	set := map[string]string{"REPRISE_LIMIT": "5", "REPRISE_GRACE": "3s", "REPRISE_MAX_QUEUED": "9"}
	lookup := func(name string) (string, bool) { value, ok := set[name]; return value, ok }
	o, err := parse([]string{"bin/agents", "-dir", "d", "-addr", "localhost:0", "-limit", "7"}, Options{}, lookup, &out)
	require.NoError(t, err)
	require.NotNil(t, o.Log)
	o.Log = nil
	assert.Equal(t, Options{Dir: "d", Addr: "localhost:0", Runner: runner.Options{Limit: 7, Grace: 3 * time.Second, MaxQueued: 9}}, o.Options, "a flag overrides its variable")
	_, err = parse([]string{"agents", "more"}, Options{}, lookup, &out)
	assert.ErrorContains(t, err, "takes no arguments")
	for _, args := range []string{"-log-level loud", "-log-format xml", "-tls-cert x", "-client-ca x", "-tls-cert x -tls-key y", "-tokens nowhere"} {
		_, err = parse(append([]string{"agents"}, strings.Fields(args)...), Options{}, lookup, &out)
		assert.Error(t, err, args)
		assert.Contains(t, out.String(), err.Error())
	}
	set["REPRISE_LIMIT"] = "some"
	_, err = parse([]string{"agents"}, Options{}, lookup, &out)
	assert.ErrorContains(t, err, `invalid value "some" for REPRISE_LIMIT`)
	delete(set, "REPRISE_LIMIT")
	for args, want := range map[string]string{
		"-limit many":     "invalid value \"many\" for flag -limit: want a whole number\n",
		"-grace 5":        "invalid value \"5\" for flag -grace: want a duration, such as 5s or 720h\n",
		"-retain-age 30d": "invalid value \"30d\" for flag -retain-age: want a duration, such as 5s or 720h\n",
		"-grce 5s":        "flag provided but not defined: -grce; -h lists the flags\n",
	} {
		out.Reset()
		_, err = parse(append([]string{"agents"}, strings.Fields(args)...), Options{}, lookup, &out)
		assert.Error(t, err)
		assert.Equal(t, want, out.String(), args)
	}
}

func TestFlagsSetTheRetention(t *testing.T) {
	var out bytes.Buffer
	lookup := func(name string) (string, bool) { return "720h", name == "REPRISE_RETAIN_AGE" }
	ofProgram := runner.Retention{Runs: 5, Every: time.Hour}
	o, err := parse([]string{"agents", "-retain-bytes", "5000000000"}, Options{Runner: runner.Options{Retention: ofProgram}}, lookup, &out)
	require.NoError(t, err)
	assert.Equal(t, runner.Retention{Age: 720 * time.Hour, Runs: 5, Bytes: 5e9, Every: time.Hour}, o.Runner.Retention)

	_, err = parse([]string{"agents", "-retain-bytes", "5GB"}, Options{}, lookup, &out)
	require.ErrorContains(t, err, "want a whole number")
	o, err = parse([]string{"agents", "-dir", t.TempDir(), "-addr", "127.0.0.1:0", "-retain-runs", "-1"}, Options{}, lookup, &out)
	require.NoError(t, err)
	require.ErrorContains(t, Serve(t.Context(), o.Options, func(*runner.Runner) error { return nil }), "Retention.Runs is -1; want 0 or more")
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
	require.Equal(t, 201, status, body)
	until(t, url, "e", "run_completed")
	info, err := store.Info(t.Context(), "e")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusCompleted, info.Status)
}
