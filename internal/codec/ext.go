package codec

import (
	"encoding/binary"
	"time"
)

// AppendExt appends an extension value of the type to dst.
func AppendExt(dst []byte, extType int8, body []byte) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, 0xc9), uint32(len(body)))
	return append(append(dst, byte(extType)), body...)
}

// Ext returns the body of data if that is one extension value of the type.
func Ext(data []byte, extType int8) (body []byte, ok bool) {
	h, rest, err := next(data)
	if err != nil || len(rest) > 0 || h.kind != kindExt || h.ext != extType {
		return nil, false
	}
	return h.body, true
}

// timestampExt is the extension type of the msgpack timestamp.
const timestampExt = -1

// timestamp reads the three forms of the timestamp extension.
// Source: the msgpack specification, "Timestamp extension type".
func timestamp(h head) (time.Time, bool) {
	if h.ext != timestampExt {
		return time.Time{}, false
	}
	switch len(h.body) {
	case 4:
		return time.Unix(int64(binary.BigEndian.Uint32(h.body)), 0), true
	case 8:
		u := binary.BigEndian.Uint64(h.body)
		return time.Unix(int64(u&(1<<34-1)), int64(u>>34)), true
	case 12:
		return time.Unix(int64(binary.BigEndian.Uint64(h.body[4:])), int64(binary.BigEndian.Uint32(h.body))), true
	}
	return time.Time{}, false
}
