package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// AppendJSON appends the msgpack value in data to dst as JSON. Bytes become base64, times become
// RFC 3339 with their offset, numbers that JSON lacks (NaN, Inf) become null, and map keys become
// strings. A value that was encoded as JSON becomes that JSON. With a limit, AppendJSON stops once
// it has appended more than limit bytes and returns what it has so far; limit 0 means no limit.
func AppendJSON(dst, data []byte, limit int) ([]byte, error) {
	return appendJSON(dst, data, limit, rendering{})
}

// AppendReadable is like AppendJSON, but its result is meant for people: bytes that are JSON become
// that JSON, and bytes that are printable text become a string. The result cannot be decoded.
func AppendReadable(dst, data []byte, limit int) ([]byte, error) {
	return appendJSON(dst, data, limit, rendering{readable: true})
}

// AppendRedacted is like AppendReadable, but applies redact to every text before
// it is escaped: to strings, map keys and bytes, and to strings and keys in bytes
// that are JSON.
func AppendRedacted(dst, data []byte, limit int, redact func(string) string) ([]byte, error) {
	return appendJSON(dst, data, limit, rendering{readable: true, redact: redact})
}

func appendJSON(dst, data []byte, limit int, r rendering) ([]byte, error) {
	if err := skipAll(data); err != nil {
		return dst, err
	}
	r.walk, r.out, r.end = walk{data}, dst, math.MaxInt
	if limit > 0 {
		r.end = len(dst) + limit
	}
	r.value()
	return r.out, nil
}

// rendering renders values as JSON.
type rendering struct {
	walk
	out []byte
	end int // approximate limit for len(out)

	readable bool                // show the content of bytes instead of base64
	redact   func(string) string // nil for no redaction
}

// value appends the next value as JSON.
func (r *rendering) value() {
	h := r.next()
	switch h.kind {
	case kindNil:
		r.out = append(r.out, "null"...)
	case kindBool:
		r.out = strconv.AppendBool(r.out, h.bool())
	case kindInt:
		r.out = strconv.AppendInt(r.out, h.int(), 10)
	case kindUint:
		r.out = strconv.AppendUint(r.out, h.bits, 10)
	case kindFloat:
		r.float(h.float())
	case kindString:
		r.string(r.redacted(h.body))
	case kindBytes:
		r.bytes(h.body)
	case kindExt:
		r.ext(h)
	case kindArray:
		r.inside(h, '[', ']')
	case kindMap:
		r.inside(h, '{', '}')
	}
}

// inside appends the elements of an array or the pairs of a map.
func (r *rendering) inside(h head, opening, closing byte) {
	r.out = append(r.out, opening)
	for i := range h.n {
		if len(r.out) > r.end {
			return
		}
		if i > 0 {
			r.out = append(r.out, ',')
		}
		if h.kind == kindMap {
			r.string(r.key())
			r.out = append(r.out, ':')
		}
		r.value()
	}
	r.out = append(r.out, closing)
}

// key reads the next value, which is a map key, and returns it as text: a string unchanged, and any
// other value as JSON.
func (r *rendering) key() []byte {
	before := r.walk
	h := r.next()
	if h.kind == kindString {
		return r.redacted(h.body)
	}
	key := *r
	key.walk, key.out = before, nil
	key.value()
	r.walk = key.walk
	var s string
	if h.isJSON() && json.Unmarshal(key.out, &s) == nil {
		return []byte(s)
	}
	return key.out
}

func (r *rendering) redacted(text []byte) []byte {
	if r.redact == nil {
		return text
	}
	return []byte(r.redact(string(text)))
}

// document redacts bytes that may be JSON.
func (r *rendering) document(b []byte) []byte {
	if r.redact == nil {
		return b
	}
	v, err := RedactJSON(b, r.redact)
	if err != nil {
		return r.redacted(b)
	}
	doc, _ := json.Marshal(v) // v comes from JSON, so this cannot fail
	return doc
}

func (r *rendering) float(f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		r.out = append(r.out, "null"...)
		return
	}
	b, _ := json.Marshal(f) // the notation used elsewhere in JSON
	r.out = append(r.out, b...)
}

// room returns how many more bytes may be appended.
func (r *rendering) room() int { return max(r.end-len(r.out), 0) }

// string appends s in quotes. It first truncates s to the remaining room.
func (r *rendering) string(s []byte) {
	if room := r.room(); len(s) > room {
		s = s[:room]
		for len(s) > 0 && !utf8.Valid(s[max(0, len(s)-utf8.UTFMax):]) {
			s = s[:len(s)-1]
			if room-len(s) >= utf8.UTFMax {
				break // not a truncated rune: the string itself is not UTF-8
			}
		}
	}
	b, _ := json.Marshal(string(s))
	r.out = append(r.out, b...)
}

func (r *rendering) bytes(b []byte) {
	b = r.document(b)
	switch {
	case r.readable && len(b) > 0 && json.Valid(b):
		r.json(b)
	case r.readable && isPrintable(b):
		r.string(b)
	default:
		r.base64(b)
	}
}

func (r *rendering) base64(b []byte) {
	b = b[:min(len(b), r.room())]
	r.out = append(r.out, '"')
	r.out = base64.StdEncoding.AppendEncode(r.out, b)
	r.out = append(r.out, '"')
}

// json appends JSON, which must be valid.
func (r *rendering) json(text []byte) {
	var compact bytes.Buffer
	_ = json.Compact(&compact, text)
	r.out = append(r.out, compact.Bytes()[:min(compact.Len(), r.room())]...)
}

func (r *rendering) ext(h head) {
	if at, ok := h.time(); ok {
		r.out = append(r.out, '"')
		r.out = showable(at).AppendFormat(r.out, time.RFC3339Nano)
		r.out = append(r.out, '"')
		return
	}
	if h.isJSON() && json.Valid(h.body) {
		r.json(r.document(h.body))
		return
	}
	r.out = append(r.out, `{"ext":`...)
	r.out = strconv.AppendInt(r.out, int64(h.ext), 10)
	r.out = append(r.out, `,"data":`...)
	r.base64(r.redacted(h.body))
	r.out = append(r.out, '}')
}

func isPrintable(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexFunc(b, func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) }) < 0
}

// showable returns t, or t in UTC if RFC 3339 cannot express its offset.
func showable(t time.Time) time.Time {
	if _, offset := t.Zone(); offset%60 != 0 || max(offset, -offset) >= 24*60*60 {
		return t.UTC()
	}
	return t
}
