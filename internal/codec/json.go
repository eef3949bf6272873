package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// AppendJSON appends the msgpack value of data to dst as JSON. Bytes become
// base64, timestamps RFC 3339 in UTC, numbers that JSON lacks (NaN, Inf)
// null, map keys strings. It stops early, with what fits so far, once it has
// appended more than limit bytes; limit 0 means no limit.
func AppendJSON(dst, data []byte, limit int) ([]byte, error) {
	return appendLimited(dst, data, limit, &rendering{bytes: appendBase64})
}

// AppendReadable is AppendJSON for people: bytes that are JSON become that, and
// bytes that are printable text a string. It cannot be read back.
func AppendReadable(dst, data []byte, limit int) ([]byte, error) {
	return appendLimited(dst, data, limit, &rendering{bytes: appendReadableBytes})
}

// AppendRedacted is AppendReadable with what redact makes of every text, before
// JSON escapes it: of strings, of map keys, of bytes, and of strings and keys in
// bytes that are JSON.
func AppendRedacted(dst, data []byte, limit int, redact func(string) string) ([]byte, error) {
	return appendLimited(dst, data, limit, &rendering{appendReadableBytes, redact})
}

// rendering is how values become JSON.
type rendering struct {
	bytes  func(dst, b []byte, end int) []byte // renders bytes, about as far as end
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

// document redacts bytes, which are JSON or not.
func (r *rendering) document(b []byte) []byte {
	v, err := RedactJSON(b, r.redact)
	if err != nil {
		return r.text(b)
	}
	doc, _ := json.Marshal(v) // which the decoder made
	return doc
}

func appendLimited(dst, data []byte, limit int, r *rendering) ([]byte, error) {
	if rest, err := Skip(data); err != nil {
		return dst, err
	} else if len(rest) > 0 {
		return dst, fmt.Errorf("codec: %d bytes after the value", len(rest))
	}
	end := math.MaxInt
	if limit > 0 {
		end = len(dst) + limit
	}
	dst, _ = appendJSON(dst, data, end, r)
	return dst, nil
}

func appendJSON(dst, data []byte, end int, r *rendering) (out, rest []byte) {
	t, rest, _ := next(data)
	switch t.kind {
	case kindNil:
		return append(dst, "null"...), rest
	case kindBool:
		return strconv.AppendBool(dst, t.i != 0), rest
	case kindInt:
		return strconv.AppendInt(dst, t.i, 10), rest
	case kindUint:
		return strconv.AppendUint(dst, t.u, 10), rest
	case kindFloat:
		return appendFloat(dst, t.f), rest
	case kindString:
		return appendString(dst, r.text(t.body), end), rest
	case kindBytes:
		return r.appendBytes(dst, t.body, end), rest
	case kindExt:
		return appendExt(dst, t, end, r), rest
	}
	open, closing := byte('['), byte(']')
	if t.kind == kindMap {
		open, closing = '{', '}'
	}
	dst = append(dst, open)
	for i := range t.n {
		if len(dst) > end {
			return dst, rest
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		if t.kind == kindMap {
			dst, rest = appendKey(dst, rest, end, r)
			dst = append(dst, ':')
		}
		dst, rest = appendJSON(dst, rest, end, r)
	}
	return append(dst, closing), rest
}

// appendKey writes a map key as the string that JSON asks for.
func appendKey(dst, data []byte, end int, r *rendering) (out, rest []byte) {
	if t, rest, _ := next(data); t.kind == kindString {
		return appendString(dst, r.text(t.body), end), rest
	}
	var key []byte
	key, rest = appendJSON(nil, data, end, r)
	return appendString(dst, key, end), rest
}

func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	b, _ := json.Marshal(f) // the same notation as everywhere in JSON
	return append(dst, b...)
}

// appendString cuts what is past end anyway before it is quoted.
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
		var compact bytes.Buffer
		_ = json.Compact(&compact, b) // it is valid
		room := max(end-len(dst), 0)
		return append(dst, compact.Bytes()[:min(compact.Len(), room)]...)
	case isPrintable(b):
		return appendString(dst, b, end)
	}
	return appendBase64(dst, b, end)
}

func isPrintable(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexFunc(b, func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) }) < 0
}

// timestampExt is the extension type of the msgpack timestamp.
const timestampExt = -1

func appendExt(dst []byte, t token, end int, r *rendering) []byte {
	if at, ok := timestamp(t); ok {
		dst = append(dst, '"')
		dst = at.UTC().AppendFormat(dst, time.RFC3339Nano)
		return append(dst, '"')
	}
	dst = append(dst, `{"ext":`...)
	dst = strconv.AppendInt(dst, int64(t.ext), 10)
	dst = append(dst, `,"data":`...)
	return append(appendBase64(dst, r.text(t.body), end), '}')
}

// timestamp reads the three forms of the timestamp extension.
// Source: the msgpack specification, "Timestamp extension type".
func timestamp(t token) (time.Time, bool) {
	if t.ext != timestampExt {
		return time.Time{}, false
	}
	switch len(t.body) {
	case 4:
		return time.Unix(int64(binary.BigEndian.Uint32(t.body)), 0), true
	case 8:
		u := binary.BigEndian.Uint64(t.body)
		return time.Unix(int64(u&(1<<34-1)), int64(u>>34)), true
	case 12:
		return time.Unix(int64(binary.BigEndian.Uint64(t.body[4:])), int64(binary.BigEndian.Uint32(t.body))), true
	}
	return time.Time{}, false
}
