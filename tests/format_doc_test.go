package tests

import (
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// section returns the text of docs/format.md below a heading.
func section(t *testing.T, heading string) string {
	t.Helper()
	data, err := os.ReadFile("../docs/format.md")
	require.NoError(t, err)
	_, text, found := strings.Cut(string(data), "\n"+heading+"\n")
	require.True(t, found, heading)
	text, _, _ = strings.Cut(text, "\n#")
	return text
}

func TestFormatDocumentHasEveryNumber(t *testing.T) {
	for heading, name := range map[string]func(uint8) string{
		"### Kinds":    func(n uint8) string { return record.Kind(n).String() },
		"### Statuses": func(n uint8) string { return record.Status(n).String() },
		"### Reasons":  func(n uint8) string { return record.Reason(n).String() },
		"### Stages":   func(n uint8) string { return record.Stage(n).String() },
		"### Classes":  func(n uint8) string { return record.Class(n).String() },
		"### Sources":  func(n uint8) string { return record.Source(n).String() },
	} {
		want := make(map[string]string)
		for n := range uint8(255) {
			if s := name(n); s != "" && !strings.Contains(s, "(") { // "kind(12)" is not a name
				want[fmt.Sprint(n)] = s
			}
		}
		got := make(map[string]string)
		for _, row := range regexp.MustCompile("(?m)^\\| (\\d+) \\| `(\\w+)` \\|").FindAllStringSubmatch(section(t, heading), -1) {
			got[row[1]] = row[2]
		}
		assert.Equal(t, want, got, heading)
	}
}

func TestFormatDocumentShowsTheBytesOfARecord(t *testing.T) {
	address, err := record.ParseAddress("assistant/get_weather")
	require.NoError(t, err)
	data, err := snapshot.AppendRecord(nil, &record.Record{
		Seq: 2, Generation: 1, Ordinal: 1, Time: time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC), Address: address, Name: "get_weather",
		Kind: record.KindTool, Status: record.StatusFailed, Reason: record.ReasonExhausted, Stage: record.StageHandler,
		Class: record.ClassEOF, Attempt: 2, MaxAttempts: 3, Duration: 153 * time.Millisecond, Elapsed: 2 * time.Second,
		Err: &record.Error{
			Message: "unexpected EOF", Type: "*errors.errorString", Class: record.ClassEOF, Sentinels: []string{"io.ErrUnexpectedEOF"},
		},
	})
	require.NoError(t, err)
	text := section(t, "## An example")
	_, block, _ := strings.Cut(text, "```text\n")
	block, _, _ = strings.Cut(block, "```")
	var shown []byte
	for line := range strings.Lines(block) {
		digits, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		row, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		require.NoError(t, err, line)
		shown = append(shown, row...)
	}
	assert.Equal(t, hex.EncodeToString(data), hex.EncodeToString(shown))
	assert.Contains(t, text, fmt.Sprintf("%d bytes", len(data)))
}

func TestFormatDocumentIsOfThisVersion(t *testing.T) {
	data, err := os.ReadFile("../docs/format.md")
	require.NoError(t, err)
	assert.Contains(t, string(data), fmt.Sprintf("# The format of a stored run, version %d\n", snapshot.FormatVersion))
}
