package browser

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	programs string   // directory of the programs, removed after all tests
	builds   sync.Map // by package; each value is a func() (string, error)
)

// built returns the path of the program built from a package of the root module. Each
// package is built once.
func built(t *testing.T, pkg string) string {
	t.Helper()
	build, _ := builds.LoadOrStore(pkg, sync.OnceValues(func() (string, error) {
		program := filepath.Join(programs, filepath.Base(pkg))
		cmd := exec.Command("go", "build", "-o", program, pkg)
		cmd.Dir = filepath.Join("..", "..") // the root module
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build %s: %w: %s", pkg, err, out)
		}
		return program, nil
	}))
	program, err := build.(func() (string, error))()
	require.NoError(t, err)
	return program
}
