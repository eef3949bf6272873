package tests

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit/process"
)

// TestLinkedExamples tests the examples to which the README links and that have no tests of their
// own. It does not test the first program of the README, which has no arguments.
func TestLinkedExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("the README links examples")
	}
	dir := t.TempDir()
	link := func(args ...string) string {
		build := exec.CommandContext(t.Context(), "go", append([]string{"build", "-o", dir + "/"}, args...)...)
		build.Dir = filepath.Join("..", "examples")
		out, err := build.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	link("./dashboard", "./r3labs")
	dependencies := link("-ldflags=-dumpdep", "./quickstart")

	t.Run("RefuseUnknownArguments", func(t *testing.T) {
		programs, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		require.Len(t, programs, 3)
		for _, program := range programs {
			process.Refuses(t, exec.CommandContext(t.Context(), program))
		}
	})
	// If a program can reach Method or MethodByName of reflect, the linker keeps all exported
	// methods, which makes programs a fifth larger. All it takes is that a type that embeds
	// reflect.Type is converted to an interface.
	t.Run("DropMethodsThatNobodyCalls", func(t *testing.T) {
		require.Contains(t, dependencies, "main.main -> ", "the linker prints the dependencies")
		for line := range strings.Lines(dependencies) {
			if strings.Contains(line, "<ReflectMethod>") {
				t.Errorf("reflect can call any method here, so the linker keeps them all: %s", line)
			}
		}
	})
}
