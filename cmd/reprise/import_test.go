package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// export writes a run to a file and returns the name of the file.
func export(t *testing.T, dir, runID string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "exported.run")
	require.Empty(t, call(t, dir, "export", runID, "--format", "msgpack", "-o", file).text(t))
	return file
}

func TestARunThatIsExportedInABackoffEndsInAnotherStore(t *testing.T) {
	one, other := t.TempDir(), t.TempDir()
	newStore(t, other)
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		retry := core.RetryConfig{MaxAttempts: 3, InitialDelay: time.Hour, MaxDelay: time.Hour, Jitter: core.NoJitter}
		look, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "look", Retry: &retry},
			func(context.Context, string) (string, error) {
				if calls++; calls == 1 {
					return "", errDown
				}
				return "sunny", nil
			})
		require.NoError(t, err)
		execute := func(dir string, interruptAfter time.Duration) (string, error) {
			store, err := filestore.New(dir, filestore.WithPolling(time.Minute))
			require.NoError(t, err)
			st, err := state.Open(t.Context(), store, "oslo")
			require.NoError(t, err)
			if interruptAfter > 0 {
				defer time.AfterFunc(interruptAfter, func() { st.Interrupt(snapshot.Stop{By: "ops", Message: "moving"}) }).Stop()
			}
			out, err := look.Event().Execute(st.Context(t.Context()), "Oslo")
			require.NoError(t, st.Close())
			return out, err
		}

		began := time.Now()
		_, err = execute(one, 20*time.Minute)
		require.Error(t, err)
		require.Equal(t, 1, calls)
		file := export(t, one, "oslo")
		assert.Regexp(t, `^imported run oslo \(\d+ records, interrupted\)\nit does not continue by itself; to continue it: open it again with its program\n$`, call(t, other, "import", file).text(t))

		out, err := execute(other, 0)
		require.NoError(t, err)
		assert.Equal(t, "sunny", out)
		assert.Equal(t, 2, calls, "the first attempt is not made again")
		assert.Equal(t, time.Hour, time.Since(began).Round(time.Minute), "the rest of the wait")
		call(t, other, "verify").text(t)
		assert.Regexp(t, `(?m)^oslo +completed `, call(t, other, "runs").text(t))
		assert.Regexp(t, `(?m)^oslo +interrupted `, call(t, one, "runs").text(t), "the exported run has not changed")
	})
}

func TestImportedIsWhatWasExported(t *testing.T) {
	one, other := t.TempDir(), t.TempDir()
	newStore(t, other)
	weather(t, one, "oslo", false, snapshot.Metadata{Pipeline: "report", Tags: []string{"a"}})
	file := export(t, one, "oslo")

	got := call(t, other, "import", file)
	require.Equal(t, exitOK, got.code)
	assert.Regexp(t, `^imported run oslo \(\d+ records, completed\)\n$`, got.stdout)
	assert.Equal(t, "reprise: run oslo refers to 1 artifact that this store does not have; copy the artifacts directory of the other store\n", got.stderr)
	run, err := newStore(t, one).Load(t.Context(), "oslo")
	require.NoError(t, err)
	for rec, err := range run.Records() {
		require.NoError(t, err)
		if rec.Detail != nil && rec.Detail.Artifact != "" {
			data, err := newStore(t, one).Get(t.Context(), rec.Detail.Artifact)
			require.NoError(t, err)
			_, err = newStore(t, other).Put(t.Context(), data)
			require.NoError(t, err)
		}
	}
	assert.Equal(t, call(t, one, "export", "oslo").text(t), call(t, other, "export", "oslo").text(t))
	assert.Contains(t, call(t, other, "verify").text(t), "ok       oslo")

	again := call(t, other, "import", file)
	again.failed(t, exitFailure, "run oslo already exists; choose another ID: `reprise import "+file+" RUN`")
	assert.Regexp(t, `^imported run bergen \(`, call(t, other, "import", file, "bergen").text(t))
	inJSON := call(t, other, "import", file, "--json", "moss").text(t)
	assert.Contains(t, inJSON, `"run_id": "moss"`)
	assert.Contains(t, inJSON, `"missing_artifacts": 0`)
	inJSON = call(t, filepath.Join(t.TempDir(), "new"), "import", file, "--json").text(t)
	assert.Contains(t, inJSON, `"missing_artifacts": 1`)

	data, err := os.ReadFile(file)
	require.NoError(t, err)
	read := callWith(t, other, func(env *environment) { env.stdin = bytes.NewReader(data) }, "import", "-", "voss")
	assert.Regexp(t, `^imported run voss \(`, read.text(t))
}

func TestImportIntoADirectoryThatDoesNotExistMakesAStore(t *testing.T) {
	one, other := t.TempDir(), filepath.Join(t.TempDir(), "new")
	weather(t, one, "oslo", false, snapshot.Metadata{})
	got := call(t, other, "import", export(t, one, "oslo"))
	require.Equal(t, exitOK, got.code)
	assert.Contains(t, got.stderr, "reprise: created a new store in "+other+"\n")
	assert.Regexp(t, `(?m)^oslo +completed `, call(t, other, "runs").text(t))
}

func TestIncompleteRunIsNotImported(t *testing.T) {
	one, other := t.TempDir(), t.TempDir()
	newStore(t, other)
	weather(t, one, "oslo", true, snapshot.Metadata{})
	file := export(t, one, "oslo")
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	for want, data := range map[string][]byte{
		"no table of checksums":       whole[:len(whole)-1],
		"the checksum does not match": flipped,
		"it is empty":                 {},
		"not a run of Reprise":        []byte("hello"),
		"`reprise export RUN --format msgpack -o FILE` writes such files": []byte(`{"seq":1}`),
	} {
		require.NoError(t, os.WriteFile(file, data, 0o600))
		got := call(t, other, "import", file)
		assert.Equal(t, exitFailure, got.code, want)
		assert.Contains(t, got.stderr, "reprise: "+file+": ")
		assert.Contains(t, got.stderr, want)
		assert.Empty(t, got.stdout)
	}
	endless := callWith(t, other, func(env *environment) { env.stdin = zeros{} }, "import", "-")
	assert.Equal(t, exitFailure, endless.code)
	assert.Contains(t, endless.stderr, "reprise: -: ")
	assert.Contains(t, endless.stderr, "not a run of Reprise")
	require.NoError(t, os.WriteFile(file, whole, 0o600))
	assert.Equal(t, exitUsage, call(t, other, "import", file, "../voss").code)
	assert.Equal(t, exitUsage, call(t, other, "import").code)
	assert.Equal(t, exitFailure, call(t, other, "import", file+".gone").code)
	entries, err := os.ReadDir(filepath.Join(other, "runs"))
	if err == nil {
		assert.Empty(t, entries, "nothing is left of a refused import")
	}
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// Importing a run does not execute it, because the original run may continue, and then calls would
// take effect twice.
func TestAnImportedRunDoesNotContinueUntilItIsResumed(t *testing.T) {
	dir, paid := t.TempDir(), 0
	store := newStore(t, dir)
	pay := func(context.Context, string) (string, error) { paid++; return "paid", nil }
	serve := func() (r *runner.Runner, stop func()) {
		r, err := runner.New(store, runner.Options{})
		require.NoError(t, err)
		runner.Register(r, decorators.Agent("order", "", pay))
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- r.Serve(ctx) }()
		return r, func() { cancel(); require.NoError(t, <-served) }
	}
	began, err := runner.New(store, runner.Options{})
	require.NoError(t, err)
	runner.Register(began, decorators.Agent("order", "", pay))
	_, err = began.Start(t.Context(), "order", "order-1", "a book", runner.StartOptions{})
	require.NoError(t, err)
	file := export(t, dir, "order-1")

	assert.Equal(t, "imported run copy (1 record, interrupted)\n"+
		"it does not continue by itself; to continue it: reprise resume copy\n"+
		"its calls have new idempotency keys: calls of run order-1 without an outcome are made again, even if they have had effects\n",
		call(t, dir, "import", file, "copy").text(t))
	assert.Contains(t, call(t, dir, "runs").text(t), "imported; it continues when it is resumed")

	r, stop := serve()
	_, err = r.Wait(t.Context(), "order-1")
	require.NoError(t, err)
	_, err = r.Start(t.Context(), "order", "order-2", "a pen", runner.StartOptions{})
	require.NoError(t, err)
	_, err = r.Wait(t.Context(), "order-2")
	require.NoError(t, err)
	stop()
	assert.Equal(t, 2, paid, "order-1 and order-2")

	call(t, dir, "resume", "copy").text(t)
	r, stop = serve()
	info, err := r.Wait(t.Context(), "copy")
	require.NoError(t, err)
	stop()
	assert.Equal(t, snapshot.StatusCompleted, info.Status)
	assert.Equal(t, 3, paid)
}
