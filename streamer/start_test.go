package streamer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/record/redact"
	"github.com/reprise-go/reprise/streamer"
)

// starts is a Starter that remembers what was started.
type starts struct{ got []streamer.Start }

func (*starts) Programs() []streamer.Program {
	return []streamer.Program{{Name: "echo", Version: "2", Versions: []string{"1", "2"}, Input: json.RawMessage(`{"type":"object"}`)}}
}

func (s *starts) Start(_ context.Context, start streamer.Start) (info streamer.RunInfo, isNew bool, err error) {
	switch start.Program {
	case "echo":
	case "one too many":
		return info, false, fmt.Errorf("%w: 7 of at most 7", streamer.ErrTooMany)
	case "too late":
		return info, false, fmt.Errorf("%w: it is stopping", streamer.ErrUnavailable)
	default:
		return info, false, fmt.Errorf("%w: no such program", streamer.ErrNotFound)
	}
	isNew = !slices.ContainsFunc(s.got, func(old streamer.Start) bool { return old.RunID != "" && old.RunID == start.RunID })
	s.got = append(s.got, start)
	return streamer.RunInfo{RunID: start.RunID, Status: "queued"}, isNew, nil
}

func (*starts) Resume(_ context.Context, runID string) error {
	if runID == "over" {
		return fmt.Errorf("%w: it has ended", streamer.ErrConflict)
	}
	return nil
}

func (s *starts) Retry(ctx context.Context, runID string) error { return s.Resume(ctx, runID) }

// ResumeAll selects those of two runs that the sender is allowed to see.
func (s *starts) ResumeAll(_ context.Context, c streamer.Selection) ([]streamer.SelectedRun, error) {
	if c.Status == "queued" {
		return nil, fmt.Errorf("%w: want interrupted", streamer.ErrInvalid)
	}
	var all []streamer.SelectedRun
	for _, id := range []string{"mine-1", "yours-1"} {
		if c.Sees(id) {
			all = append(all, streamer.SelectedRun{RunID: id, Error: c.Reason + c.Program})
		}
	}
	return all, nil
}

func (s *starts) RetryAll(ctx context.Context, c streamer.Selection) ([]streamer.SelectedRun, error) {
	return s.ResumeAll(ctx, c)
}

func (*starts) Values(context.Context, string) (map[string]json.RawMessage, error) {
	return map[string]json.RawMessage{"progress": json.RawMessage(`"a secret"`)}, nil
}

func (*starts) Result(_ context.Context, runID string) (streamer.Result, error) {
	if runID == "going-on" {
		return streamer.Result{}, fmt.Errorf("%w: it has not ended", streamer.ErrConflict)
	}
	return streamer.Result{RunID: runID, Status: "completed", Output: json.RawMessage(`"a secret"`)}, nil
}

// postRun posts a request to start a run, and returns the status and body of the
// response.
func postRun(t *testing.T, url, body string) (int, string) {
	resp, err := http.Post(url+"/api/runs", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(data)
}

func TestNothingIsStartedWithoutAStarter(t *testing.T) {
	_, server := serve(t, nil, streamer.Options{})
	status, _ := postRun(t, server.URL, `{"program":"echo","run_id":"r","input":{}}`)
	assert.Equal(t, http.StatusForbidden, status)
	for _, path := range []string{"/api/programs", "/api/runs/r/result"} {
		resp, err := http.Get(server.URL + path)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, http.StatusForbidden, resp.StatusCode, path)
	}
}

func TestOnlyWhoMayControlStartsRuns(t *testing.T) {
	for name, c := range map[string]struct {
		scope  streamer.Access
		body   string
		status int
	}{
		"may not":         {streamer.Access{}, `{"program":"echo","run_id":"mine-1","input":{}}`, http.StatusForbidden},
		"may":             {streamer.Access{Control: true}, `{"program":"echo","input":{"text":"x"}}`, http.StatusCreated},
		"own run":         {streamer.Access{Control: true, Runs: isMine}, `{"program":"echo","run_id":"mine-1","input":{}}`, http.StatusCreated},
		"another's run":   {streamer.Access{Control: true, Runs: isMine}, `{"program":"echo","run_id":"other","input":{}}`, http.StatusForbidden},
		"run of any name": {streamer.Access{Control: true, Runs: isMine}, `{"program":"echo","input":{}}`, http.StatusBadRequest},
		"no program":      {streamer.Access{Control: true}, `{"program":"other","input":{}}`, http.StatusNotFound},
		"no input":        {streamer.Access{Control: true}, `{"program":"echo"}`, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			var s starts
			_, server := serve(t, nil, streamer.Options{
				Starter: &s, Authorize: func(*http.Request) (streamer.Access, error) { return c.scope, nil },
			})
			status, body := postRun(t, server.URL, c.body)
			assert.Equal(t, c.status, status, body)
			assert.Equal(t, c.status == http.StatusCreated, len(s.got) == 1)
		})
	}
}

// TestNewRunIsCreated checks that the response has status 201 and the location of the run, and that
// repeating the request returns the same run.
func TestNewRunIsCreated(t *testing.T) {
	var s starts
	_, server := serve(t, nil, streamer.Options{Starter: &s, Authorize: func(*http.Request) (streamer.Access, error) {
		return streamer.Access{Principal: "ann", Control: true}, nil
	}})
	post := func(body string) *http.Response {
		resp, err := http.Post(server.URL+"/api/runs", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp
	}
	resp := post(`{"program":"echo","run_id":"a","input":{}}`)
	assert.Equal(t, http.StatusCreated, resp.StatusCode)
	at, err := resp.Location()
	require.NoError(t, err)
	assert.Equal(t, server.URL+"/api/runs/a", at.String())
	assert.Equal(t, "ann", s.got[0].Principal)
	resp = post(`{"program":"echo","run_id":"a","input":{}}`)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Empty(t, resp.Header.Get("Location"))
	assert.Equal(t, http.StatusBadRequest, post(`{"program":"echo","input":{},"Principal":"bob"}`).StatusCode)
}

func TestStartsThatMaySucceedLaterSayWhen(t *testing.T) {
	_, server := serve(t, nil, streamer.Options{Starter: new(starts)})
	for program, want := range map[string]struct {
		status int
		err    error
		text   string
	}{
		"one too many": {http.StatusTooManyRequests, streamer.ErrTooMany, "7 of at most 7"},
		"too late":     {http.StatusServiceUnavailable, streamer.ErrUnavailable, "it is stopping"},
	} {
		resp, err := http.Post(server.URL+"/api/runs", "application/json", strings.NewReader(`{"program":"`+program+`","input":{}}`))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, want.status, resp.StatusCode)
		assert.Regexp(t, "^[1-9]$", resp.Header.Get("Retry-After"))
		_, _, err = (&streamer.Client{URL: server.URL}).Start(t.Context(), streamer.Start{Program: program, Input: json.RawMessage(`{}`)})
		require.ErrorIs(t, err, want.err)
		assert.ErrorContains(t, err, want.text)
	}
}

func TestValuesOfARunAreShownRedacted(t *testing.T) {
	o := streamer.Options{Starter: new(starts), Redact: redact.Func(func(text string) string { return strings.ReplaceAll(text, "secret", "****") })}
	h, server := serve(t, nil, o)
	newFeed("r", h.Publish).open()
	c := &streamer.Client{URL: server.URL}
	values, err := c.Values(t.Context(), "r")
	require.NoError(t, err)
	assert.Equal(t, map[string]json.RawMessage{"progress": json.RawMessage(`"a ****"`)}, values)
	_, err = c.Values(t.Context(), "other")
	require.ErrorIs(t, err, streamer.ErrNotFound)
	o.Redact = redact.Func(func(text string) string { return strings.ReplaceAll(text, `"`, "") })
	h, server = serve(t, nil, o)
	newFeed("r", h.Publish).open()
	_, err = (&streamer.Client{URL: server.URL}).Values(t.Context(), "r")
	assert.ErrorContains(t, err, "not valid JSON")
}

func isMine(runID string) bool { return strings.HasPrefix(runID, "mine-") }

func TestClientStartsRunsAndReadsTheirResults(t *testing.T) {
	var s starts
	h, server := serve(t, nil, streamer.Options{Starter: &s, Continuer: &s})
	for _, id := range []string{"r 1/a?", "over", "going-on"} {
		newFeed(id, h.Publish).open()
	}
	c := &streamer.Client{URL: server.URL}
	programs, err := c.Programs(t.Context())
	require.NoError(t, err)
	assert.Equal(t, s.Programs(), programs)
	want := streamer.Start{
		Program: "echo", RunID: "r 1/a?", Input: json.RawMessage(`{"text":"x"}`), Version: "2", Priority: 3, Pinned: true,
		At: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC), Description: "why", Pipeline: "night", Tags: []string{"a"},
	}
	runID, status, err := c.Start(t.Context(), want)
	require.NoError(t, err)
	assert.Equal(t, []string{"r 1/a?", "queued"}, []string{runID, status})
	assert.Equal(t, []streamer.Start{want}, s.got)
	result, err := c.Result(t.Context(), runID)
	require.NoError(t, err)
	assert.Equal(t, streamer.Result{RunID: runID, Status: "completed", Output: json.RawMessage(`"a secret"`)}, result)
	require.NoError(t, c.Resume(t.Context(), runID))

	_, _, err = c.Start(t.Context(), streamer.Start{Program: "other", Input: json.RawMessage("{}")})
	require.ErrorIs(t, err, streamer.ErrNotFound)
	assert.ErrorContains(t, err, `there is no program "other"; want one of [echo]`)
	_, _, err = c.Start(t.Context(), streamer.Start{Input: json.RawMessage("{}")})
	require.ErrorIs(t, err, streamer.ErrInvalid)
	_, _, err = c.Start(t.Context(), streamer.Start{Program: "echo", Input: json.RawMessage("{")})
	assert.ErrorContains(t, err, "streamer: json: ")
	require.ErrorIs(t, c.Resume(t.Context(), "over"), streamer.ErrConflict)
	require.ErrorIs(t, c.Resume(t.Context(), "nobody"), streamer.ErrNotFound)
	require.NoError(t, c.Retry(t.Context(), runID))
	require.ErrorIs(t, c.Retry(t.Context(), "over"), streamer.ErrConflict)
	_, err = c.Result(t.Context(), "going-on")
	require.ErrorIs(t, err, streamer.ErrConflict)
	_, err = c.Result(t.Context(), "nobody")
	require.ErrorIs(t, err, streamer.ErrNotFound)
	assert.Len(t, s.got, 1)
	for name, call := range map[string]func(c *streamer.Client) error{
		"Programs": func(c *streamer.Client) error { _, err := c.Programs(t.Context()); return err },
		"Start":    func(c *streamer.Client) error { _, _, err := c.Start(t.Context(), want); return err },
		"Retry":    func(c *streamer.Client) error { return c.Retry(t.Context(), "r") },
		"RetryAll": func(c *streamer.Client) error { _, err := c.RetryAll(t.Context(), streamer.Selection{}); return err },
		"Resume":   func(c *streamer.Client) error { return c.Resume(t.Context(), "r") },
		"Result":   func(c *streamer.Client) error { _, err := c.Result(t.Context(), "r"); return err },
	} {
		assert.ErrorContains(t, call(&streamer.Client{URL: "localhost:80"}), "Client.URL is", name)
	}
}

func TestResultIsRedacted(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{
		Starter: new(starts), Redact: redact.Func(func(text string) string { return strings.ReplaceAll(text, "secret", "****") }),
	})
	h.Publish(record.Record{RunID: "r", Seq: 1, Generation: 1, Kind: record.KindRun, Status: record.StatusStarted})
	resp, err := http.Get(server.URL + "/api/runs/r/result")
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.JSONEq(t, `{"run_id":"r","status":"completed","output":"a ****"}`, string(data))
}

func TestManyRunsContinueTogether(t *testing.T) {
	var s starts
	for name, continueAll := range map[string]func(c *streamer.Client, choice streamer.Selection) ([]streamer.SelectedRun, error){
		"resume": func(c *streamer.Client, choice streamer.Selection) ([]streamer.SelectedRun, error) {
			return c.ResumeAll(t.Context(), choice)
		},
		"retry": func(c *streamer.Client, choice streamer.Selection) ([]streamer.SelectedRun, error) {
			return c.RetryAll(t.Context(), choice)
		},
	} {
		t.Run(name, func(t *testing.T) {
			scope := streamer.Access{Control: true}
			_, server := serve(t, nil, streamer.Options{
				Continuer: &s, Authorize: func(*http.Request) (streamer.Access, error) { return scope, nil },
			})
			c := &streamer.Client{URL: server.URL}
			got, err := continueAll(c, streamer.Selection{Reason: "divergence", Program: "support"})
			require.NoError(t, err)
			assert.Equal(t, []streamer.SelectedRun{{RunID: "mine-1", Error: "divergencesupport"}, {RunID: "yours-1", Error: "divergencesupport"}}, got)
			_, err = continueAll(c, streamer.Selection{})
			require.ErrorIs(t, err, streamer.ErrInvalid)
			require.ErrorContains(t, err, "status, reason, program or since is needed")
			_, err = continueAll(c, streamer.Selection{Status: "queued"})
			require.ErrorIs(t, err, streamer.ErrInvalid)
			scope.Runs = isMine
			got, err = continueAll(c, streamer.Selection{Since: time.Unix(1, 0)})
			require.NoError(t, err)
			assert.Equal(t, []streamer.SelectedRun{{RunID: "mine-1"}}, got)
			scope.Control = false
			_, err = continueAll(c, streamer.Selection{Reason: "divergence"})
			require.ErrorContains(t, err, "nothing can be resumed or retried here")
		})
	}
}
