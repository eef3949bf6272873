package redact

import "strings"

// A Redaction removes secrets from text. Implementations must be safe for concurrent use.
type Redaction interface {
	// Text returns the text without its secrets.
	Text(text string) string

	// Stream returns a Stream for text that arrives in pieces.
	Stream() Stream
}

// A Stream redacts text that arrives in pieces. The concatenated results of Add and End are the
// text without its secrets. A Stream is not safe for concurrent use.
type Stream interface {
	// Add adds the next piece. It returns the text that can already be shown, because no later text
	// can make it part of a secret.
	Add(piece string) string

	// End ends the text and returns the rest. The Stream must not be used afterwards.
	End() string
}

// replacement replaces each secret found by rules, and any text on which a function panics.
const replacement = "(redacted)"

// Beginning redacts a text that may be the beginning of a longer text. If the text ends with "…",
// it was truncated there. Beginning then also removes what may be the beginning of a secret at the
// end of the text.
func Beginning(r Redaction, text string) string {
	begin, truncated := strings.CutSuffix(text, "…")
	if !truncated {
		return r.Text(text)
	}
	return r.Stream().Add(begin) + "…"
}
