package printer

import (
	"io"
	"os"
	"runtime"
	"strings"

	"golang.org/x/term"
)

// terminal is the terminal that a printer writes to.
type terminal struct {
	size func() (columns, rows int)
	live bool // lines may be drawn again
}

// terminalOf returns the terminal behind w, nil if it is something else.
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

// control calls do with the descriptor of f, unless that is closed. [os.File.Fd]
// would set a pipe to blocking mode.
func control(f *os.File, do func(fd uintptr)) {
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(do)
	}
}

// isDumb reports whether a terminal cannot move its cursor. Windows does not
// set the variable.
func isDumb(name string) bool {
	return name == "dumb" || name == "" && runtime.GOOS != "windows"
}

// isCI reports whether the output is the log of a CI system.
func isCI(value string) bool { return value != "" && value != "false" && value != "0" }

// reflows reports whether the terminal wraps long lines anew when it becomes
// narrower. Most do.
func reflows() bool {
	if os.Getenv("TMUX") != "" {
		return true
	}
	name := os.Getenv("TERM")
	return os.Getenv("XTERM_VERSION") == "" && name != "linux" && !strings.HasPrefix(name, "screen")
}

// wantsColors honours NO_COLOR, as no-color.org has it.
func wantsColors(t *terminal) bool {
	return t != nil && os.Getenv("NO_COLOR") == "" && !isDumb(os.Getenv("TERM"))
}
