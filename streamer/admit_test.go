package streamer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// byToken authorizes a request by its bearer token. The token "all" may see and control all runs,
// "nobody" is refused, and any other token may see only the run whose ID equals the token.
func byToken(req *http.Request) (streamer.Access, error) {
	token, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok:
		return streamer.Access{}, fmt.Errorf("%w: no token", streamer.ErrUnauthenticated)
	case token == "nobody":
		return streamer.Access{}, errors.New("the secret reason")
	case token == "all":
		return streamer.Access{Principal: "admin", Control: true}, nil
	}
	return streamer.Access{Principal: token, Runs: func(id string) bool { return id == token }}, nil
}

// as returns a request with the given token.
func as(t testing.TB, token, method, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req
}

func TestWithoutPermissionNoStreamBegins(t *testing.T) {
	_, server := serve(t, nil, streamer.Options{Authorize: byToken})
	for _, path := range []string{"/", "/events", "/events?run=r", "/api/runs", "/api/runs/r", "/health", "/app.js", "/nothing"} {
		var said refusal
		assert.Equal(t, 401, do(t, as(t, "", http.MethodGet, server.URL+path, ""), &said), path)
		assert.Equal(t, "unauthenticated", said.Error.Code)
		assert.Equal(t, 403, do(t, as(t, "nobody", http.MethodGet, server.URL+path, ""), &said), path)
		assert.NotContains(t, said.Error.Message, "secret")
	}
}

func TestScopeOfOneRunSeesNoOther(t *testing.T) {
	source := newShelf()
	h, server := serve(t, source, streamer.Options{Authorize: byToken, Control: &control{}})
	mine, other := newFeed("mine", source.put, h.Publish), newFeed("other", source.put, h.Publish)
	stored := newFeed("stored", source.put)
	for _, f := range []*feed{mine, other, stored} {
		f.open()
		f.log(3)
	}
	var all struct {
		Cursor string
		Runs   []streamer.RunState
	}
	require.Equal(t, 200, do(t, as(t, "mine", http.MethodGet, server.URL+"/api/runs", ""), &all))
	require.Len(t, all.Runs, 1)
	assert.Equal(t, "mine", all.Runs[0].RunID)

	for _, path := range []string{"/api/runs/other", "/api/runs/stored", "/events?run=other", "/events?run=stored", "/events?run=unknown"} {
		var said refusal
		assert.Equal(t, 404, do(t, as(t, "mine", http.MethodGet, server.URL+path, ""), &said), path)
		assert.Contains(t, said.Error.Message, "there is no run")
	}
	for _, id := range []string{"", strings.Replace(all.Cursor, "-8", "-0", 1), "foreign-1"} {
		req := as(t, "mine", http.MethodGet, server.URL+"/events?type=log", "")
		req.Header.Set("Last-Event-ID", id)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		w := wrap(t, resp)
		w.retry(t)
		other.log(1)
		mine.log(1)
		for {
			_, name, data := w.event(t)
			require.NotContains(t, data, "other")
			if name == "recorded" && strings.Contains(data, fmt.Sprintf(`"seq":%d,`, mine.seq)) {
				break
			}
		}
	}
	for _, path := range []string{"mine/interrupt", "mine/answer", "other/interrupt"} {
		req := as(t, "mine", http.MethodPost, server.URL+"/api/runs/"+path, "{}")
		req.Header.Set("Content-Type", "application/json")
		var said refusal
		assert.Equal(t, 403, do(t, req, &said), path)
	}
}

func TestLimitsSayWhenToComeBack(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{Authorize: byToken, Clients: 3, ClientsPerPrincipal: 2})
	newFeed("a", h.Publish).open()
	newFeed("b", h.Publish).open()
	open := func(token string) *http.Response {
		resp, err := http.DefaultClient.Do(as(t, token, http.MethodGet, server.URL+"/events", ""))
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	first := open("a")
	assert.Equal(t, 200, first.StatusCode)
	assert.Equal(t, 200, open("a").StatusCode)
	third := open("a")
	assert.Equal(t, 429, third.StatusCode)
	assert.Equal(t, "5", third.Header.Get("Retry-After"))
	assert.Equal(t, 200, open("b").StatusCode)
	assert.Equal(t, 503, open("c").StatusCode)
	require.NoError(t, first.Body.Close())
	for open("b").StatusCode != 200 { // until the server has noticed that the first client has left
		require.NoError(t, t.Context().Err())
	}
}

func TestAddressHasALimitOfItsOwn(t *testing.T) {
	_, server := serve(t, nil, streamer.Options{ClientsPerAddress: 1})
	assert.Equal(t, 200, connect(t, server.URL+"/events", "").StatusCode)
	second := connect(t, server.URL+"/events", "")
	assert.Equal(t, 429, second.StatusCode)
	assert.Equal(t, "5", second.Header.Get("Retry-After"))
}

func TestWithoutAuthorizeOnlyThisMachineIsServed(t *testing.T) {
	h, err := streamer.New(nil, streamer.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Close(context.WithoutCancel(t.Context())) })
	for _, c := range []struct {
		from, host string
		status     int
	}{
		{"127.0.0.1:5000", "localhost:8080", 200},
		{"127.0.0.1:5000", "127.0.0.1", 200},
		{"[::1]:5000", "[::1]:8080", 200},
		{"[::1]:5000", "[::1]", 200},
		{"[::ffff:127.0.0.1]:5000", "localhost", 200},
		{"192.0.2.7:5000", "localhost:8080", 403},
		{"127.0.0.1:5000", "evil.example:8080", 403}, // a host name that an attacker points at this machine
		{"127.0.0.1:5000", "localhost.evil.example", 403},
		{"", "localhost", 403},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/health", nil)
		require.NoError(t, err)
		req.RemoteAddr, req.Host, req.RequestURI = c.from, c.host, "/health"
		w := &recorder{header: make(http.Header)}
		h.ServeHTTP(w, req)
		assert.Equal(t, c.status, w.status, "%v", c)
		if c.status == 403 {
			assert.Contains(t, w.body.String(), "Options.Authorize")
		}
	}
}

func TestWithoutAuthorizeNothingIsServedThroughAProxy(t *testing.T) {
	_, direct := serve(t, nil, streamer.Options{})
	target, err := url.Parse(direct.URL)
	require.NoError(t, err)
	proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(target))
	t.Cleanup(proxy.Close)
	for _, path := range []string{"/", "/events", "/api/runs", "/health"} {
		var said refusal
		assert.Equal(t, 403, do(t, as(t, "", http.MethodGet, proxy.URL+path, ""), &said), path)
		assert.Contains(t, said.Error.Message, "a proxy forwarded this request")
		assert.Contains(t, said.Error.Message, "Options.Authorize")
	}
	for _, header := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via"} {
		req := as(t, "", http.MethodGet, direct.URL+"/health", "")
		req.Header.Set(header, "somebody")
		assert.Equal(t, 403, do(t, req, new(refusal)), header)
	}
	assert.Equal(t, 200, do(t, as(t, "", http.MethodGet, direct.URL+"/health", ""), new(map[string]any)))
}

// recorder is a ResponseWriter without optional interfaces.
type recorder struct {
	header http.Header
	status int
	body   strings.Builder
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(200)
	return r.body.Write(p)
}

func TestMethodsAndPathsAreRefusedClearly(t *testing.T) {
	_, server := serve(t, nil, streamer.Options{})
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"POST", "/events", 405, "POST is not allowed here; want GET or HEAD"},
		{"DELETE", "/api/runs", 405, "DELETE is not allowed here; want GET or HEAD or POST"},
		{"PUT", "/", 405, "PUT is not allowed here; want GET or HEAD"},
		{"GET", "/api/runs/r/cancel", 405, "GET is not allowed here; want POST"},
		{"PATCH", "/api/runs/r/answer", 405, "PATCH is not allowed here; want POST"},
		{"POST", "/nothing/here", 404, "nothing here"},
		{"GET", "/nothing/here", 404, "nothing here"},
		{"GET", "/nothing", 404, "nothing here"},
		{"GET", "/api/runs/nope", 404, `no run "nope"`},
		{"GET", "/events?run=" + strings.Repeat("n", 200), 404, `no run "nnn`},
		{"GET", "/events?run=a&run=b", 400, "more than once"},
		{"GET", "/events?type=banana", 400, "want one of tool_call"},
		{"GET", "/events?status=done", 400, "want one of started"},
		{"GET", "/api/runs?limit=0", 400, "want 1 to"},
		{"GET", "/api/runs?limit=x", 400, "want 1 to"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, nil)
		require.NoError(t, err)
		var said refusal
		assert.Equal(t, c.status, do(t, req, &said), "%s %s", c.method, c.path)
		assert.Contains(t, said.Error.Message, c.says)
	}
}

func TestOnlyListedOriginsMayRead(t *testing.T) {
	_, server := serve(t, nil, streamer.Options{Origins: []string{"https://ops.example.com"}})
	for origin, want := range map[string]string{"https://ops.example.com": "https://ops.example.com", "https://evil.example": "", "null": ""} {
		req := as(t, "", http.MethodGet, server.URL+"/health", "")
		req.Header.Set("Origin", origin)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		_ = resp.Body.Close()
		assert.Equal(t, want, resp.Header.Get("Access-Control-Allow-Origin"))
		assert.Equal(t, "Origin", resp.Header.Get("Vary"))
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]streamer.Options{
		"Options.History is -1":    {History: -1},
		"Options.Clients is -2":    {Clients: -2},
		"Options.Heartbeat is -1s": {Heartbeat: -1e9},
		"Options.Memory is -1":     {Memory: -1},
		"Options.Memory is 1000":   {Memory: 1000},
		`has "ops.example.com"`:    {Origins: []string{"ops.example.com"}},
		`has "https://x/path"`:     {Origins: []string{"https://x/path"}},
		`has "*"`:                  {Origins: []string{"*"}},
	} {
		_, err := streamer.New(nil, o)
		require.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, "want ")
	}
}

// control is a Control that records the requests it receives.
type control struct {
	interrupted, cancelled, answered string
	err                              error
}

func (c *control) Cancel(_ context.Context, runID string, stop streamer.Stop) error {
	c.cancelled = fmt.Sprint(runID, " by ", stop.By, ": ", stop.Message)
	return c.err
}

func (c *control) Interrupt(_ context.Context, runID string, stop streamer.Stop) error {
	c.interrupted = fmt.Sprint(runID, " by ", stop.By, ": ", stop.Message)
	return c.err
}

func (c *control) Signal(context.Context, string, streamer.Signal) error { return nil }

func (c *control) Answer(_ context.Context, runID, question, by string, value json.RawMessage) error {
	c.answered = fmt.Sprint(runID, " ", question, " by ", by, ": ", string(value))
	return c.err
}

func TestRunsAreChangedOnlyBySameOriginJSONWithPermission(t *testing.T) {
	c := &control{}
	h, server := serve(t, nil, streamer.Options{Authorize: byToken, Control: c})
	newFeed("r", h.Publish).open()
	post := func(path, body string, change ...func(*http.Request)) (int, refusal) {
		req := as(t, "all", http.MethodPost, server.URL+"/api/runs/"+path, body)
		req.Header.Set("Content-Type", "application/json")
		for _, f := range change {
			f(req)
		}
		var said refusal
		return do(t, req, &said), said
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	status, _ := post("r/interrupt", `{"message":"enough"}`)
	assert.Equal(t, 200, status)
	assert.Equal(t, "r by admin: enough", c.interrupted)
	status, _ = post("r/cancel", `{"by":"admin","message":"for good"}`)
	assert.Equal(t, 200, status)
	assert.Equal(t, "r by admin: for good", c.cancelled)
	status, _ = post("r/interrupt", "")
	assert.Equal(t, 200, status)
	assert.Equal(t, "r by admin: ", c.interrupted)
	status, _ = post("r/answer", `{"question":"a?1","value":{"ok":true}}`, header("Sec-Fetch-Site", "same-origin"))
	assert.Equal(t, 200, status)
	assert.Equal(t, `r a?1 by admin: {"ok":true}`, c.answered)
	status, _ = post("r/answer", `{"question":"a?1","value":1,"by":"admin"}`)
	assert.Equal(t, 200, status)
	assert.Equal(t, "r a?1 by admin: 1", c.answered)

	deep := strings.Repeat("[", 1000) + `"[[["` + strings.Repeat("]", 1000)
	status, _ = post("r/answer", `{"question":"a?1","value":`+deep+`}`)
	assert.Equal(t, 200, status)
	assert.Equal(t, "r a?1 by admin: "+deep, c.answered)

	*c = control{}
	for name, try := range map[string]struct {
		path, body string
		change     func(*http.Request)
		status     int
	}{
		"another site":             {"r/interrupt", `{}`, header("Sec-Fetch-Site", "cross-site"), 403},
		"another origin":           {"r/interrupt", `{}`, header("Origin", "https://evil.example"), 403},
		"cancelled from there":     {"r/cancel", `{}`, header("Sec-Fetch-Site", "cross-site"), 403},
		"no permission to":         {"r/cancel", `{}`, header("Authorization", "Bearer r"), 403},
		"a form":                   {"r/interrupt", `message=x`, header("Content-Type", "application/x-www-form-urlencoded"), 415},
		"a form as text":           {"r/interrupt", `{}`, header("Content-Type", "text/plain"), 415},
		"no permission":            {"r/interrupt", `{}`, header("Authorization", "Bearer r"), 403},
		"in another's name":        {"r/cancel", `{"by":"ann"}`, nil, 403},
		"an answer in another":     {"r/answer", `{"question":"a?1","value":1,"by":"ann"}`, nil, 403},
		"no such run":              {"nope/interrupt", `{}`, nil, 404},
		"no JSON":                  {"r/interrupt", `{`, nil, 400},
		"unknown fields":           {"r/interrupt", `{"mesage":"x"}`, nil, 400},
		"two values":               {"r/interrupt", `{} {}`, nil, 400},
		"one bracket too many":     {"r/interrupt", `{}}`, nil, 400},
		"a list":                   {"r/interrupt", `[]`, nil, 400},
		"null":                     {"r/cancel", `null`, nil, 400},
		"another type":             {"r/cancel", `{"by":7}`, nil, 400},
		"a field twice":            {"r/cancel", `{"message":"a","message":"b"}`, nil, 400},
		"a field in two cases":     {"r/cancel", `{"message":"a","Message":"b"}`, nil, 400},
		"a name twice":             {"r/answer", `{"question":"a?1","value":[{"a":{}},{"a":1,"a":2}]}`, nil, 400},
		"no UTF-8":                 {"r/answer", "{\"question\":\"a?1\",\"value\":\"\xff\"}", nil, 400},
		"nothing":                  {"r/answer", "", nil, 400},
		"no question":              {"r/answer", `{"value":1}`, nil, 400},
		"no value":                 {"r/answer", `{"question":"a?1"}`, nil, 400},
		"too deep":                 {"r/answer", `{"question":"a?1","value":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `}`, nil, 400},
		"too deep for objects":     {"r/answer", `{"question":"a?1","value":` + strings.Repeat(`{"[":`, 5000) + "1" + strings.Repeat("}", 5000) + `}`, nil, 400},
		"too deep for JSON":        {"r/answer", `{"question":"a?1","value":` + strings.Repeat("[", 100_000), nil, 400},
		"too long":                 {"r/answer", `{"question":"` + strings.Repeat("x", 2<<20) + `"}`, nil, 413},
		"trailing spaces too long": {"r/interrupt", `{}` + strings.Repeat(" ", 2<<20), nil, 413},
		"with the wrong verb":      {"r/answer", `{}`, func(r *http.Request) { r.Method = http.MethodPut }, 405},
	} {
		if try.change == nil {
			try.change = func(*http.Request) {}
		}
		status, said := post(try.path, try.body, try.change)
		assert.Equal(t, try.status, status, name)
		assert.NotEmpty(t, said.Error.Message, name)
	}
	assert.Equal(t, control{}, *c, "nothing was done")

	_, said := post("r/interrupt", `{"mesage":"x"}`)
	assert.Contains(t, said.Error.Message, `unknown field "mesage"; the fields of the body are by, message`)

	c.err = fmt.Errorf("%w: it was answered before", streamer.ErrConflict)
	status, said = post("r/answer", `{"question":"a?1","value":1}`)
	assert.Equal(t, 409, status)
	assert.Contains(t, said.Error.Message, "answered before")
	c.err = streamer.ErrNotFound
	_, said = post("r/answer", `{"question":"b?7","value":1}`)
	assert.Equal(t, `run "r" has no question "b?7"; GET api/runs/r lists its questions`, said.Error.Message)
	c.err = errors.New("/secret/path is not readable")
	status, said = post("r/answer", `{"question":"a?1","value":1}`)
	assert.Equal(t, 500, status)
	assert.NotContains(t, said.Error.Message, "secret")
}

func TestWithoutControlNobodyMayChangeRuns(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	newFeed("r", h.Publish).open()
	var said refusal
	req := as(t, "", http.MethodPost, server.URL+"/api/runs/r/interrupt", "{}")
	req.Header.Set("Content-Type", "application/json")
	assert.Equal(t, 403, do(t, req, &said))
	assert.Contains(t, said.Error.Message, "`reprise serve --control` can")
	var runs struct {
		Can struct{ Interrupt, Cancel, Answer bool }
	}
	require.Equal(t, 200, get(t, server.URL+"/api/runs", &runs))
	assert.False(t, runs.Can.Interrupt || runs.Can.Cancel || runs.Can.Answer)
}

func TestFilterPicksAndTheCursorMovesOverTheRest(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{Heartbeat: 1e6})
	f := newFeed("r", h.Publish)
	f.open()
	f.call("a", record.StatusStarted)
	f.call("a", record.StatusCompleted)
	f.log(5)
	w := connect(t, server.URL+"/events?run=r&type=tool_call&status=completed,failed", "")
	id, name, _ := w.event(t)
	assert.Equal(t, "completed", name)
	assert.True(t, strings.HasSuffix(id, "-3"))
	id, name, data := w.event(t)
	assert.Equal(t, "cursor", name)
	assert.Equal(t, "{}", data)
	assert.True(t, strings.HasSuffix(id, "-8"), "with a heartbeat")
}
