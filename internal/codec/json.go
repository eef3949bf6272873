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

// AppendJSON appends the msgpack value of data to dst as JSON. Bytes become
// base64, times RFC 3339 with their offset, numbers that JSON lacks (NaN, Inf)
// null, map keys strings. A value that was kept as JSON is that JSON. It stops early, with what fits so far, once it has
// appended more than limit bytes; limit 0 means no limit.
func AppendJSON(dst, data []byte, limit int) ([]byte, error) {
	return appendLimited(dst, data, limit, &rendering{bytes: appendBase64})
}

// AppendReadable is AppendJSON for people to read: bytes that are JSON become
// that JSON, and bytes that are printable text a string. The result cannot be
// decoded again.
func AppendReadable(dst, data []byte, limit int) ([]byte, error) {
	return appendLimited(dst, data, limit, &rendering{bytes: appendReadableBytes})
}

// AppendRedacted is AppendReadable with redact applied to every text before it
// is escaped: to strings, map keys and bytes, and to the strings and keys in
// bytes that are JSON.
func AppendRedacted(dst, data []byte, limit int, redact func(string) string) ([]byte, error) {
	return appendLimited(dst, data, limit, &rendering{appendReadableBytes, redact})
}

// rendering is how values become JSON.
type rendering struct {
	bytes  func(dst, b []byte, end int) []byte // appends bytes, about as far as end
	redact func(string) string                 // nil for none
}

func (r *rendering) text(s []byte) []byte {
	if r.redact == nil {
		return s
	}
	return []byte(r.redact(string(s)))
}

func (r *rendering) appendBytes(dst, b []byte, end int) []byte {
	if r.redact != nil {
		b = r.document(b)
	}
	return r.bytes(dst, b, end)
}

// document redacts bytes that may be JSON.
func (r *rendering) document(b []byte) []byte {
	v, err := RedactJSON(b, r.redact)
	if err != nil {
		return r.text(b)
	}
	doc, _ := json.Marshal(v) // of JSON, so it has no error
	return doc
}

func appendLimited(dst, data []byte, limit int, r *rendering) ([]byte, error) {
	if err := skipAll(data); err != nil {
		return dst, err
	}
	end := math.MaxInt
	if limit > 0 {
		end = len(dst) + limit
	}
	dst, _ = appendJSON(dst, data, end, r)
	return dst, nil
}

func appendJSON(dst, data []byte, end int, r *rendering) (out, rest []byte) {
	h, rest, _ := next(data)
	switch h.kind {
	case kindNil:
		return append(dst, "null"...), rest
	case kindBool:
		return strconv.AppendBool(dst, h.bool()), rest
	case kindInt:
		return strconv.AppendInt(dst, h.int(), 10), rest
	case kindUint:
		return strconv.AppendUint(dst, h.bits, 10), rest
	case kindFloat:
		return appendFloat(dst, h.float()), rest
	case kindString:
		return appendString(dst, r.text(h.body), end), rest
	case kindBytes:
		return r.appendBytes(dst, h.body, end), rest
	case kindExt:
		return appendExt(dst, h, end, r), rest
	}
	open, closing := byte('['), byte(']')
	if h.kind == kindMap {
		open, closing = '{', '}'
	}
	dst = append(dst, open)
	for i := range h.n {
		if len(dst) > end {
			return dst, rest
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		if h.kind == kindMap {
			dst, rest = appendKey(dst, rest, end, r)
			dst = append(dst, ':')
		}
		dst, rest = appendJSON(dst, rest, end, r)
	}
	return append(dst, closing), rest
}

// appendKey appends a map key as a string.
func appendKey(dst, data []byte, end int, r *rendering) (out, rest []byte) {
	if h, rest, _ := next(data); h.kind == kindString {
		return appendString(dst, r.text(h.body), end), rest
	}
	h, _, _ := next(data)
	var key []byte
	key, rest = appendJSON(nil, data, end, r)
	return appendString(dst, []byte(keyOf(key, h)), end), rest
}

// keyOf is the key of a map whose JSON is text: of a string that was kept as
// JSON, the string.
func keyOf(text []byte, h head) string {
	var s string
	if h.isJSON() && json.Unmarshal(text, &s) == nil {
		return s
	}
	return string(text)
}

func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	b, _ := json.Marshal(f) // the same notation as everywhere in JSON
	return append(dst, b...)
}

// appendString cuts what is past end before quoting it.
func appendString(dst, s []byte, end int) []byte {
	if room := max(end-len(dst), 0); len(s) > room {
		s = s[:room]
		for len(s) > 0 && !utf8.Valid(s[max(0, len(s)-utf8.UTFMax):]) {
			s = s[:len(s)-1]
			if room-len(s) >= utf8.UTFMax {
				break // not a cut rune: the string itself is not UTF-8
			}
		}
	}
	b, _ := json.Marshal(string(s))
	return append(dst, b...)
}

func appendBase64(dst, b []byte, end int) []byte {
	b = b[:min(len(b), max(end-len(dst), 0))]
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

func appendReadableBytes(dst, b []byte, end int) []byte {
	switch {
	case len(b) > 0 && json.Valid(b):
		return appendDocument(dst, b, end)
	case isPrintable(b):
		return appendString(dst, b, end)
	}
	return appendBase64(dst, b, end)
}

// appendDocument appends JSON.
func appendDocument(dst, text []byte, end int) []byte {
	var compact bytes.Buffer
	_ = json.Compact(&compact, text) // it is valid
	room := max(end-len(dst), 0)
	return append(dst, compact.Bytes()[:min(compact.Len(), room)]...)
}

func isPrintable(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexFunc(b, func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) }) < 0
}

func appendExt(dst []byte, h head, end int, r *rendering) []byte {
	if at, ok := h.time(); ok {
		dst = append(dst, '"')
		dst = showable(at).AppendFormat(dst, time.RFC3339Nano)
		return append(dst, '"')
	}
	if h.isJSON() && json.Valid(h.body) {
		text := h.body
		if r.redact != nil {
			text = r.document(text)
		}
		return appendDocument(dst, text, end)
	}
	dst = append(dst, `{"ext":`...)
	dst = strconv.AppendInt(dst, int64(h.ext), 10)
	dst = append(dst, `,"data":`...)
	return append(appendBase64(dst, r.text(h.body), end), '}')
}

// showable returns t in UTC if RFC 3339 has no notation for its offset.
func showable(t time.Time) time.Time {
	if _, offset := t.Zone(); offset%60 != 0 || max(offset, -offset) >= 24*60*60 {
		return t.UTC()
	}
	return t
}
