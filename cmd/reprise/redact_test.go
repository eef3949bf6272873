package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// runWithSecrets stores a run with a secret in every text.
func runWithSecrets(t *testing.T, dir string) {
	t.Helper()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	st, err := state.Open(t.Context(), store, "r", state.WithPayloads(),
		state.WithMetadata(snapshot.Metadata{Description: "for tok_4242"}))
	require.NoError(t, err)
	fail := define(t, record.KindTool, "fail", func(ctx context.Context, in string) (string, error) {
		state.From(ctx).Log(slog.LevelInfo, "with "+in, map[string]any{"token": in})
		return "", errors.New("no " + in)
	})
	_, err = fail.Event().Execute(st.Context(t.Context()), "tok_4242")
	require.Error(t, err)
	ask := define(t, record.KindAgent, "ask", func(ctx context.Context, in string) (string, error) {
		return core.Await[string](ctx, "is it "+in+"?")
	})
	_, err = ask.Event().Execute(st.Context(t.Context()), "tok_4242")
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())
}

func TestRedactShowsNothingThatMatches(t *testing.T) {
	dir := t.TempDir()
	runWithSecrets(t, dir)
	for _, command := range [][]string{
		{"show", "r", "--previews"},
		{"show", "r", "--json"},
		{"export", "r"},
		{"export", "r", "--format", "json"},
		{"questions", "r"},
		{"questions", "r", "--json"},
	} {
		assert.Contains(t, call(t, dir, command...).text(t), "tok_4242", "%v", command)
		shown := call(t, dir, append(command, "--redact", "tok_[0-9]+")...).text(t)
		assert.NotContains(t, shown, "_4242", "%v", command)
		assert.Contains(t, shown, "(redacted)", "%v", command)
	}
	url := served(t, dir, "--redact", "tok_[0-9]+")
	for _, path := range []string{"/api/runs", "/api/runs/r"} {
		shown := request(t, url+path, http.StatusOK)
		assert.NotContains(t, shown, "_4242", path)
		assert.Contains(t, shown, "(redacted)", path)
	}
}

func request(t *testing.T, url string, status int, header ...string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, status, resp.StatusCode, "%s", data)
	return string(data)
}

func TestRedactMustMatchSomething(t *testing.T) {
	dir := t.TempDir()
	runWithSecrets(t, dir)
	call(t, dir, "show", "r", "--redact", "(").failed(t, exitUsage,
		"invalid argument \"(\" for \"--redact\" flag: redact: \"(\": error parsing regexp: missing closing ): `(`; see reprise show --help")
	call(t, dir, "show", "r", "--redact", "a*").failed(t, exitUsage,
		`invalid argument "a*" for "--redact" flag: redact: "a*": the pattern can match the empty string, and thus everywhere; want a pattern that matches at least one character; see reprise show --help`)
	call(t, dir, "export", "r", "--format", "msgpack", "--redact", "a").failed(t, exitUsage,
		"--format msgpack writes a complete run, and --redact would remove values from it: use one or the other")
}

func TestShowPrintsInputsAndOutputsInFull(t *testing.T) {
	dir := t.TempDir()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	st, err := state.Open(t.Context(), store, "r", state.WithPayloads())
	require.NoError(t, err)
	long := strings.Repeat("a line\n", 20_000) + "\u202e\u009b31m "
	echo := define(t, record.KindTool, "echo", func(_ context.Context, in string) (string, error) { return long + in, nil })
	_, err = echo.Event().Execute(st.Context(t.Context()), "tok_4242")
	require.NoError(t, err)
	require.NoError(t, st.Close())

	assert.Equal(t, "\"tok_4242\"\n", call(t, dir, "show", "r", "--input", "echo").text(t))
	text := call(t, dir, "show", "r", "--output", "echo", "--redact", "tok_[0-9]+").text(t)
	assert.NotContains(t, text, "tok_")
	assert.NotContains(t, text, "\u202e")
	var got string
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	assert.Equal(t, long+"(redacted)", got)

	call(t, dir, "show", "r", "--input", "nobody").failed(t, exitFailure, "run r has no call nobody")
	call(t, dir, "show", "r", "--input", "").failed(t, exitUsage, "the address is empty; want the address of a call, such as assistant/get_weather#2")
	call(t, dir, "show", "r", "--input", "a//b").failed(t, exitUsage, `record: address "a//b": segment "" has no name; want the address of a call, such as assistant/get_weather#2`)
}

func TestShowSaysWhyThereIsNoOutput(t *testing.T) {
	dir := t.TempDir()
	fail(t, dir, "r", false)
	call(t, dir, "show", "r", "--output", "ask").failed(t, exitFailure, "call ask of run r has no output because it failed: no API key")
	call(t, dir, "show", "r", "--output", "ask", "--redact", "API").failed(t, exitFailure, "call ask of run r has no output because it failed: no (redacted) key")
	refund(t, dir, "asks")
	call(t, dir, "show", "asks", "--output", "refund").failed(t, exitFailure, "call refund of run asks has no recorded output")
	_, err := state.Retry(t.Context(), newStore(t, dir), "r")
	require.NoError(t, err)
	require.Equal(t, snapshot.StatusCompleted, fail(t, dir, "r", true))
	assert.Equal(t, "\"sunny\"\n", call(t, dir, "show", "r", "--output", "ask").text(t))
}

func TestServeBeginsWithAnEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	url := served(t, dir)
	assert.Contains(t, request(t, url+"/api/runs", http.StatusOK), `"runs":[]`)
	runWithSecrets(t, dir)
	require.Eventually(t, func() bool { // the directory is scanned again only after a while
		return strings.Contains(request(t, url+"/api/runs", http.StatusOK), `"run_id":"r"`)
	}, time.Minute, time.Millisecond)
}

func TestServeBehindAProxyAnswersToItsHost(t *testing.T) {
	dir := t.TempDir()
	runWithSecrets(t, dir)
	forwarded := []string{"X-Forwarded-For", "192.0.2.7"}
	request(t, served(t, dir)+"/api/runs", http.StatusForbidden, forwarded...)

	url := served(t, dir, "--behind-proxy", "ops.example.com")
	request(t, url+"/api/runs", http.StatusOK)
	request(t, url+"/api/runs", http.StatusOK, forwarded...)
	for _, host := range []string{"ops.example.com", "OPS.example.com:443", "localhost", "[::1]:80"} {
		request(t, url+"/api/runs", http.StatusOK, append(forwarded, "Host", host)...)
	}
	for _, host := range []string{"evil.example.com", "ops.example.com.evil.example.com"} {
		request(t, url+"/api/runs", http.StatusForbidden, append(forwarded, "Host", host)...)
	}
}

func TestHostOfAProxyMustNotBeAURL(t *testing.T) {
	for _, host := range []string{"ops.example.com:8443", "https://ops.example.com", "[::1]"} {
		call(t, t.TempDir(), "serve", "--behind-proxy", host).failed(t, exitUsage,
			fmt.Sprintf("--behind-proxy is %q: want a host without scheme and port, such as ops.example.com", host))
	}
}
