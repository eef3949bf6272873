package record

import (
	"iter"

	"github.com/reprise-go/reprise/internal/codec"
)

// A Payload is the whole input and output of a call.
type Payload struct {
	Input    []byte // encoded; nil if it was not recorded
	Output   []byte // encoded; nil if there is none, or if it is an artifact
	Artifact string // reference to the output that is an artifact
	Err      error  // of the latest failed attempt
}

// PayloadOf returns what the records of a run contain of a call: its latest input, output and
// error. It reports whether there is a record of the call.
func PayloadOf(records iter.Seq2[Record, error], a Address) (p Payload, found bool, err error) {
	for r, err := range records {
		if err != nil {
			return p, found, err
		}
		if r.Kind.IsCall() && r.Address == a {
			found = true
			p.take(&r)
		}
	}
	return p, found, nil
}

func (p *Payload) take(r *Record) {
	if r.Detail != nil && r.Detail.Input != nil {
		p.Input = r.Detail.Input
	}
	switch r.Status {
	case StatusCompleted:
		p.Output, p.Artifact = r.Encoded(), r.Artifact()
	case StatusFailed:
		p.Err = r.Err
	}
}

// JSON returns an encoded value as JSON for people to read, like [Preview], but in full. Redact is
// applied to every text in it, and then to the whole, for secrets that are recognized by the text
// before them. If it is nil, nothing is redacted.
func JSON(encoded []byte, redact func(string) string) (string, error) {
	if _, ok := redacted(encoded); ok {
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
