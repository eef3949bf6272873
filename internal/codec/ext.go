package codec

import (
	"encoding/binary"
	"math"
	"time"
)

// The types of the extensions in values. 'R' belongs to package record; users may use any other
// type.
const (
	timestampExt = -1  // the msgpack timestamp: a time in UTC
	timeExt      = 'T' // a time with an offset from UTC
	jsonExt      = 'J' // the JSON of a value
)

// AppendExt appends an extension of the given type to dst.
func AppendExt(dst []byte, extType int8, body []byte) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, 0xc9), uint32(len(body)))
	return append(append(dst, byte(extType)), body...)
}

// Ext returns the body of an extension. It returns false unless data is exactly one extension of
// the given type.
func Ext(data []byte, extType int8) (body []byte, ok bool) {
	h, rest, err := next(data)
	if err != nil || len(rest) > 0 || h.kind != kindExt || h.ext != extType {
		return nil, false
	}
	return h.body, true
}

// json appends JSON as an extension.
func (w *Writer) json(text []byte) {
	w.Ext(jsonExt, len(text))
	w.out = append(w.out, text...)
}

// isJSON reports whether h is a value encoded as JSON.
func (h head) isJSON() bool { return h.kind == kindExt && h.ext == jsonExt }

// time appends t with its offset. The name of the time zone and its daylight saving rules are not
// kept. A time in UTC becomes a timestamp.
func (w *Writer) time(t time.Time) {
	_, offset := t.Zone()
	if offset == 0 || int(int32(offset)) != offset {
		w.timestamp(t)
		return
	}
	w.Ext(timeExt, 16)
	w.out = binary.BigEndian.AppendUint32(w.out, uint32(t.Nanosecond()))
	w.out = binary.BigEndian.AppendUint64(w.out, uint64(t.Unix()))
	w.out = binary.BigEndian.AppendUint32(w.out, uint32(int32(offset)))
}

// timestamp appends the instant t in the shortest form of a timestamp; see "Timestamp extension
// type" in the msgpack specification.
func (w *Writer) timestamp(t time.Time) {
	s, ns := uint64(t.Unix()), uint64(t.Nanosecond())
	switch {
	case s>>34 != 0:
		w.Ext(timestampExt, 12)
		w.out = binary.BigEndian.AppendUint32(w.out, uint32(ns))
		w.out = binary.BigEndian.AppendUint64(w.out, s)
	case ns == 0 && s <= math.MaxUint32:
		w.Ext(timestampExt, 4)
		w.out = binary.BigEndian.AppendUint32(w.out, uint32(s))
	default:
		w.Ext(timestampExt, 8)
		w.out = binary.BigEndian.AppendUint64(w.out, ns<<34|s)
	}
}

// time decodes a time with an offset, or a timestamp in one of its three forms. A timestamp becomes
// a time in UTC.
func (h head) time() (t time.Time, ok bool) {
	if h.kind != kindExt {
		return time.Time{}, false
	}
	switch n := len(h.body); {
	case h.ext == timeExt && n == 16:
		offset := int32(binary.BigEndian.Uint32(h.body[12:]))
		return inZone(timestamp12(h.body), int(offset)), true
	case h.ext != timestampExt:
	case n == 4:
		return time.Unix(int64(binary.BigEndian.Uint32(h.body)), 0).UTC(), true
	case n == 8:
		u := binary.BigEndian.Uint64(h.body)
		return time.Unix(int64(u&(1<<34-1)), int64(u>>34)).UTC(), true
	case n == 12:
		return timestamp12(h.body).UTC(), true
	}
	return time.Time{}, false
}

// timestamp12 decodes a timestamp that consists of nanoseconds and seconds.
func timestamp12(b []byte) time.Time {
	return time.Unix(int64(binary.BigEndian.Uint64(b[4:])), int64(binary.BigEndian.Uint32(b)))
}

// inZone returns t in a location that has the given offset from UTC, in seconds, and no name.
func inZone(t time.Time, offset int) time.Time {
	if offset == 0 {
		return t.UTC()
	}
	return t.In(time.FixedZone("", offset))
}
