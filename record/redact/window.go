package redact

import (
	"strings"
	"unicode/utf8"
)

// lineReach is the assumed maximum length of a secret in a line that has not ended, for functions
// without a known reach.
const lineReach = 8 << 10

// Func returns a redaction that applies a function. Since the length of the secrets is not known, a
// stream holds back text until the end of the line. If a line is longer than 16 KB, the stream
// holds back only the last 8 KB of it. Parts of secrets may be shown if the secrets span several
// lines or are longer than 8 KB: use [New] or [Within] for such secrets.
//
// If the function panics, the text becomes "(redacted)".
func Func(redact func(text string) string) Redaction {
	return &funcRedaction{redact: redact, reach: lineReach, byLine: true}
}

// Within is like Func, but takes a function that recognizes secrets of at most reach bytes, which
// may span several lines. A stream holds back between reach and 2*reach bytes. Within panics if
// reach is less than 1.
func Within(reach int, redact func(text string) string) Redaction {
	if reach < 1 {
		panic("redact: Within: reach is less than 1")
	}
	return &funcRedaction{redact: redact, reach: reach}
}

type funcRedaction struct {
	redact func(string) string
	reach  int
	byLine bool // secrets do not span lines
}

// Text implements [Redaction].
func (f *funcRedaction) Text(text string) (shown string) {
	if text == "" {
		return ""
	}
	defer func() {
		if recover() != nil {
			shown = replacement
		}
	}()
	return f.redact(text)
}

// Stream implements [Redaction].
func (f *funcRedaction) Stream() Stream { return &window{funcRedaction: f, limit: 2 * f.reach} }

type window struct {
	*funcRedaction
	text  []byte // text held back
	limit int    // length at which the text is cut
}

// Add implements [Stream].
func (w *window) Add(piece string) string {
	begin := len(w.text)
	w.text = append(w.text, piece...)
	shown := ""
	if end := strings.LastIndexByte(piece, '\n') + 1; w.byLine && end > 0 {
		shown = w.settle(begin + end)
	}
	if len(w.text) >= w.limit {
		shown += w.cut()
	}
	return shown
}

// End implements [Stream].
func (w *window) End() string { return w.settle(len(w.text)) }

// settle returns the redacted text up to end, and removes that text from the window.
func (w *window) settle(end int) string {
	shown := w.Text(string(w.text[:end]))
	w.discard(end)
	return shown
}

func (w *window) discard(end int) {
	w.text = w.text[:copy(w.text, w.text[end:])]
	w.limit = max(2*w.reach, 2*len(w.text))
}

// cut returns the redacted beginning of the text if no secret spans the cut, that is, if redacting
// both parts separately gives the same result as redacting the whole text. Otherwise, cut moves the
// cut to before that secret. If that does not work either, it waits until the text is twice as
// long.
func (w *window) cut() string {
	text := string(w.text)
	shown, end := w.Text(text), wholeRunesLen(text[:len(text)-w.reach])
	if shown == text && end > 0 {
		w.discard(end)
		return text[:end]
	}
	for range 2 {
		begin := w.Text(text[:end])
		if end > 0 && shown == begin+w.Text(text[end:]) {
			w.discard(end)
			return begin
		}
		end = wholeRunesLen(text[:end-min(end, len(begin)-commonPrefixLen(begin, shown))])
	}
	w.limit = 2 * len(w.text)
	return ""
}

// wholeRunesLen returns the length of text without an incomplete rune at its end.
func wholeRunesLen(text string) int {
	if r, size := utf8.DecodeLastRuneInString(text); r != utf8.RuneError || size != 1 {
		return len(text)
	}
	return len(text) - incompleteLen([]byte(text[max(0, len(text)-utf8.UTFMax):]))
}

// commonPrefixLen returns the length of the common prefix of a and b.
func commonPrefixLen(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
