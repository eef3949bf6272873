package process_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit/process"
)

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"echo": echo, "serve": serve, "chatter": chatter, "write": write})
}

func echo(args ...string) error {
	fmt.Println(strings.Join(args, " "))
	if len(args) == 0 {
		return errors.New("nothing to say")
	}
	return nil
}

func serve(...string) error {
	fmt.Println("preparing")
	fmt.Println("ready")
	ctx, cancel := process.UntilStdinEnds()
	defer cancel()
	<-ctx.Done()
	fmt.Println("stopped")
	return nil
}

// chatter prints more than fits into a pipe before it is ready.
func chatter(...string) error {
	for n := range 10_000 {
		fmt.Println("line", n)
	}
	fmt.Fprintln(os.Stderr, "ready")
	ctx, cancel := process.UntilStdinEnds()
	defer cancel()
	<-ctx.Done()
	return nil
}

// write creates files in a directory until it is killed.
func write(args ...string) error {
	fmt.Println("ready")
	for n := 0; ; n++ {
		if err := os.WriteFile(filepath.Join(args[0], fmt.Sprint(n%1000)), nil, 0o600); err != nil {
			return err
		}
	}
}

func TestProgramsGetTheirArgumentsAndReturnTheirErrors(t *testing.T) {
	out, err := process.Command(t, "echo", "-v", "a b").Output()
	require.NoError(t, err)
	assert.Equal(t, "-v a b\n", string(out))
	for program, want := range map[string]string{"echo": "nothing to say", "none": `no program "none"`} {
		cmd := process.Command(t, program)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		assert.False(t, process.Killed(err))
		assert.Contains(t, string(out), want)
		assert.Equal(t, 1, cmd.ProcessState.ExitCode())
	}
}

func TestProcessContinuesIfItsOutputIsNotRead(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd := process.Command(t, "chatter")
	cmd.Stderr = w
	p := process.Start(t, cmd)
	require.NoError(t, w.Close())
	lines := bufio.NewScanner(r)
	require.True(t, lines.Scan())
	assert.Equal(t, "ready", lines.Text())
	line, ok := p.Line()
	assert.True(t, ok)
	assert.Equal(t, "line 0", line)
	p.Stop()
}

func TestProcessHasEndedBeforeTheDirectoryOfItsTestIsRemoved(t *testing.T) {
	for range 5 {
		t.Run("", func(t *testing.T) { process.Start(t, process.Command(t, "write", t.TempDir())).Await("ready") })
	}
}

func TestProcessIsStoppedOrKilled(t *testing.T) {
	p := process.Start(t, process.Command(t, "serve"))
	p.Await("ready")
	p.Stop()
	p = process.Start(t, process.Command(t, "serve"))
	p.Await("ready")
	p.Kill()
	assert.Equal(t, -1, p.Wait())

	cmd := process.Command(t, "serve")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	_, err = cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.True(t, bufio.NewScanner(out).Scan())
	require.NoError(t, cmd.Process.Signal(os.Kill))
	assert.True(t, process.Killed(cmd.Wait()))
}

// A process can be interrupted even if a shell runs the tests in the background, which makes the
// tests ignore Ctrl-C.
func TestProcessCanBeInterrupted(t *testing.T) {
	cmd := process.Command(t, "serve")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `trap '' INT; exec "$0" -test.run '^TestProcessThatIsInterruptedEnds$' -test.count 1`, cmd.Path).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestProcessThatIsInterruptedEnds(t *testing.T) {
	cmd := process.Command(t, "serve")
	p := process.Start(t, cmd)
	p.Await("ready")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	assert.Equal(t, -1, p.Wait())
}
