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

// form is when lines are written.
type form uint8

const (
	formAuto form = iota // live on a terminal, else plain
	formPlain
	formCompact
)

// WithPlain writes lines as they happen, on a terminal too. It is what a
// printer does everywhere else.
func WithPlain() Option { return func(c *config) { c.form = formPlain } }

// WithCompact writes a call only when it is known how it ends: a call that
// succeeds by its first and last lines, any other with all its attempts. Before
// something inside a call is written, the call's lines so far are. Log lines,
// questions and the beginning and end of a run are written at once.
func WithCompact() Option { return func(c *config) { c.form = formCompact } }

// WithPreviews adds a line with the input and one with the output where a
// record has them. Off by default.
func WithPreviews() Option { return func(c *config) { c.previews = true } }

// WithASCII uses symbols of plain ASCII, such as "*", "x" and "~", for
// consoles without emoji. Names and messages stay as they are.
func WithASCII() Option { return func(c *config) { c.symbols = &ascii } }

// WithCommand sets the command in the lines that say what to type, below a question
// and below a run whose program has changed, such as "reprise --dir
// /var/lib/agents" for runs in another directory than the command's own. It is cut
// to one line. Defaults to "reprise"; with an empty command these lines are left
// out.
func WithCommand(command string) Option { return func(c *config) { c.command = command } }

// WithTerminal says that the writer is a terminal, for writers other than
// *os.File, such as the session of a remote shell. The function returns its
// size, 0 where it is unknown. It is called before every drawing, and must not
// call the printer. A nil function says that the writer is not a terminal.
func WithTerminal(size func() (columns, rows int)) Option {
	return func(c *config) {
		c.terminal = nil
		if size != nil {
			c.terminal = &terminal{size: size, live: true}
		}
	}
}
