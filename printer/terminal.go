package printer

import (
	"io"
	"os"
	"runtime"
	"strings"

	"golang.org/x/term"
)

// terminal describes the terminal that a printer writes to.
type terminal struct {
	size func() (columns, rows int)
	live bool // the terminal can redraw lines
}

// terminalOf returns the terminal behind w, or nil if w is not a terminal.
func terminalOf(w io.Writer) *terminal {
	f, ok := w.(*os.File)
	if !ok || f == nil {
		return nil
	}
	found := false
	control(f, func(fd uintptr) { found = term.IsTerminal(int(fd)) && enableSequences(fd) })
	if !found {
		return nil
	}
	return &terminal{
		size: func() (columns, rows int) {
			control(f, func(fd uintptr) { columns, rows, _ = term.GetSize(int(fd)) })
			return columns, rows
		},
		live: !isDumb(os.Getenv("TERM")) && !isCI(os.Getenv("CI")),
	}
}

// control calls do with the descriptor of f, unless f is closed. It does not use [os.File.Fd],
// which sets pipes to blocking mode.
func control(f *os.File, do func(fd uintptr)) {
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(do)
	}
}

// isDumb reports whether a terminal with the given TERM cannot move its cursor. On Windows, TERM
// is not set.
func isDumb(name string) bool {
	return name == "dumb" || name == "" && runtime.GOOS != "windows"
}

// isCI reports whether the value of the environment variable CI indicates that the output
// is the log of a CI system.
func isCI(value string) bool { return value != "" && value != "false" && value != "0" }

// reflows reports whether the terminal reflows long lines when it becomes narrower.
// Most terminals do.
func reflows() bool {
	if os.Getenv("TMUX") != "" {
		return true
	}
	name := os.Getenv("TERM")
	return os.Getenv("XTERM_VERSION") == "" && name != "linux" && !strings.HasPrefix(name, "screen")
}

// wantsColors reports whether to use colors. It follows the rules of no-color.org.
func wantsColors(t *terminal) bool {
	return t != nil && os.Getenv("NO_COLOR") == "" && !isDumb(os.Getenv("TERM"))
}
