package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/reprise-go/reprise/internal/codec"
)

// ErrRedacted is returned for a value that was made unreadable by
// [Record.Redacted].
var ErrRedacted = errors.New("core: the value was redacted; what the run's store keeps is not")

// Redacted returns a copy of r for consoles, wires and logs, in which redact
// has seen to every text that came from a call: errors, messages, metadata,
// and the previews of inputs and outputs, whose values cannot be decoded from
// the copy any more. Names, addresses, usage, hashes and references of
// artifacts stay. What redact panics on becomes "(redacted)".
//
// Whatever shows records honours that, since [Preview], the errors and
// [Record.MarshalJSON] of the copy give the redacted text. An error of the copy
// is a *[RecordedError] or an *[InterruptedError]: errors.Is finds in it what
// is registered, errors.As no error of the call.
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

func (x redaction) text(text string) (redacted string) {
	if text == "" {
		return ""
	}
	defer func() {
		if recover() != nil {
			redacted = "(redacted)"
		}
	}()
	return x(text)
}

func (x redaction) err(err error) error {
	if err == nil {
		return nil
	}
	//nolint:errorlint // an interrupt itself, as Record.Interrupt has it
	if e, ok := err.(*InterruptedError); ok && e != nil {
		redacted := *e
		redacted.Message, redacted.By, redacted.Cause = x.text(e.Message), x.text(e.By), x.err(e.Cause)
		return &redacted
	}
	recorded := Recorded(err)
	if recorded == nil { // of a nil pointer
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
	redacted.Message = x.text(d.Message)
	if d.Metadata != nil {
		redacted.Metadata = make(map[string]any, len(d.Metadata))
		for key, v := range d.Metadata {
			redacted.Metadata[key] = x.value(v)
		}
	}
	return &redacted
}

// value redacts the texts in a value of the user's. What is no JSON becomes
// text.
func (x redaction) value(v any) any {
	switch v := v.(type) {
	case nil, bool, int, int64, uint64, float64:
		return v
	case string:
		return x.text(v)
	case []byte:
		if utf8.Valid(v) {
			return x.text(string(v))
		}
	case error:
		return x.text(textOf(v))
	}
	data, err := marshalSafely(v)
	if err != nil {
		return x.text(textOf(v))
	}
	var plain any
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	if err := decoder.Decode(&plain); err != nil {
		return x.text(string(data))
	}
	return x.plain(plain)
}

func (x redaction) plain(v any) any {
	switch v := v.(type) {
	case string:
		return x.text(v)
	case []any:
		for i := range v {
			v[i] = x.plain(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = x.plain(v[key])
		}
	}
	return v
}

// textOf is fmt.Sprint, which a method of the user's may make panic.
func textOf(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("(%T)", v)
		}
	}()
	return fmt.Sprint(v)
}

// redactedType is the msgpack extension that holds a preview in place of a
// value; its body begins with redactedMark.
const (
	redactedType = 'R'
	redactedMark = "reprise redacted "
)

// preview is what stands for an encoded value: bytes of which Preview gives the
// redacted text. It is redacted before it is cut, lest a part of a secret be
// left at the end.
func (x redaction) preview(encoded []byte) []byte {
	if len(encoded) == 0 {
		return encoded
	}
	text := Truncate(x.text(previewText(encoded)), PreviewLimit)
	return codec.AppendExt(nil, redactedType, []byte(redactedMark+text))
}

// redacted is the preview that stands for a value.
func redacted(encoded []byte) (preview string, ok bool) {
	body, ok := codec.Ext(encoded, redactedType)
	if !ok {
		return "", false
	}
	return strings.CutPrefix(string(body), redactedMark)
}
