package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReleasedModulesInstallAsAUserDoes installs the modules from the files of this tree.
func TestReleasedModulesInstallAsAUserDoes(t *testing.T) {
	const version = "v0.99.0"
	repository, err := filepath.Abs("../..")
	require.NoError(t, err)
	needsGit(t)
	if _, err := git(t.Context(), repository, "rev-parse", "--git-dir"); err != nil {
		t.Skip("needs the files that git tracks")
	}
	require.NoError(t, checkModules(t.Context(), repository))
	require.NoError(t, checkReplaces(repository))
	proxy := t.TempDir()
	_, err = writeProxy(t.Context(), repository, proxy, version)
	require.NoError(t, err)
	fresh, err := newFreshInstall(t.Context(), t.TempDir(), proxy)
	require.NoError(t, err)
	lines, err := installLines(repository)
	require.NoError(t, err)
	assert.Contains(t, lines, "go install "+rootPath+"/cmd/reprise@latest")
	assert.Contains(t, lines, "go install "+rootPath+"/adapters/jetstream/cmd/reprise-jetstream@latest")
	assert.Contains(t, lines, "go install "+rootPath+"/adapters/postgres/cmd/reprise-postgres@latest")
	assert.Contains(t, lines, "go get "+rootPath)
	require.NoError(t, fresh.install(t.Context(), lines, version, false))
}
