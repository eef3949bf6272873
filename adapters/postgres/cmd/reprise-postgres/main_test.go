package main

import (
	"bytes"
	"context"
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/adapters/postgres/internal/pgserver/pgtest"
	"github.com/reprise-go/reprise/adapters/postgres/service"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
	"github.com/reprise-go/reprise/state"
)

// TestRunsMoveBetweenStores moves a run from a directory to a database, and from there to another
// directory. The run has an output that is an artifact, and an answer waits for the run.
func TestRunsMoveBetweenStores(t *testing.T) {
	url := pgtest.Start(t)
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	from, err := filestore.New(dir)
	require.NoError(t, err)
	st, err := state.Open(t.Context(), from, "run-1", state.WithMetadata(snapshot.Metadata{Pipeline: "p", Tags: []string{"kept"}}))
	require.NoError(t, err)
	_, err = core.Step(st.Context(t.Context()), "large", func(context.Context) ([]byte, error) { return make([]byte, 200_000), nil })
	require.NoError(t, err)
	require.NoError(t, st.Close())
	require.NoError(t, from.Post(t.Context(), "run-1", storetest.Answer("a?1", "yes")))
	want, err := from.Load(t.Context(), "run-1")
	require.NoError(t, err)

	do := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), append([]string{"-store", url, "-schema", "Runs-1"}, args...), &out, &out))
		return out.String()
	}
	var out bytes.Buffer
	require.ErrorIs(t, run(t.Context(), []string{"-store", url, "runs"}, &out, &out), postgres.ErrSchemaOld)
	assert.Equal(t, "schema Runs-1 was migrated to the version of this command\n", do("migrate"))
	assert.Equal(t, "schema Runs-1 has the version of this command; nothing was changed\n", do("migrate"))
	assert.Equal(t, "run run-1 was copied\n", do("copy-from", dir))
	assert.Equal(t, "run run-1 was copied\n", do("copy-from", dir), "copying again continues the copy")
	assert.Contains(t, do("runs"), "run-1\tcompleted\t")
	assert.Equal(t, "ok       run-1: 4 records\n", do("verify"))
	assert.Equal(t, "artifacts removed: 0\n", do("gc", "0s"), "a run refers to it")
	assert.Equal(t, "run run-1 was copied\n", do("copy-to", other))
	to, err := filestore.New(other)
	require.NoError(t, err)
	got, err := to.Load(t.Context(), "run-1")
	require.NoError(t, err)
	assert.Equal(t, want.Metadata, got.Metadata)
	require.Equal(t, want.Len(), got.Len())
	for seq := uint64(1); seq <= uint64(want.Len()); seq++ {
		assert.Equal(t, want.Encoded(seq), got.Encoded(seq))
	}
	waiting, err := to.Messages(t.Context(), "run-1")
	require.NoError(t, err)
	assert.Len(t, waiting, 1)

	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	_, err = conn.Exec(t.Context(), `update "Runs-1".artifacts set data = 'x'`)
	require.NoError(t, err)
	require.ErrorIs(t, run(t.Context(), []string{"-store", url, "-schema", "Runs-1", "verify"}, &out, &out), snapshot.ErrCorrupt)
	_, err = conn.Exec(t.Context(), `delete from "Runs-1".runs`)
	require.NoError(t, err)
	assert.Equal(t, "artifacts removed: 1\n", do("gc", "0s"))
}

// The printed statements can be applied with another tool.
func TestPrintedMigrationsAreThoseThatAreApplied(t *testing.T) {
	url := pgtest.Start(t)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-schema", "mine", "migrate", "--print"}, &out, &out))
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	_, err = conn.PgConn().Exec(t.Context(), "begin;\n"+out.String()+"commit;").ReadAll()
	require.NoError(t, err)
	out.Reset()
	require.NoError(t, run(t.Context(), []string{"-store", url, "-schema", "mine", "runs"}, &out, &out))
	require.NoError(t, run(t.Context(), []string{"migrate", "--print", "1"}, &out, &out))
	assert.Empty(t, out.String())
	require.NoError(t, run(t.Context(), []string{"-store", url, "-schema", "mine", "migrate"}, &out, &out))
	assert.Equal(t, "schema mine has the version of this command; nothing was changed\n", out.String())
	out.Reset()
	require.NoError(t, run(t.Context(), []string{"-store", url, "migrate"}, &out, &out))
	assert.Equal(t, "schema reprise was migrated to the version of this command\n", out.String())
}

// The command and a service accept the same URL for a store.
func TestSchemaOfTheURLIsMigrated(t *testing.T) {
	url := pgtest.Start(t)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"migrate", "-store", url + "&schema=agents"}, &out, &out))
	out.Reset()
	_, _, done, err := service.Open(t.Context(), url+"&schema=agents")
	require.NoError(t, err)
	require.NoError(t, done())
	require.NoError(t, run(t.Context(), []string{"-store", url, "runs", "-schema", "agents"}, &out, &out))
	require.NoError(t, run(t.Context(), []string{"-store", url + "&schema=agents", "-schema", "agents", "verify"}, &out, &out))
	assert.Empty(t, out.String())
	require.NoError(t, run(t.Context(), []string{"-store", url + "&schema=agents", "migrate", "-print"}, &out, &out))
	assert.Contains(t, out.String(), `create schema if not exists "agents"`)
}

func TestHelpAfterTheNameOfTheCommand(t *testing.T) {
	var out bytes.Buffer
	require.ErrorIs(t, run(t.Context(), []string{"migrate", "-h"}, &out, &out), flag.ErrHelp)
	assert.Contains(t, out.String(), "reprise-postgres [flags] migrate")
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	t.Setenv("DATABASE_URL", "")
	for args, want := range map[string]string{
		"":                                  "want migrate",
		"fly":                               `got ["fly"], want migrate`,
		"copy-from":                         "want migrate",
		"gc soon":                           `gc "soon": want a duration`,
		"runs":                              "no database is given",
		"-schema a.b migrate --print":       `schema "a.b"; want`,
		"migrate --print 7":                 "from version 7; want 0 to 1",
		"migrate --print all":               "want the version",
		"migrate --print 0 1":               "want the version",
		"runs --print":                      `-print is only for the command migrate; got ["runs"]`,
		"migrate --print -store mysql://db": "is not a PostgreSQL URL; want one such as postgres://",
		"-store postgres://%zz runs":        "is not a PostgreSQL URL",
		"-store postgres://db/?port=x runs": "-store: ",
		"-store postgres://db/app?schema=a -schema b migrate": "the store's URL has schema=a, but -schema is b",
		"-store postgres://127.0.0.1:1/ runs":                 "connect",
	} {
		var out bytes.Buffer
		err := run(t.Context(), strings.Fields(args), &out, &out)
		assert.ErrorContains(t, err, want, args)
	}
}
