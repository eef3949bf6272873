package tests

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
)

// readByNode runs a JavaScript program that reads files as described in docs/format.md. It uses a
// msgpack library, but no code of Reprise.
func readByNode(t *testing.T, args ...string) []byte {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("skipped: node is not installed")
	}
	if _, err := os.Stat("formatreader/node_modules/@msgpack/msgpack"); err != nil {
		t.Skip("skipped: run npm ci --prefix tests/formatreader first")
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), node, append([]string{"formatreader/read.mjs"}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return bytes.TrimSpace(out)
}

// asJSON is a value that can be encoded only as JSON.
type asJSON struct{ text string }

func (a asJSON) MarshalJSON() ([]byte, error)     { return []byte(a.text), nil }
func (a *asJSON) UnmarshalJSON(data []byte) error { a.text = string(data); return nil }

func TestValuesAreReadByAnotherLanguage(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 30, 0, 123456789, time.UTC)
	encoded, err := record.Encode(map[string]any{
		"reply": asJSON{`{"b":[1.5,"größe",null],"a":{}}`}, "list": []asJSON{{"1"}, {`"x"`}}, "n": -7, "bytes": []byte{0, 255},
		"utc": at.Truncate(time.Millisecond), "zoned": at.In(time.FixedZone("", -(3*60+30)*60)), "east": time.Date(1900, 1, 1, 0, 0, 0, 1, time.FixedZone("", 5*60*60+45*60)),
	})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "value")
	require.NoError(t, os.WriteFile(file, encoded, 0o600))
	assert.JSONEq(t, `{"reply":{"b":[1.5,"größe",null],"a":{}},"list":[1,"x"],"n":-7,"bytes":"AP8=","utc":"2026-11-20T08:30:00.123Z",
		"zoned":"2026-11-20T05:00:00.123456789-03:30","east":"1900-01-01T00:00:00.000000001+05:45"}`, string(readByNode(t, "--value", file)))
}

func TestSnapshotsAreReadByAnotherLanguage(t *testing.T) {
	fresh, err := sample(t).Encode()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "fresh.snapshot")
	require.NoError(t, os.WriteFile(file, fresh, 0o600))
	for _, file := range append(goldenSnapshots(t), file) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			want := exported(t, data)
			want["header"].(map[string]any)["summary"] = nil // none of the runs was closed by package state
			lines := bytes.Split(readByNode(t, file), []byte("\n"))
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
