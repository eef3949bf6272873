package record

import "github.com/reprise-go/reprise/internal/codec"

// JSON returns an encoded value as JSON for people to read. It is like [Preview], but does not cut
// the value. If redact is not nil, it is applied to every string in the value, and then to the
// whole JSON, to remove secrets that are recognized by the text before them.
func JSON(encoded []byte, redact func(string) string) (string, error) {
	if _, ok := redactedPreview(encoded); ok {
		return "", ErrRedacted
	}
	if redact == nil {
		text, err := codec.AppendReadable(nil, encoded, 0)
		return string(text), err
	}
	x := redaction(redact)
	text, err := codec.AppendRedacted(nil, encoded, 0, x.text)
	return x.text(string(text)), err
}
