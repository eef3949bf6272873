package printer

// An Option changes how a [Printer] shows what it is told.
type Option func(*config)

type config struct {
	form     form
	symbols  *symbols
	previews bool
	terminal *terminal
	command  string
}

// form is when lines are written.
type form uint8

const (
	formAuto form = iota // live on a terminal, else plain
	formPlain
	formCompact
)

// WithPlain writes lines as they happen, on a terminal too. It is what a
// printer does anywhere else.
func WithPlain() Option { return func(c *config) { c.form = formPlain } }

// WithCompact writes a call only when it is known how it ends: a call that
// succeeds by its first and last lines, any other one with all its attempts.
// What a call has inside comes between its first line and its last; where
// something is written that is inside a call, the call's lines so far are
// written before it. Log lines, questions and the beginning and end of a run
// are written at once.
func WithCompact() Option { return func(c *config) { c.form = formCompact } }

// WithPreviews adds a line with the input and one with the output where a
// record has them. Off by default.
func WithPreviews() Option { return func(c *config) { c.previews = true } }

// WithASCII uses symbols of plain ASCII, such as "*", "x" and "~", for
// consoles without emoji. Names and messages stay as they are.
func WithASCII() Option { return func(c *config) { c.symbols = &ascii } }

// WithCommand is what stands for "reprise" in the line below a question that
// tells how it is answered, such as "reprise --dir /var/lib/agents" where the
// runs are not where the command looks by itself. It is written as it is, cut
// to one line; without it, for "", there is no such line.
func WithCommand(command string) Option { return func(c *config) { c.command = command } }

// WithTerminal says that the writer is a terminal of a size, for writers that
// are no *os.File, such as a session of a remote shell. The function is called
// before every drawing, and must not call the printer; a size that is not
// known is 0. A nil function says that the writer is no terminal.
func WithTerminal(size func() (columns, rows int)) Option {
	return func(c *config) {
		c.terminal = nil
		if size != nil {
			c.terminal = &terminal{size: size, live: true}
		}
	}
}
