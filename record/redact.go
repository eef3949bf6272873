package record

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/reprise-go/reprise/internal/codec"
)

// ErrRedacted is returned for a value that was made unreadable by
// [Record.Redacted].
var ErrRedacted = errors.New("record: the value was redacted; the run's store still contains it")

// Redacted returns a copy of r for consoles, for transmission and for logs. redact is applied to
// every string in the copy that came from a call: errors, messages, metadata, and the previews of
// inputs and outputs. The values of inputs and outputs can no longer be decoded from the copy.
// Names, addresses, usage, hashes and references to artifacts are not changed. If redact panics on
// a string, the string becomes "(redacted)".
//
// Code that shows the copy shows the redacted strings, because these are what [Preview], the errors
// and [Record.MarshalJSON] return. An error of the copy is a *[Error] or an *[InterruptedError]:
// errors.Is finds registered errors in it, but errors.As finds none of the call's errors.
func (r Record) Redacted(redact func(string) string) Record {
	if redact == nil {
		return r
	}
	x := redaction(redact)
	r.Err = x.err(r.Err)
	r.Detail = x.detail(r.Detail)
	return r
}

type redaction func(string) string

func (x redaction) text(text string) string { return redactText(x, text) }

// redactText returns redact(text), or "(redacted)" if redact panics. An empty string stays empty.
func redactText(redact func(string) string, text string) (redacted string) {
	if text == "" {
		return ""
	}
	defer func() {
		if recover() != nil {
			redacted = "(redacted)"
		}
	}()
	return redact(text)
}

func (x redaction) err(err error) error {
	if err == nil {
		return nil
	}
	//nolint:errorlint // the interrupt itself, as Record.Interrupt returns it
	if e, ok := err.(*InterruptedError); ok && e != nil {
		redacted := *e
		redacted.Message, redacted.By, redacted.Cause = x.text(e.Message), x.text(e.By), x.err(e.Cause)
		return &redacted
	}
	recorded := ErrorOf(err)
	if recorded == nil { // the error is a nil pointer
		return nil
	}
	redacted := *recorded
	redacted.Message, redacted.Typed = x.text(redacted.Message), nil
	return &redacted
}

func (x redaction) detail(d *Detail) *Detail {
	if d == nil {
		return nil
	}
	redacted := *d
	redacted.Input, redacted.Output = x.preview(d.Input), x.preview(d.Output)
	redacted.Message, redacted.By = x.text(d.Message), x.text(d.By)
	redacted.Redacted = d.Redacted || redacted.Message != d.Message
	if d.InDoubt != nil {
		call := *d.InDoubt
		call.Input, call.Cause = x.preview(call.Input), x.text(call.Cause)
		redacted.InDoubt = &call
	}
	if d.Fork != nil {
		fork := *d.Fork
		fork.Effects = slices.Clone(fork.Effects)
		for i := range fork.Effects {
			fork.Effects[i].Output = x.preview(fork.Effects[i].Output)
		}
		redacted.Fork = &fork
	}
	if d.Metadata != nil {
		redacted.Metadata = codec.RedactMap(d.Metadata, x.text, x.value)
	}
	return &redacted
}

// value redacts the strings in a user's value. A value that JSON cannot represent becomes a string.
func (x redaction) value(v any) any {
	switch v := v.(type) {
	case nil, bool, int, int64, uint64, float64:
		return v
	case string:
		return x.text(v)
	case []byte:
		if redacted := x.text(string(v)); utf8.Valid(v) || redacted != string(v) {
			return redacted
		}
	case error:
		return x.text(textOf(v))
	}
	data, err := marshalSafely(v)
	if err != nil {
		return x.previewText(codec.EncodeAny(v)) // EncodeAny detects a value that contains itself
	}
	switch v.(type) {
	case map[string]any, []any: // none of these contains itself
		return codec.RedactTree(v, x.text, x.value) // before JSON encodes bytes in base64
	}
	plain, err := codec.RedactJSON(data, x.marshaled)
	if err != nil {
		return x.text(string(data))
	}
	return plain
}

// marshaled redacts a JSON string, which may contain bytes in base64.
func (x redaction) marshaled(text string) string {
	redacted := x.text(text)
	if redacted != text || len(text) < 8 {
		return redacted
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !utf8.Valid(b) {
		return text
	}
	if shown := x.text(string(b)); shown != string(b) {
		return shown
	}
	return text
}

// textOf is like fmt.Sprint, but returns the type of v if a method of v panics.
func textOf(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("(%T)", v)
		}
	}()
	return fmt.Sprint(v)
}

// redactedType is the msgpack extension that holds a preview instead of a value. Its body begins
// with redactedMark.
const (
	redactedType = 'R'
	redactedMark = "reprise redacted "
)

// preview returns bytes to replace an encoded value. Given these bytes, Preview returns the
// redacted text of the value.
func (x redaction) preview(encoded []byte) []byte {
	if len(encoded) == 0 {
		return encoded
	}
	text, ok := redactedPreview(encoded)
	if ok {
		text = x.text(text)
	} else {
		text = x.previewText(encoded)
	}
	return codec.AppendExt(nil, redactedType, []byte(redactedMark+Truncate(text, previewLimit)))
}

// previewText returns a redacted preview that has not been cut yet. It redacts each string in the
// value before JSON escapes it, and then the whole preview, to remove secrets that are recognized
// by the key before them. A part of a secret may remain at the end, but that is far beyond the part
// that is shown.
func (x redaction) previewText(encoded []byte) string {
	const enough = 2 * 4 * previewLimit // at four bytes per character
	for limit := 2 * enough; ; limit *= 8 {
		text, err := codec.AppendRedacted(nil, encoded, limit, x.text)
		if err != nil {
			return "(unreadable)"
		}
		if shown := x.text(string(text)); len(text) < limit || len(shown) >= enough {
			return shown
		}
	}
}

// redactedPreview returns the preview that replaces a value.
func redactedPreview(encoded []byte) (preview string, ok bool) {
	body, ok := codec.Ext(encoded, redactedType)
	if !ok {
		return "", false
	}
	return strings.CutPrefix(string(body), redactedMark)
}
