package printer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"play": play})
}

// play runs a program with an agent and a tool that fails.
func play(args ...string) error {
	scene := args[0]
	p := printer.New(os.Stdout)
	defer p.Close()
	st := state.New(state.WithPublisher(p), state.WithRunID("scene"))
	defer st.Close()
	delay, failures := 2500*time.Millisecond, 1
	switch scene {
	case "recovers":
	case "fails":
		failures = 3
		delay = 100 * time.Millisecond
	case "killed", "interrupted":
		delay = time.Hour
	case "panics":
		failures = 0
	default:
		return fmt.Errorf("no such scene: %q", scene)
	}
	if scene == "interrupted" {
		// Reflowed lines need rows above the cursor. Otherwise the terminal may scroll
		// them out of its window, where they cannot be erased.
		for i := range 40 {
			fmt.Fprintln(p, "line", i+1)
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		context.AfterFunc(ctx, func() { st.Interrupt(snapshot.Stop{By: "terminal", Message: "Ctrl-C"}) })
	}
	attempts, begun := 0, make(chan struct{})
	tool := decorators.Tool("fetch_data", "", func(context.Context, struct{}) (string, error) {
		if attempts++; attempts <= failures {
			return "", core.Retryable(errTimeout)
		}
		return "data", nil
	}, actors.WithRetry(core.RetryConfig{InitialDelay: delay, MaxDelay: delay, Jitter: core.NoJitter}))
	agent := decorators.Agent("assistant", "", func(ctx context.Context, in struct{}) (string, error) {
		fmt.Fprintln(p, "the program prints this")
		if scene == "panics" {
			close(begun)
			<-ctx.Done()
		}
		return tool.Call(ctx, in)
	})
	if scene == "panics" {
		go func() { _, _ = agent.Call(st.Context(context.Background()), struct{}{}) }()
		<-begun
		panic("the program panics")
	}
	_, err := agent.Call(st.Context(context.Background()), struct{}{})
	if errors.Is(err, core.ErrExhausted) || errors.Is(err, record.ErrInterrupted) {
		err = nil
	}
	return err
}

func sceneCommand(t *testing.T, scene string, environment ...string) *exec.Cmd {
	t.Helper()
	cmd := process.Command(t, "play", scene)
	cmd.Env = append(cmd.Env, "TERM=xterm-256color", "CI=", "NO_COLOR=", "TMUX=", "XTERM_VERSION=XTerm(390)")
	cmd.Env = append(cmd.Env, environment...)
	return cmd
}

// timeout is how long a test waits for an expected event.
const timeout = 60 * time.Second

// A session is a process on a pseudo-terminal whose screen is emulated.
type session struct {
	vt10x.Terminal
	t       *testing.T
	cmd     *exec.Cmd
	raw     []byte   // output of the process; valid after it has ended
	tty     *os.File // the terminal's side
	changed chan struct{}
	ended   chan struct{}
}

func startSession(t *testing.T, columns, rows int, cmd *exec.Cmd) *session {
	t.Helper()
	s := &session{
		Terminal: vt10x.New(vt10x.WithSize(columns, rows)), t: t, cmd: cmd,
		changed: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	var err error
	s.tty, err = pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)})
	require.NoError(t, err)
	go func() {
		defer close(s.ended)
		buf := make([]byte, 4096)
		for {
			n, err := s.tty.Read(buf)
			s.raw = append(s.raw, buf[:n]...)
			_, _ = s.Write(buf[:n])
			select {
			case s.changed <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = s.tty.Close()
		<-s.ended
	})
	return s
}

func (s *session) shown() string {
	var lines []string
	for line := range strings.Lines(s.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// await waits until the terminal shows the wanted text.
func (s *session) await(what string, wanted func(shown string) bool) string {
	s.t.Helper()
	over := time.After(timeout)
	for {
		if shown := s.shown(); wanted(shown) {
			return shown
		}
		select {
		case <-s.changed:
		case <-s.ended:
			if shown := s.shown(); wanted(shown) {
				return shown
			}
			s.t.Fatalf("the process ended; wanted %s:\n%s", what, s.shown())
		case <-over:
			s.t.Fatalf("timed out waiting for %s:\n%s", what, s.shown())
		}
	}
}

func contains(text string) func(string) bool {
	return func(shown string) bool { return strings.Contains(shown, text) }
}

// countdown collects the remaining times that the screen shows.
type countdown struct{ left []string }

var leftShown = regexp.MustCompile(`↻ Retrying \(attempt 2/3\) in (\d\.\d)s\.\.\. - Connection timeout`)

// see reports whether three different times have been shown.
func (c *countdown) see(shown string) bool {
	for _, found := range leftShown.FindAllStringSubmatch(shown, 1) {
		if n := len(c.left); n == 0 || c.left[n-1] != found[1] {
			c.left = append(c.left, found[1])
		}
	}
	return len(c.left) >= 3
}

const recovered = `▶ run scene [STARTED]
the program prints this
🤖 assistant [STARTED]
│ 🔧 fetch_data [STARTED]
│ ✔ fetch_data [COMPLETED after 2 attempts] (2.5s total)
│   ↻ Recovered after 1 retry
✔ assistant [COMPLETED] (2.5s)
✔ run scene [COMPLETED] (2.5s)`

func TestProcessCountsDownOnItsTerminal(t *testing.T) {
	needTerminal(t)
	s := startSession(t, 100, 24, sceneCommand(t, "recovers"))
	var seen countdown
	s.await("three steps of the countdown", seen.see)
	assert.IsDecreasing(t, seen.left)
	<-s.ended
	assert.Equal(t, times.ReplaceAllString(recovered, "(T"), times.ReplaceAllString(s.shown(), "(T"))
	s.atRest()
}

// times matches durations, which depend on the load of the machine.
var times = regexp.MustCompile(`\([\d.<]+m?s`)

// atRest checks that the terminal is in the state that a shell expects.
func (s *session) atRest() {
	s.t.Helper()
	assert.True(s.t, s.CursorVisible(), "the cursor is visible")
	assert.NotZero(s.t, s.Mode()&vt10x.ModeWrap, "long lines wrap")
}

func TestProcessShowsAllAttemptsOfAFailure(t *testing.T) {
	needTerminal(t)
	s := startSession(t, 100, 24, sceneCommand(t, "fails", "NO_COLOR=1"))
	<-s.ended
	assert.Contains(t, times.ReplaceAllString(s.shown(), "(T"), `
│ 🔧 fetch_data [STARTED]
│ ✖ fetch_data [FAILED] (T) - Connection timeout
│   ↻ Retrying (attempt 2/3) in 0.1s...
│ 🔧 fetch_data [STARTED] (retry 2/3)
│ ✖ fetch_data [FAILED] (T) - Connection timeout
│   ↻ Retrying (attempt 3/3) in 0.1s...
│ 🔧 fetch_data [STARTED] (retry 3/3)
│ ✖ fetch_data [FAILED] (T) - Connection timeout
│ ✖ fetch_data [EXHAUSTED all 3 attempts] (T total)
`)
	s.atRest()
}

func TestProcessFollowsTheSizeOfItsTerminal(t *testing.T) {
	needTerminal(t)
	s := startSession(t, 100, 24, sceneCommand(t, "interrupted"))
	s.await("the wait", contains("↻ Retrying (attempt 2/3) in 59m"))
	s.Resize(36, 24)
	require.NoError(t, pty.Setsize(s.tty, &pty.Winsize{Cols: 36, Rows: 24}))
	shown := s.await("short lines", contains("└─ 🔧 fetch_data ↻ 2/3 in 59m"))
	assert.Equal(t, 1, strings.Count(shown, "assistant"), "nothing is left of the earlier lines:\n%s", shown)
}

func TestCtrlCLeavesTheTerminalAsItWas(t *testing.T) {
	needTerminal(t)
	t.Run("killed", func(t *testing.T) {
		s := startSession(t, 100, 24, sceneCommand(t, "killed"))
		s.await("the wait", contains("↻ Retrying (attempt 2/3) in 59m"))
		_, err := s.tty.WriteString("\x03")
		require.NoError(t, err)
		<-s.ended
		s.atRest()
		assert.Contains(t, s.shown(), "\n└─ 🔧 fetch_data ↻ Retrying (attempt 2/3) in 59m", "the running calls stay visible")
		assert.Equal(t, strings.Count(strings.ReplaceAll(s.shown(), "\n^C", ""), "\n")+1, s.Cursor().Y, "the cursor is below the output")
	})
	t.Run("interrupted", func(t *testing.T) {
		s := startSession(t, 100, 24, sceneCommand(t, "interrupted"))
		s.await("the wait", contains("↻ Retrying (attempt 2/3) in 59m"))
		_, err := s.tty.WriteString("\x03")
		require.NoError(t, err)
		<-s.ended
		s.atRest()
		assert.True(t, strings.HasSuffix(times.ReplaceAllString(s.shown(), "(T"), `
│ 🔧 fetch_data [STARTED]
│ ✖ fetch_data [FAILED] (T) - Connection timeout
│   ↻ Retrying (attempt 2/3) in 1h00m00s...
│ ⏸ fetch_data [INTERRUPTED] user by terminal: Ctrl-C
⏸ assistant [INTERRUPTED] user by terminal: Ctrl-C
⏸ run scene [INTERRUPTED] user by terminal: Ctrl-C`), "%s\n%q", s.shown(), s.raw)
		assert.Zero(t, s.Cursor().X)
	})
}

func TestPanicLeavesTheTerminalAsItWas(t *testing.T) {
	needTerminal(t)
	s := startSession(t, 100, 60, sceneCommand(t, "panics"))
	<-s.ended
	assert.Regexp(t, `(?s)\n⏸ assistant \[(INTERRUPTED|UNFINISHED)\].*\npanic: the program panics`, s.shown())
	s.atRest()
}

func TestTerminalsThatCannotDrawGetPlainLines(t *testing.T) {
	needTerminal(t)
	for _, variable := range []string{"TERM=dumb", "TERM=", "CI=true"} {
		t.Run(variable, func(t *testing.T) {
			cmd := sceneCommand(t, "fails", variable)
			tty, err := pty.Start(cmd)
			require.NoError(t, err)
			out, _ := io.ReadAll(tty) // ends with an error, since the other side is closed
			require.NoError(t, cmd.Wait())
			assert.Contains(t, withoutSequences(string(out)), "\r\n  🔧 fetch_data [STARTED] (retry 2/3)\r\n")
			assert.NotContains(t, string(out), "\x1b[?")
			assert.Equal(t, variable == "CI=true", strings.Contains(string(out), "\x1b[31m"), "dumb terminals get no colors")
		})
	}
	out, err := sceneCommand(t, "fails").Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "\n  🔧 fetch_data [STARTED] (retry 2/3)\n")
	assert.NotContains(t, string(out), "\x1b", "a pipe is not a terminal")
}

func needTerminal(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no pseudo-terminals of this kind on Windows")
	}
}

// A multiplexer is a process in a tmux window. Unlike the emulator, tmux measures wide
// characters and reflows lines.
type multiplexer struct {
	t       *testing.T
	socket  string
	changed chan struct{}
}

func startMultiplexer(t *testing.T, columns, rows int, cmd *exec.Cmd) *multiplexer {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed: this test needs it for live lines in a window")
	}
	m := &multiplexer{t: t, socket: t.TempDir() + "/tmux", changed: make(chan struct{}, 1)}
	// The shell outlives the process, and cat keeps the window open.
	script := fmt.Sprintf(`trap : INT; '%s'; echo after the run; exec cat`, strings.Join(cmd.Args, "' '"))
	start := m.command("-f", os.DevNull, "new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows), script)
	start.Env = append(slices.Clone(cmd.Env), "TMUX=")
	out, err := start.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Cleanup(func() { _ = m.command("kill-server").Run() })

	control := m.command("-C", "attach-session")
	stdin, err := control.StdinPipe()
	require.NoError(t, err)
	stdout, err := control.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, control.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			select {
			case m.changed <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		<-ended
		_ = control.Wait()
	})
	return m
}

func (m *multiplexer) command(args ...string) *exec.Cmd {
	return exec.Command("tmux", append([]string{"-S", m.socket}, args...)...)
}

func (m *multiplexer) do(args ...string) string {
	m.t.Helper()
	out, err := m.command(args...).CombinedOutput()
	require.NoError(m.t, err, "%s", out)
	return strings.TrimRight(string(out), "\n")
}

// shown returns the contents of the window, including what has scrolled out of it.
func (m *multiplexer) shown() string { return m.do("capture-pane", "-p", "-S", "-") }

func (m *multiplexer) await(what string, wanted func(string) bool) string {
	m.t.Helper()
	over := time.After(timeout)
	for {
		if shown := m.shown(); wanted(shown) {
			return shown
		}
		select {
		case <-m.changed:
		case <-over:
			m.t.Fatalf("timed out waiting for %s:\n%s", what, m.shown())
		}
	}
}

func (m *multiplexer) atRest() {
	m.t.Helper()
	assert.Equal(m.t, "1 1", m.do("display-message", "-p", "#{cursor_flag} #{wrap_flag}"), "the cursor is visible, and long lines wrap")
}

func TestWindowOfTmuxShowsTheCountdownAndThenTheResult(t *testing.T) {
	m := startMultiplexer(t, 100, 30, sceneCommand(t, "recovers"))
	var seen countdown
	m.await("three steps of the countdown", seen.see)
	assert.IsDecreasing(t, seen.left)
	shown := m.await("the end", contains("after the run"))
	assert.Equal(t, times.ReplaceAllString(recovered, "(T")+"\nafter the run", times.ReplaceAllString(shown, "(T"))
	m.atRest()
}

func TestWindowOfTmuxIsRedrawnWhenItsWidthChanges(t *testing.T) {
	for columns, wanted := range map[string]string{
		"60": "\n└─ 🔧 fetch_data ↻ 2/3 in 59m",
		"30": "\n└─ 🔧 fetch_… ↻ 2/3 in 59m",
		"24": "\n└─ 🔧 fet… ↻ 2/3 in 59…",
	} {
		t.Run(columns, func(t *testing.T) {
			m := startMultiplexer(t, 100, 30, sceneCommand(t, "interrupted"))
			m.await("the wait", contains("└─ 🔧 fetch_data ↻ Retrying (attempt 2/3) in 59m"))
			m.do("resize-window", "-x", columns)
			shown := m.await("narrow lines", contains(wanted))
			assert.Equal(t, 1, strings.Count(shown, "assistant"), "nothing is left of the earlier lines:\n%s", shown)
			m.do("resize-window", "-x", "90")
			shown = m.await("wide lines", contains("\n└─ 🔧 fetch_data ↻ Retrying (attempt 2/3) in 59m"))
			assert.Equal(t, 1, strings.Count(shown, "assistant"), shown)
			assert.Equal(t, 1, strings.Count(shown, "run scene"), "the written lines stay")
			m.do("send-keys", "C-c")
			shown = m.await("the end", contains("after the run"))
			assert.Contains(t, shown, "│ ⏸ fetch_data [INTERRUPTED] user by terminal: Ctrl-C\n⏸ assistant [INTERRUPTED] user by terminal: Ctrl-C\n⏸ run scene [INTERRUPTED]")
			assert.NotContains(t, shown, "└─")
			m.atRest()
		})
	}
}

func TestWindowOfTmuxIsLeftInOrderByAKilledProcess(t *testing.T) {
	m := startMultiplexer(t, 100, 30, sceneCommand(t, "killed"))
	m.await("the wait", contains("in 59m"))
	m.do("send-keys", "C-c")
	shown := m.await("the shell", contains("after the run"))
	assert.Regexp(t, `└─ 🔧 fetch_data ↻ Retrying .*\n(\^C)?after the run$`, shown)
	m.atRest()
}
