package printer

// A style is the escape sequence of a colour; empty for none. The sixteen
// colours are those that the user chose for the terminal.
type style string

const (
	good   style = "\x1b[32m" // green: it succeeded
	bad    style = "\x1b[31m" // red: it failed
	again  style = "\x1b[33m" // yellow: it is tried again
	paused style = "\x1b[35m" // magenta: it stopped without an outcome
	faint  style = "\x1b[2m"  // what is looked at last
)

const styleOff = "\x1b[0m"

// A mark is what a line begins with.
type mark struct {
	symbol string
	style  style
}

// paint adds text in a colour, where there are any.
func (t *text) paint(s style, parts ...string) {
	if !t.colors || s == "" {
		t.add(parts...)
		return
	}
	t.add(string(s))
	t.add(parts...)
	t.add(styleOff)
}

// tag adds what happened, such as " [FAILED]".
func (t *text) tag(s style, parts ...string) {
	t.add(" ")
	if t.colors && s != "" {
		t.add(string(s))
		defer t.add(styleOff)
	}
	t.add("[")
	t.add(parts...)
	t.add("]")
}
