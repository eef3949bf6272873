package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTableOfImportsMatchesTheLinter(t *testing.T) {
	rules, err := os.ReadFile("../../.golangci.yml")
	require.NoError(t, err)
	document, err := os.ReadFile("../../CONTRIBUTING.md")
	require.NoError(t, err)
	want, err := tableOf(rules)
	require.NoError(t, err)
	_, got, _, err := cut(string(document))
	require.NoError(t, err)
	assert.Equal(t, want, got, "run `cd tools && go run ./imports`")
}

// TestFoldersOfTheTableExist checks that the folders in the rules exist.
func TestFoldersOfTheTableExist(t *testing.T) {
	rules, err := os.ReadFile("../../.golangci.yml")
	require.NoError(t, err)
	folders, err := foldersOf(rules)
	require.NoError(t, err)
	for _, folder := range folders {
		assert.DirExists(t, filepath.Join("..", "..", folder))
	}
}

const config = `
linters:
  settings:
    depguard:
      rules:
        core:
          list-mode: strict
          files: ["${base-path}/core/**", "!${base-path}/core/live/**", "!$test"]
          allow: [$gostd, github.com/reprise-go/reprise/record$, github.com/reprise-go/reprise/internal/codec$]
          deny: [{pkg: net/http, desc: it knows no transport}]
        leaves:
          list-mode: strict
          files: ["${base-path}/internal/mark/**", "${base-path}/internal/enum/**"]
          allow: [$gostd]
        codec:
          list-mode: strict
          files: ["${base-path}/internal/codec/**"]
          allow: [$gostd, github.com/vmihailenco/msgpack/v5, golang.org/x/sys/unix$]
        msgpack:
          list-mode: lax
          deny: [{pkg: github.com/vmihailenco/msgpack, desc: internal/codec is its only importer}]
`

func TestRulesBecomeLines(t *testing.T) {
	table, err := tableOf([]byte(config))
	require.NoError(t, err)
	assert.Equal(t, header+
		"| `core` | `internal/codec`, `record`; no `net/http` |\n"+
		"| `internal/codec` | `github.com/vmihailenco/msgpack/v5` as its only importer, `golang.org/x/sys/unix` |\n"+
		"| `internal/enum`, `internal/mark` | nothing |\n", table)
}

func TestWriteReplacesOnlyTheTable(t *testing.T) {
	dir := t.TempDir()
	rules, document := filepath.Join(dir, "rules.yml"), filepath.Join(dir, "text.md")
	require.NoError(t, os.WriteFile(rules, []byte(config), 0o600))
	require.NoError(t, os.WriteFile(document, []byte("before\n"+begin+"old\n"+end+"after\n"), 0o600))
	require.NoError(t, write(rules, document))
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	table, err := tableOf([]byte(config))
	require.NoError(t, err)
	assert.Equal(t, "before\n"+begin+table+end+"after\n", string(text))
}

func TestWhatIsNotATableIsRefused(t *testing.T) {
	dir := t.TempDir()
	rules, document := filepath.Join(dir, "rules.yml"), filepath.Join(dir, "text.md")
	require.NoError(t, os.WriteFile(document, []byte("no table\n"), 0o600))
	for text, want := range map[string]string{
		"linters: [":  "rules.yml: yaml: ",
		"linters: {}": "depguard has no rule in strict mode",
		config:        "text.md: the lines that mark the table are missing",
		"linters: {settings: {depguard: {rules: {a: {list-mode: strict}}}}}": "the rule a is in strict mode, but applies to no folder below ${base-path}",
	} {
		require.NoError(t, os.WriteFile(rules, []byte(text), 0o600))
		assert.ErrorContains(t, write(rules, document), want)
	}
}
