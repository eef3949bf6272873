package tests

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Hello and tutorial are programs of the documentation, which look at no arguments.
func TestExamplesRefuseArgumentsThatTheyDoNotKnow(t *testing.T) {
	if testing.Short() {
		t.Skip("it links all examples")
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+"/", "./chat", "./dashboard", "./quickstart", "./r3labs", "./research", "./resume", "./service",
		"./seeds/argyll", "./seeds/noetl", "./seeds/rh_agents", "./seeds/tasker")
	build.Dir = filepath.Join("..", "examples")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	programs, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, programs, 11)
	for _, program := range programs {
		cmd := exec.Command(program, "nonsense")
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%s: %s", program, out)
		assert.Contains(t, string(out), `unexpected argument "nonsense"`, program)
	}
}
