package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// programVariable is the environment variable that contains the name of the program that a test
// binary runs instead of its tests.
const programVariable = "REPRISE_TEST_PROGRAM"

// Programs maps names to functions. Each function receives the arguments of its [Command].
type Programs map[string]func(args ...string) error

// Main runs the program that [Command] named in the environment, or the tests if none is named. It
// does not return. If the program succeeds, the process exits with 0. Otherwise, it prints the
// error to standard error and exits with 1.
func Main(m interface{ Run() int }, programs Programs) {
	name, set := os.LookupEnv(programVariable)
	if !set {
		// A shell starts background programs with Ctrl-C ignored. The programs that tests
		// start would inherit this, and the tests could not interrupt them.
		if signal.Ignored(os.Interrupt) {
			signal.Notify(make(chan os.Signal, 1), os.Interrupt)
		}
		os.Exit(m.Run())
	}
	program, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "this test binary has no program %q\n", name)
		os.Exit(1)
	}
	if err := program(os.Args[1:]...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Command returns a command that runs the program. The process is killed when the test ends.
func Command(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	// By default, a program built with -race sleeps for a second before it exits.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", programVariable+"="+program)
	return cmd
}

// Killed reports whether err, which [exec.Cmd.Wait] or Run returned, means that a signal ended the
// process.
func Killed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == -1
}

// UntilStdinEnds returns a context that ends when standard input ends, which is how
// [Process.Stop] asks a program to stop.
func UntilStdinEnds() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx, cancel
}

// A Process is a command that was started and whose output is read line by line. It is not safe for
// concurrent use.
type Process struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string // closed when the process has closed its output
}

// unread is the number of lines that are buffered for the test. If there are more unread lines, the
// process blocks.
const unread = 1 << 16

// Start starts the command. If the command's standard error is not set, the test's is used. When
// the test ends, the process is killed. Temporary directories that the test created before Start
// are removed only after the process has ended.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &Process{t, cmd, stdin, make(chan string, unread)}
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		p.Wait()
	})
	return p
}

// Line returns the next line that the process printed. It returns false when the
// process has closed its output.
func (p *Process) Line() (string, bool) {
	line, ok := <-p.lines
	return line, ok
}

// Await waits until the process has printed all of the lines, in any order. If the process ends
// earlier, Await fails the test.
func (p *Process) Await(lines ...string) {
	p.t.Helper()
	waiting := slices.Clone(lines)
	for len(waiting) > 0 {
		got, ok := p.Line()
		require.True(p.t, ok, "the process ended before it printed %q", waiting)
		if i := slices.Index(waiting, got); i >= 0 {
			waiting = slices.Delete(waiting, i, i+1)
		}
	}
}

// Kill kills the process, as a crash would.
func (p *Process) Kill() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Kill())
	p.Wait()
}

// Stop closes the standard input of the process, and checks that the process exits with 0.
func (p *Process) Stop() {
	p.t.Helper()
	require.NoError(p.t, p.stdin.Close())
	require.Zero(p.t, p.Wait())
}

// Wait waits until the process has ended, and returns its exit code, or -1 if it was killed.
func (p *Process) Wait() int {
	for range p.lines { // read the rest, because a process blocks while its output is not read
	}
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}
