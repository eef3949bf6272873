package codec

import "encoding/binary"

// Most of what is read are numbers, texts and lengths in the forms that the
// encoder chooses for them. A Reader reads these by itself, for the library's
// decoder takes ten times as long; every other form, and everything that is
// cut off or wrong, goes to the library. What they read is the same.

// shortInt reads an integer of one byte, or one that is not negative.
func (r *Reader) shortInt() (n int64, ok bool) {
	data := r.data[r.off:]
	if len(data) == 0 {
		return 0, false
	}
	c := data[0]
	if c < 0x80 || c >= 0xe0 {
		r.off++
		return int64(int8(c)), true
	}
	if c < 0xcc || c > 0xcf {
		return 0, false
	}
	width := 1 << (c - 0xcc)
	if len(data) <= width {
		return 0, false
	}
	r.off += 1 + width
	switch width {
	case 1:
		return int64(data[1]), true
	case 2:
		return int64(binary.BigEndian.Uint16(data[1:])), true
	case 4:
		return int64(binary.BigEndian.Uint32(data[1:])), true
	}
	return int64(binary.BigEndian.Uint64(data[1:])), true
}

// shortBool reads a bool.
func (r *Reader) shortBool() (b, ok bool) {
	if r.off == len(r.data) || r.data[r.off]|1 != 0xc3 {
		return false, false
	}
	r.off++
	return r.data[r.off-1] == 0xc3, true
}

// shortArray reads the length of an array of up to 65,535 elements.
func (r *Reader) shortArray() (n int, ok bool) {
	data := r.data[r.off:]
	switch {
	case len(data) > 0 && data[0]&0xf0 == 0x90:
		r.off++
		return int(data[0] & 0x0f), true
	case len(data) > 2 && data[0] == 0xdc:
		r.off += 3
		return int(binary.BigEndian.Uint16(data[1:])), true
	}
	return 0, false
}

// shortView reads a str or a bin of up to 255 bytes, as a part of the slice.
func (r *Reader) shortView() (view []byte, ok bool) {
	data := r.data[r.off:]
	var begin, n int
	switch {
	case len(data) > 0 && data[0]&0xe0 == 0xa0:
		begin, n = 1, int(data[0]&0x1f)
	case len(data) > 1 && (data[0] == 0xd9 || data[0] == 0xc4):
		begin, n = 2, int(data[1])
	default:
		return nil, false
	}
	if n > len(data)-begin {
		return nil, false
	}
	r.off += begin + n
	return data[begin : begin+n : begin+n], true
}
