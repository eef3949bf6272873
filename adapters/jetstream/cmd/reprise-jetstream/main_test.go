package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
	"github.com/reprise-go/reprise/state"
)

// TestRunsMoveBetweenStores moves a run from a directory to a server, to a file, and to another
// directory. The run has an output that is an artifact, and a waiting answer.
func TestRunsMoveBetweenStores(t *testing.T) {
	url := jstest.Start(t).URL()
	dir, other, file := t.TempDir(), filepath.Join(t.TempDir(), "other"), filepath.Join(t.TempDir(), "run")
	from, err := filestore.New(dir)
	require.NoError(t, err)
	st, err := state.Open(t.Context(), from, "run-1", state.WithMetadata(snapshot.Metadata{Pipeline: "p"}))
	require.NoError(t, err)
	large := bytes.Repeat([]byte("x"), 200_000)
	_, err = core.Step(st.Context(t.Context()), "large", func(context.Context) ([]byte, error) { return large, nil })
	require.NoError(t, err)
	require.NoError(t, st.Close())
	require.NoError(t, from.Post(t.Context(), "run-1", storetest.Answer("a?1", "yes")))
	want, err := from.Load(t.Context(), "run-1")
	require.NoError(t, err)

	do := func(args ...string) string {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), append([]string{"-url", url}, args...), &out, &out))
		return out.String()
	}
	assert.Equal(t, "run run-1 was copied\n", do("copy-from", dir))
	assert.Contains(t, do("runs"), "run-1\tcompleted\t")
	do("export", "run-1", file)
	assert.Equal(t, "run run-1 was copied\n", do("copy-to", other))
	var out bytes.Buffer
	err = run(t.Context(), []string{"-url", url, "import", file}, &out, &out)
	require.ErrorIs(t, err, snapshot.ErrExists)
	assert.Equal(t, "run run-1 was imported\nrun run-1: 1 of its artifacts are not in this store; copy-from and copy-to copy artifacts, too\n", do("-store", "second", "import", file))

	const reads = `^reading [1-9]\d* messages of runs, [1-9]\d* bytes, and the entries of `
	assert.Regexp(t, reads+`1 artifacts\nartifacts removed: 0\n$`, do("gc"))
	assert.Regexp(t, reads+`1 artifacts\nartifacts removed: 0\n$`, do("gc", "0s"), "a run refers to it")
	assert.Regexp(t, reads+`0 artifacts\nartifacts removed: 0\n$`, do("-store", "second", "gc", "0s"))

	conn := jstest.Connect(t, url)
	_, err = conn.Request("$JS.API.STREAM.PURGE.RPI_reprise", nil, time.Minute) // removes the list of runs
	require.NoError(t, err)
	assert.Equal(t, "1 runs were missing from the list, or outdated in it\n0 runs that do not exist were removed from the list\n0 runs were queued again\n", do("repair"))
	assert.Contains(t, do("runs"), "run-1\tcompleted\t")

	to, err := filestore.New(other)
	require.NoError(t, err)
	got, err := to.Load(t.Context(), "run-1")
	require.NoError(t, err)
	assert.Equal(t, want.Len(), got.Len())
	assert.Equal(t, want.Metadata, got.Metadata)
	messages, err := to.Messages(t.Context(), "run-1")
	require.NoError(t, err)
	assert.Len(t, messages, 1)
	sn, err := got.Snapshot()
	require.NoError(t, err)
	require.Len(t, sn.Artifacts(), 1)
	_, err = to.Get(t.Context(), sn.Artifacts()[0])
	require.NoError(t, err)
}

// TestPermissionsAreThoseOfTheStore checks that the permissions depend on the name, the domain and
// the prefix.
func TestPermissionsAreThoseOfTheStore(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-store", "mine", "permissions", "-domain", "hub", "worker"}, &out, &out))
	for _, subject := range []string{"$JS.hub.API.INFO", "$JS.hub.API.STREAM.PURGE.RP_mine", "rp.mine.r.>", "$JS.ACK.RQ_mine.>", "_INBOX.>"} {
		assert.Contains(t, out.String(), `"`+subject+`"`)
	}
	assert.NotContains(t, out.String(), "reprise")
	out.Reset()
	require.NoError(t, run(t.Context(), []string{"-api-prefix", "JS.A.API", "permissions", "dashboard"}, &out, &out))
	assert.Contains(t, out.String(), `"JS.A.API.INFO"`)
	assert.NotContains(t, out.String(), "PURGE")

	url := jstest.Start(t).URL()
	out.Reset()
	require.NoError(t, run(t.Context(), []string{"-url", url, "init"}, &out, &out))
	assert.Equal(t, "the streams of the store exist\n", out.String())
}

// The command accepts a store's URL with its parameters, as a service does.
func TestStoreOfTheURLIsUsed(t *testing.T) {
	url := jstest.Start(t).URL()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-url", url + "?store=mine&lease=5s", "copy-from", directoryWithARun(t)}, &out, &out))
	out.Reset()
	require.NoError(t, run(t.Context(), []string{"-url", url, "-store", "mine", "runs"}, &out, &out))
	assert.Contains(t, out.String(), "run-1")
	out.Reset()
	require.NoError(t, run(t.Context(), []string{"-url", url, "runs"}, &out, &out))
	assert.Empty(t, out.String(), "another store")
	require.NoError(t, run(t.Context(), []string{"-url", strings.TrimPrefix(url, "nats://") + "?store=mine", "-store", "mine", "runs"}, &out, &out))
	assert.Contains(t, out.String(), "run-1")

	out.Reset()
	require.NoError(t, run(t.Context(), []string{"-url", url + "?store=mine&domain=hub", "permissions", "worker"}, &out, &out))
	assert.Contains(t, out.String(), `"$JS.hub.API.STREAM.PURGE.RP_mine"`)
	for parameters, want := range map[string]string{
		"domain=nowhere":              `no JetStream for the domain "nowhere"`,
		"api_prefix=JS.nowhere.API":   "no JetStream at JS.nowhere.API.>",
		"creds=/none":                 "/none",
		"store=new&replicas=3":        "replicas",
		"replicas=none":               `the store: replicas is "none"; want`,
		"name=x":                      `unknown parameter "name" in its URL; want store, replicas, lease, creds, domain or api_prefix`,
		"store=mine&replicas=1&lease": `lease is ""; want`,
	} {
		require.ErrorContains(t, run(t.Context(), []string{"-url", url + "?" + parameters, "runs"}, &out, &out), want, parameters)
	}
	err := run(t.Context(), []string{"-url", url + "?api_prefix=a", "-api-prefix", "b", "runs"}, &out, &out)
	require.EqualError(t, err, "the store's URL has api_prefix=a, but -api-prefix is b; want only one of them")
	err = run(t.Context(), []string{"-url", "nats://app:secret@127.0.0.1:1", "runs"}, &out, &out)
	require.ErrorContains(t, err, "connect to nats://app:xxxxx@127.0.0.1:1: ")
}

func directoryWithARun(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	st, err := state.Open(t.Context(), store, "run-1")
	require.NoError(t, err)
	require.NoError(t, st.Close())
	return dir
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	for _, args := range [][]string{nil, {"move"}, {"export", "run-1"}, {"runs", "x"}, {"copy-from"}} {
		var out bytes.Buffer
		err := run(t.Context(), args, &out, &out)
		require.ErrorContains(t, err, "want runs | copy-from DIR [RUN...]")
	}
	err := run(t.Context(), []string{"permissions", "boss"}, &bytes.Buffer{}, &bytes.Buffer{})
	require.ErrorContains(t, err, `no role "boss"; want one of ["dashboard" "client" "worker" "admin"]`)
	err = run(t.Context(), []string{"-domain", "a", "-api-prefix", "b", "permissions", "worker"}, &bytes.Buffer{}, &bytes.Buffer{})
	require.ErrorContains(t, err, `Domain is "a" and APIPrefix is "b"; want only one of them`)
	for _, grace := range []string{"soon", "-1h"} {
		err := run(t.Context(), []string{"gc", grace}, &bytes.Buffer{}, &bytes.Buffer{})
		require.ErrorContains(t, err, "want a duration of 0 or more")
	}
	err = run(t.Context(), []string{"-url", "nats://127.0.0.1:1", "runs"}, &bytes.Buffer{}, &bytes.Buffer{})
	require.ErrorContains(t, err, "connect to nats://127.0.0.1:1")
}

// The run is interrupted because the original of an imported run may also continue.
func TestAnImportedRunIsInterruptedUntilItIsResumed(t *testing.T) {
	url, file := jstest.Start(t).URL(), filepath.Join(t.TempDir(), "run")
	queued, err := snapshot.NewRun(snapshot.Info{RunID: "run-1", Status: snapshot.StatusQueued, Program: "job", Version: "1"}, func(func(record.Record, error) bool) {})
	require.NoError(t, err)
	require.NoError(t, queued.WriteFile(file))
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-url", url, "import", file}, &out, &out))
	assert.Equal(t, "run run-1 was imported\nrun run-1 is interrupted, and does not continue by itself\n", out.String())

	store := openStore(t, jstest.Connect(t, url), "reprise")
	info, err := store.Info(t.Context(), "run-1")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusInterrupted, info.Status)
	assert.Equal(t, "imported; it continues when it is resumed", info.Stop.Message)
	info, err = state.Resume(t.Context(), store, "run-1")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusQueued, info.Status)
}
