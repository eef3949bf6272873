package tests

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit/process"
)

// TestExamplesRefuseArgumentsThatTheyDoNotKnow: those without tests. The others test it
// themselves, but for the program of the README, which has no arguments to look at.
func TestExamplesRefuseArgumentsThatTheyDoNotKnow(t *testing.T) {
	if testing.Short() {
		t.Skip("it links examples")
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/", "./dashboard", "./quickstart", "./r3labs")
	build.Dir = filepath.Join("..", "examples")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	programs, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, programs, 3)
	for _, program := range programs {
		process.Refuses(t, exec.CommandContext(t.Context(), program))
	}
}
