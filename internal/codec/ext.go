package codec

import "encoding/binary"

// AppendExt appends an extension value of the type to dst.
func AppendExt(dst []byte, extType int8, body []byte) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, 0xc9), uint32(len(body)))
	return append(append(dst, byte(extType)), body...)
}

// Ext returns the body of data if that is one extension value of the type.
func Ext(data []byte, extType int8) (body []byte, ok bool) {
	t, rest, err := next(data)
	if err != nil || len(rest) > 0 || t.kind != kindExt || t.ext != extType {
		return nil, false
	}
	return t.body, true
}
