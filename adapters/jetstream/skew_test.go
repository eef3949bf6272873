package jetstream_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// skewedBinary builds this test with a clock that is off by the number of seconds in REPRISE_SKEW,
// exactly as on a machine with a wrong clock. This takes minutes, because all packages are
// recompiled.
func skewedBinary(t *testing.T) string {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	file := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	const reading = "sec, nsec, mono := runtimeNow()"
	require.Contains(t, string(source), reading)
	skewed := strings.ReplaceAll(string(source), reading, reading+"\n\tsec += skew")
	skewed = strings.Replace(skewed, "import (", "import (\n\t\"syscall\"", 1) + `
var skew = func() (seconds int64) {
	text, _ := syscall.Getenv("REPRISE_SKEW")
	for _, digit := range text {
		if digit >= '0' && digit <= '9' {
			seconds = 10*seconds + int64(digit-'0')
		}
	}
	if len(text) > 0 && text[0] == '-' {
		return -seconds
	}
	return seconds
}()
`
	dir := t.TempDir()
	replaced, overlay, binary := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "skewed.test")
	require.NoError(t, os.WriteFile(replaced, []byte(skewed), 0o600))
	text, err := json.Marshal(map[string]map[string]string{"Replace": {file: replaced}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, text, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}
