package snapshot

import (
	"fmt"
	"math"
	"time"

	"github.com/reprise-go/reprise/internal/codec"
)

// A fieldReader reads an array field by field. Fields that are missing at the end are read as zero,
// and additional fields are skipped. After the first error it reads nothing more.
type fieldReader struct {
	in    *codec.Reader
	left  int // number of fields that have not been read yet
	index int // index of the current field, from 0
	begin int // offset of the current field
}

func newFieldReader(in *codec.Reader) fieldReader {
	return fieldReader{in: in, left: in.Array(), index: -1}
}

// next reports whether there is another field to read.
func (f *fieldReader) next() bool {
	if f.left == 0 || f.in.Err() != nil {
		return false
	}
	f.left--
	f.index++
	f.begin = f.in.Offset()
	return true
}

// skip skips n fields.
func (f *fieldReader) skip(n int) {
	n = min(n, f.left)
	f.begin = f.in.Offset()
	f.left -= n
	f.index += n
	f.in.Discard(n)
}

// end skips the remaining fields, which a later version has added.
func (f *fieldReader) end() {
	for f.next() {
		f.in.Skip()
	}
}

func (f *fieldReader) fail(err error) { f.in.Fail(f.begin, err) }

// err returns the reader's error, preceded by the index of the field.
func (f *fieldReader) err() error {
	if err := f.in.Err(); err != nil {
		return fmt.Errorf("field %d: %w", max(f.index, 0), err)
	}
	return nil
}

func (f *fieldReader) uint() uint64 {
	if !f.next() {
		return 0
	}
	return f.in.Uint()
}

func (f *fieldReader) int() int64 {
	if !f.next() {
		return 0
	}
	return f.in.Int()
}

// byte reads the number of a kind, a status or a similar value. It accepts unknown numbers; they
// are printed as numbers.
func (f *fieldReader) byte() uint8 {
	n := f.uint()
	if n > math.MaxUint8 {
		f.fail(fmt.Errorf("%d is above 255", n))
		return 0
	}
	return uint8(n)
}

func (f *fieldReader) number() int {
	n := f.int()
	if int64(int(n)) != n {
		f.fail(fmt.Errorf("%d is too large for this machine", n))
	}
	return int(n)
}

func (f *fieldReader) duration() time.Duration { return time.Duration(f.int()) }

func (f *fieldReader) bool() bool { return f.next() && f.in.Bool() }

func (f *fieldReader) bytes() []byte {
	if !f.next() {
		return nil
	}
	return f.in.Bytes()
}

func (f *fieldReader) text() string {
	if !f.next() {
		return ""
	}
	return f.in.Text()
}

// name reads a string that occurs in many records.
func (f *fieldReader) name() string {
	if !f.next() {
		return ""
	}
	return f.in.Name()
}

// list reads an array and calls item to read each element.
func (f *fieldReader) list(item func()) {
	if !f.next() {
		return
	}
	for n := f.in.Array(); n > 0 && f.in.Err() == nil; n-- {
		item()
	}
}
