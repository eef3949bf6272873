package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
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

// A result holds the output and exit code of a command.
type result struct {
	code           int
	stdout, stderr string
}

// call executes the command on a directory.
func call(t testing.TB, dir string, args ...string) result {
	t.Helper()
	return callWith(t, dir, func(*environment) {}, args...)
}

func callWith(t testing.TB, dir string, change func(*environment), args ...string) result {
	t.Helper()
	return callContext(t.Context(), dir, change, args...)
}

func callContext(ctx context.Context, dir string, change func(*environment), args ...string) result {
	var stdout, stderr bytes.Buffer
	env := &environment{
		stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, now: time.Now, username: func() string { return "" },
		getenv: func(key string) string { return map[string]string{"REPRISE_DIR": dir}[key] },
	}
	change(env)
	code := run(ctx, env, args)
	return result{code, stdout.String(), stderr.String()}
}

// failed asserts that the command failed with the message and wrote nothing else.
func (r result) failed(t *testing.T, code int, message string) {
	t.Helper()
	assert.Equal(t, code, r.code, r.stderr)
	assert.Equal(t, "reprise: "+message+"\n", r.stderr)
	assert.Empty(t, r.stdout)
}

// text returns the output of a successful command.
func (r result) text(t *testing.T) string {
	t.Helper()
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Empty(t, r.stderr)
	return r.stdout
}

var (
	duration = regexp.MustCompile(`<?\b\d+(\.\d+)?(ns|µs|ms|s)\b`)
	stamp    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
)

// timeless replaces all times in text with the same fixed time.
func timeless(text string) string {
	return duration.ReplaceAllString(stamp.ReplaceAllString(text, "2026-01-31T08:00:00Z"), "1ms")
}

// define returns an actor that does not wait between attempts.
func define[In, Out any](t testing.TB, kind record.Kind, name string, handler core.Handler[In, Out]) *core.Definition[In, Out] {
	t.Helper()
	retry := core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay}
	d, err := core.NewDefinition(core.Spec{Kind: kind, Name: name, Retry: &retry}, handler)
	require.NoError(t, err)
	return d
}

var errDown = core.Retryable(errors.New("the service is down"))

// weather runs an agent with two tools and returns the ID of the run. The first tool fails once.
// The second tool always fails if fail is set.
func weather(t testing.TB, dir, runID string, fail bool, m snapshot.Metadata) string {
	t.Helper()
	calls := 0
	look := define(t, record.KindTool, "look", func(context.Context, string) (string, error) {
		if calls++; calls == 1 {
			return "", errDown
		}
		return "sunny", nil
	})
	tell := define(t, record.KindTool, "tell", func(context.Context, string) (string, error) {
		if fail {
			return "", errDown
		}
		return strings.Repeat("sunny ", 20_000), nil // large enough to become an artifact
	})
	d, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "agent"}, func(ctx context.Context, in string) (string, error) {
		out, err := look.Event().Execute(ctx, in)
		if err != nil {
			return "", err
		}
		if err := state.Put(ctx, "sky", out); err != nil {
			return "", err
		}
		_, err = tell.Event().Execute(ctx, out)
		return out, err
	})
	require.NoError(t, err)
	store := newStore(t, dir)
	st, err := state.Open(t.Context(), store, runID, state.WithMetadata(m), state.WithArtifacts(store))
	require.NoError(t, err)
	_, err = d.Event().Execute(st.Context(t.Context()), "Oslo")
	require.Equal(t, fail, err != nil)
	require.NoError(t, st.Close())
	return runID
}

// refund runs a tool that asks for approval.
func refund(t testing.TB, dir, runID string) (approved bool, err error) {
	t.Helper()
	d := define(t, record.KindTool, "refund", func(ctx context.Context, _ int) (bool, error) {
		return core.Await[bool](ctx, "refund \x1b[31mit\x1b[0m?")
	})
	st, err := state.Open(t.Context(), newStore(t, dir), runID)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	return d.Event().Execute(st.Context(t.Context()), 5)
}

func newStore(t testing.TB, dir string) *filestore.Store {
	t.Helper()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	return store
}

// damage flips a bit in the middle of the newest file of a run.
func damage(t testing.TB, dir, runID string) {
	t.Helper()
	name := newest(t, dir, runID)
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	data[len(bytes.TrimRight(data, "\x00"))/2] ^= 1
	require.NoError(t, os.WriteFile(name, data, 0o600))
}

// newest returns the journal of a run, or its snapshot if there is no journal.
func newest(t testing.TB, dir, runID string) string {
	t.Helper()
	for _, suffix := range []string{"*.journal", "*.snapshot"} {
		names, err := filepath.Glob(filepath.Join(dir, "runs", runID, suffix))
		require.NoError(t, err)
		if len(names) > 0 {
			return names[len(names)-1]
		}
	}
	t.Fatalf("run %s has neither a journal nor a snapshot", runID)
	return ""
}

// atTerminal makes an environment with a terminal at which the user answers with text.
func atTerminal(text string) func(*environment) {
	return func(env *environment) { env.stdin, env.terminal = strings.NewReader(text), true }
}

// brokenWriter returns an error for every Write.
type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

var _ io.Writer = brokenWriter{}
