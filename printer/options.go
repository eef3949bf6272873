package printer

// An Option changes how a [Printer] shows records.
type Option func(*config)

type config struct {
	form     form
	symbols  *symbols
	previews bool
	terminal *terminal
	command  string
}

// A form determines when lines are written.
type form uint8

const (
	formAuto form = iota // live on a terminal, otherwise plain
	formPlain
	formCompact
)

// WithPlain makes the printer write lines as soon as events happen, even on a terminal. For
// anything that is not a terminal, this is the default.
func WithPlain() Option { return func(c *config) { c.form = formPlain } }

// WithCompact makes the printer write the lines of a call when the call ends: the first and last
// lines if the call succeeds, and otherwise all attempts. Before anything inside a call is written,
// the call's buffered lines are written. Log lines, questions, and the beginning and end of a run
// are written immediately.
func WithCompact() Option { return func(c *config) { c.form = formCompact } }

// WithPreviews adds lines with the input and the output of a call, if its records contain
// them. Off by default.
func WithPreviews() Option { return func(c *config) { c.previews = true } }

// WithASCII makes the printer use ASCII symbols such as "*", "x" and "~", for consoles without
// emoji. Names and messages are not changed.
func WithASCII() Option { return func(c *config) { c.symbols = &ascii } }

// WithCommand sets the command shown in hints, for example below a question, a recalled failure, or
// a run whose program has changed. Use it if the command needs flags, such as "reprise --dir
// /var/lib/agents". Line breaks are removed. Defaults to "reprise"; an empty command
// turns hints off.
func WithCommand(command string) Option { return func(c *config) { c.command = command } }

// WithTerminal makes the printer treat its writer as a terminal. Use it for writers other than
// *os.File, such as a remote shell session. The function size returns the terminal's size, or zeros
// if it is not known. It is called each time before the printer draws, and must not call the
// printer. If size is nil, the writer is not treated as a terminal.
func WithTerminal(size func() (columns, rows int)) Option {
	return func(c *config) {
		c.terminal = nil
		if size != nil {
			c.terminal = &terminal{size: size, live: true}
		}
	}
}
