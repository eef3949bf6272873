package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/snapshot"
)

func TestProgramAsAProcess(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	execute := func(args ...string) result {
		var stdout, stderr bytes.Buffer
		cmd := reprise(t, args...)
		cmd.Env = append(cmd.Env, "REPRISE_DIR="+dir)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			require.NoError(t, err)
		}
		return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	}

	assert.Contains(t, execute("runs").text(t), "oslo")
	assert.Contains(t, execute("show", "oslo").text(t), "COMPLETED")
	assert.Regexp(t, `^reprise \S+ \(go`, execute("--version").text(t))
	execute("show", "nobody").failed(t, exitFailure, noRun("nobody", dir))
	execute("show").failed(t, exitUsage, "RUN is missing: usage is reprise show RUN [flags]")
	execute("delete", "oslo").failed(t, exitFailure, "no terminal to ask for confirmation; --yes deletes without asking") // stdin is the null device
	assert.Contains(t, execute("completion", "zsh").text(t), "#compdef reprise")

	t.Run("a closed output is not an error", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, r.Close())
		var stderr bytes.Buffer
		cmd := reprise(t, "--dir", dir, "export", "oslo")
		cmd.Stdout, cmd.Stderr = w, &stderr
		assert.Error(t, cmd.Run())
		require.NoError(t, w.Close())
		assert.Empty(t, stderr.String())
	})
}

// The process asks for confirmation at a terminal where nobody answers, and receives a
// real Ctrl-C.
func TestSignalInterruptsTheProcess(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there is no terminal for the question: %v", err)
	}
	defer terminal.Close()
	for name, signal := range map[string]os.Signal{"Ctrl-C": os.Interrupt, "kill": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			weather(t, dir, "oslo", false, snapshot.Metadata{})
			cmd := reprise(t, "--dir", dir, "delete", "oslo")
			cmd.Stdin = terminal
			stderr, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			const question = "Delete run oslo permanently? [y/N] "
			asked := make([]byte, len(question))
			_, err = io.ReadFull(stderr, asked)
			require.NoError(t, err)
			require.Equal(t, question, string(asked))
			require.NoError(t, cmd.Process.Signal(signal))
			rest, err := io.ReadAll(stderr)
			require.NoError(t, err)
			require.Error(t, cmd.Wait())
			assert.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
			assert.Equal(t, "reprise: interrupted\n", strings.TrimPrefix(string(rest), "\n"))
			assert.Contains(t, call(t, dir, "runs").text(t), "oslo")
		})
	}
}

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"reprise": func(...string) error {
		main()
		return nil
	}})
}

// reprise returns a command that runs the program with arguments in a process.
func reprise(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return process.Command(t, "reprise", args...)
}
