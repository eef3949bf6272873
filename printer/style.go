package printer

// A style is the escape sequence that sets a color, or empty. Only the sixteen basic colors are
// used, so that the terminal's theme applies.
type style string

const (
	good    style = "\x1b[32m" // green: success
	bad     style = "\x1b[31m" // red: failure
	warning style = "\x1b[33m" // yellow: retry, warning
	paused  style = "\x1b[35m" // magenta: stopped without an outcome
	faint   style = "\x1b[2m"  // less important text
)

const styleOff = "\x1b[0m"

// A mark is the symbol at the beginning of a line.
type mark struct {
	symbol string
	style  style
}

// paint adds text in a style if colors are on.
func (t *text) paint(s style, parts ...string) {
	if !t.colors || s == "" {
		t.add(parts...)
		return
	}
	t.add(string(s))
	t.add(parts...)
	t.add(styleOff)
}

// tag adds a status in brackets, such as " [FAILED]".
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
