package tests

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSnapshotsAreReadByAnotherLanguage reads them with a program that knows
// docs/format.md and a msgpack library, and nothing of Reprise.
func TestSnapshotsAreReadByAnotherLanguage(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("skipped: node is not installed")
	}
	if _, err := os.Stat("formatreader/node_modules/@msgpack/msgpack"); err != nil {
		t.Skip("skipped: run npm ci --prefix tests/formatreader first")
	}
	fresh, err := sample(t).Encode()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "fresh.snapshot")
	require.NoError(t, os.WriteFile(file, fresh, 0o600))
	for _, file := range append(goldenSnapshots(t), file) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			want := exported(t, data)
			var stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), node, "formatreader/read.mjs", file)
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			require.NoError(t, err, stderr.String())
			lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
			parts := append([]any{want["header"]}, want["records"].([]any)...)
			require.Len(t, lines, len(parts))
			for i, part := range parts {
				text, err := json.Marshal(part)
				require.NoError(t, err)
				assert.JSONEq(t, string(text), string(lines[i]))
			}
		})
	}
}
