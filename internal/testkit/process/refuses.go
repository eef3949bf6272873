package process

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// RefusesArguments checks that the program, given an unknown argument, exits with an error
// that names the argument.
func RefusesArguments(t *testing.T, program string) {
	t.Helper()
	Refuses(t, Command(t, program))
}

// Refuses is like RefusesArguments, but takes the command of a program that is already built.
func Refuses(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Args = append(cmd.Args, "nonsense")
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v: %s", cmd, out)
	assert.Contains(t, string(out), `unexpected argument "nonsense"`, "%v", cmd)
}
