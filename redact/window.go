package redact

import (
	"strings"
	"unicode/utf8"
)

// lineReach is how far a function reaches that does not say it, in a line that does not
// end.
const lineReach = 8 << 10

// Func returns the redaction that a function does. How far it reaches is not known: a text
// that streams is held back to the end of the line, and in longer lines than 16 KB all but
// 8 KB are shown. Of a secret that goes over several lines, or is longer than 8 KB, the
// lines that have come are shown: use [New] or [Within] for such secrets.
//
// A text on which the function panics becomes "(redacted)".
func Func(redact func(text string) string) Redaction {
	return &function{redact: redact, reach: lineReach, lines: true}
}

// Within is Func for a function that recognizes secrets of at most reach bytes, over
// several lines too. Of a text that streams, so much is held back at least, and twice as
// much at most. It panics if reach is below 1.
func Within(reach int, redact func(text string) string) Redaction {
	if reach < 1 {
		panic("redact: Within got a reach below 1")
	}
	return &function{redact: redact, reach: reach}
}

type function struct {
	redact func(string) string
	reach  int
	lines  bool // secrets end with their line
}

// Text implements [Redaction].
func (f *function) Text(text string) (shown string) {
	if text == "" {
		return ""
	}
	defer func() {
		if recover() != nil {
			shown = hidden
		}
	}()
	return f.redact(text)
}

// Stream implements [Redaction].
func (f *function) Stream() Stream { return &window{function: f, limit: 2 * f.reach} }

type window struct {
	*function
	text  []byte // what is held back
	limit int    // how long it may become
}

// Add implements [Stream].
func (w *window) Add(piece string) string {
	begin := len(w.text)
	w.text = append(w.text, piece...)
	shown := ""
	if end := strings.LastIndexByte(piece, '\n') + 1; w.lines && end > 0 {
		shown = w.settle(begin + end)
	}
	if len(w.text) >= w.limit {
		shown += w.cut()
	}
	return shown
}

// End implements [Stream].
func (w *window) End() string { return w.settle(len(w.text)) }

// settle shows the text up to there.
func (w *window) settle(end int) string {
	shown := w.Text(string(w.text[:end]))
	w.forget(end)
	return shown
}

func (w *window) forget(end int) {
	w.text = w.text[:copy(w.text, w.text[end:])]
	w.limit = max(2*w.reach, 2*len(w.text))
}

// cut shows the beginning of the text, if no secret lies over the cut: the two parts of it
// show the same as the whole. Otherwise it cuts before that secret, and if that does not do
// either, there will be another cut once there is twice the text.
func (w *window) cut() string {
	text := string(w.text)
	shown, end := w.Text(text), wholeRunes(text[:len(text)-w.reach])
	if shown == text && end > 0 {
		w.forget(end)
		return text[:end]
	}
	for range 2 {
		begin := w.Text(text[:end])
		if end > 0 && shown == begin+w.Text(text[end:]) {
			w.forget(end)
			return begin
		}
		end = wholeRunes(text[:end-min(end, len(begin)-common(begin, shown))])
	}
	w.limit = 2 * len(w.text)
	return ""
}

// wholeRunes returns the length of a text without a rune at its end that is cut.
func wholeRunes(text string) int {
	if r, size := utf8.DecodeLastRuneInString(text); r != utf8.RuneError || size != 1 {
		return len(text)
	}
	return len(text) - incomplete([]byte(text[max(0, len(text)-utf8.UTFMax):]))
}

// common returns the length of the beginning that two texts have in common.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
