package redact

import "strings"

// A Redaction hides secrets in texts. It is safe for concurrent use.
type Redaction interface {
	// Text returns a text without its secrets.
	Text(text string) string

	// Stream begins a text that arrives in pieces.
	Stream() Stream
}

// A Stream is a text that arrives in pieces. What Add and End return is, one after the
// other, the text without its secrets. It is for one goroutine at a time.
type Stream interface {
	// Add takes the next piece, and returns what can be shown now: what follows it can
	// no longer make it part of a secret.
	Add(piece string) string

	// End returns the rest. The Stream is not used after it.
	End() string
}

// hidden replaces a secret that rules have found, and a text on which a function
// panics.
const hidden = "(redacted)"

// Beginning returns the beginning of a text without its secrets. One that ends with "…" was
// cut there: what may have been the beginning of a secret is left out, as in a stream.
func Beginning(r Redaction, text string) string {
	begin, isCut := strings.CutSuffix(text, "…")
	if !isCut {
		return r.Text(text)
	}
	return r.Stream().Add(begin) + "…"
}
