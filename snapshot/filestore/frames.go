package filestore

import (
	"errors"
	"hash/crc32"
	"io"
	"iter"
	"math"
)

// framesFrom yields the frames of a file of that size, one after the other, from an offset
// on. It ends where none follows. The body of a frame is overwritten by the next.
func framesFrom(in source, offset, size int64) iter.Seq2[*frame, error] {
	return func(yield func(*frame, error) bool) {
		for w := (&window{source: in}); ; {
			f, err := w.frameAt(offset, size)
			if f == nil && err == nil || !yield(f, err) || err != nil {
				return
			}
			offset += f.size
		}
	}
}

// A window is the part of a file that was read last, of which frames are taken
// one after the other.
type window struct {
	source
	at   int64 // where data begins in the file
	data []byte
}

// frameAt is the frame at an offset; nil if there is none. Its body is
// overwritten by the next.
func (w *window) frameAt(offset, size int64) (*frame, error) {
	if err := w.have(offset, frameHead, size); err != nil {
		return nil, err
	}
	f, checksum, ok := headAt(w.data, int(offset-w.at), w.at, size)
	if !ok {
		return nil, nil
	}
	if f.size > int64(cap(w.data)) { // it is not read before it is known to be one
		if same, err := matches(w.source, &f, checksum); err != nil || !same {
			return nil, err
		}
	}
	if err := w.have(offset, f.size, size); err != nil {
		return nil, err
	}
	begin := offset - w.at
	if int64(len(w.data)) < begin+f.size {
		return nil, nil // it became shorter
	}
	payload := w.data[begin+frameHead : begin+f.size]
	if crc32.Checksum(payload, castagnoli) != checksum {
		return nil, nil
	}
	f.kind, f.body = frameKind(payload[0]), payload[1:]
	return &f, nil
}

// have has data begin at an offset or before, and reach over so many bytes, or to
// the end of the file.
func (w *window) have(offset, n, size int64) error {
	if offset >= w.at && offset+n <= w.at+int64(len(w.data)) {
		return nil
	}
	n = min(max(n, loadStep), size-offset)
	if n < 0 || n > math.MaxInt {
		n = 0
	}
	if int64(cap(w.data)) < n {
		w.data = make([]byte, n)
	}
	w.at, w.data = offset, w.data[:n]
	got, err := w.ReadAt(w.data, offset)
	w.data = w.data[:got]
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}
