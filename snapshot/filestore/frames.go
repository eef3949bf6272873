package filestore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"iter"
	"math"
)

// source is a file that is read.
type source interface {
	io.ReaderAt
	dataAt(offset, size int64) int64 // the offset of the next data; size if there is none
	holeAt(offset, size int64) int64 // the offset of the next hole; size if there is none
}

// A frameReader reads the frames of a file one after the other, even while the file is being
// written. It is for one goroutine.
type frameReader struct {
	source
	name string
	size int64 // size of the file, as given to resize
	end  int64 // end of the frames that were read
	keep bool  // the body of a frame stays valid; otherwise the next frame overwrites it

	limit    int64  // up to where the file is read, see readable
	isAll    bool   // no data follows the limit
	at       int64  // where data begins in the file
	data     []byte // the bytes that were read last
	found    frame  // the frame that was read last
	isDamage bool   // the next frame is whole, but no writer writes such a frame
	searched int64  // the value of end for which follows was determined; -1 if it was not
	follows  ending // what follows the frames up to searched
}

func newFrameReader(name string, in source, size int64) *frameReader {
	r := &frameReader{source: in, name: name}
	r.resize(size)
	return r
}

// frameReaderOf returns a reader of the frames of a file in memory.
func frameReaderOf(name string, data []byte) *frameReader {
	n := int64(len(data))
	return &frameReader{source: bytesSource(data), name: name, size: n, keep: true, limit: n, isAll: true, data: data, searched: -1}
}

// resize tells the reader that the file may have changed, and what its size is now.
func (r *frameReader) resize(size int64) {
	upTo, all := readable(r.source, size)
	r.size, r.limit, r.isAll = size, min(size, upTo+maxHoles), all
	r.data, r.searched = r.data[:0], -1
}

// frames yields the frames that follow, up to the end of the file or to bytes that are not a frame.
// Another call, after resize, yields the frames that were written since. A frame is valid until the
// next one is yielded.
func (r *frameReader) frames() iter.Seq2[*frame, error] {
	return func(yield func(*frame, error) bool) {
		for {
			f, err := r.next()
			if f == nil && err == nil {
				// The frame may have been written after next looked for it, and others after it.
				// Then another look finds it.
				if e, failed := r.ending(); failed != nil {
					err = failed
				} else if e != endClean {
					r.data = r.data[:0]
					f, err = r.next()
				}
			}
			if f == nil && err == nil || !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// Frames of more than largeFrame bytes are checked before memory is allocated for them.
const largeFrame = 1 << 20

// next returns the next frame, or nil if none follows.
func (r *frameReader) next() (*frame, error) {
	if err := r.load(r.end, frameHead); err != nil || r.isDamage {
		return nil, err
	}
	f, checksum, ok := headAt(r.data, int(r.end-r.at), r.at, r.limit)
	if !ok {
		return nil, nil
	}
	if f.size > largeFrame {
		if same, err := matches(r, &f, checksum); err != nil || !same {
			return nil, err
		}
	}
	if err := r.load(f.offset, f.size); err != nil {
		return nil, err
	}
	begin := f.offset - r.at
	if int64(len(r.data)) < begin+f.size {
		return nil, nil // the file became shorter
	}
	end := begin + f.size
	payload := r.data[begin+frameHead : end : end]
	if crc32.Checksum(payload, castagnoli) != checksum {
		return nil, nil
	}
	f.kind, f.body = frameKind(payload[0]), payload[1:]
	if f.kind == frameRecords && len(f.body) < recordMin {
		r.isDamage = true
		return nil, nil
	}
	r.found, r.end = f, f.offset+f.size
	return &r.found, nil
}

// recordMin is less than the size of any record. It keeps what a reader remembers in proportion to
// the size of the file.
const recordMin = 24

// readStep is the minimum number of bytes that are read at once.
const readStep = 64 << 10

// load reads n bytes at an offset into data, or fewer at the end of the file.
func (r *frameReader) load(offset, n int64) error {
	if offset >= r.at && offset+n <= r.at+int64(len(r.data)) {
		return nil
	}
	n = min(max(n, readStep), max(r.limit-offset, 0), math.MaxInt)
	if r.keep || int64(cap(r.data)) < n {
		r.data = make([]byte, n)
	}
	r.at, r.data = offset, r.data[:n]
	got, err := r.ReadAt(r.data, offset)
	r.data = r.data[:got]
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// header reads the first frame, which must be a header of the run. isDamaged is false if the error
// says nothing about the content of the file.
func (r *frameReader) header(runID string) (h header, isDamaged bool, err error) {
	f, err := r.next()
	switch {
	case err != nil:
		return header{}, false, err
	case f == nil, f.kind != frameHeader:
		return header{}, true, errNoHeader
	}
	h, err = f.headerOf(runID, r.name)
	return h, err != nil, err
}

// An ending is what follows the last frame of a file.
type ending byte

const (
	endClean   ending = iota // zeros, or nothing
	endTorn                  // something else, which was never synced: it can be cut off
	endDamaged               // something else, in a part that was synced
)

// searchStep is how much of what follows the frames is in memory at a time.
const searchStep = 1 << 20

// ending returns what follows the frames that were read. It reads each byte once. It also reads the
// payloads of what look like frames, but in total no more bytes than the file has: a file that
// needs more was made to keep its reader busy.
func (r *frameReader) ending() (ending, error) {
	if r.searched == r.end {
		return r.follows, nil
	}
	follows, err := r.search()
	if err == nil {
		r.searched, r.follows = r.end, follows
	}
	return follows, err
}

func (r *frameReader) search() (ending, error) {
	switch {
	case r.isDamage, !r.isAll:
		return endDamaged, nil
	case r.end >= r.limit, r.at+int64(len(r.data)) == r.limit && r.end >= r.at && isZero(r.data[r.end-r.at:]):
		return endClean, nil
	}
	end := endClean
	buf := make([]byte, 0, min(searchStep, r.limit-r.end)+frameHead)
	for at, budget := r.end, r.limit; at < r.limit; {
		if next := r.dataAt(at, r.limit); next > at {
			at = next
			continue
		}
		buf = buf[:min(searchStep+frameHead, r.limit-at)]
		n, err := r.ReadAt(buf, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if buf = buf[:n]; n == 0 {
			break
		}
		if isZero(buf) {
			at += int64(n)
			continue
		}
		end = endTorn
		synced, err := r.wasSynced(buf, at, &budget)
		if err != nil {
			return 0, err
		} else if synced {
			return endDamaged, nil
		}
		at += int64(max(n-frameHead, 1))
	}
	return end, nil
}

// wasSynced reports whether buf, which begins at an offset of the file, contains a frame which says
// that the file was synced beyond the end of the frames that were read. The payloads that are read
// to check this are taken off the budget; wasSynced also reports true once the budget is spent.
func (r *frameReader) wasSynced(buf []byte, at int64, budget *int64) (bool, error) {
	last := len(buf) - frameHead
	for i := nextHead(buf, 0, at); i <= last; i = nextHead(buf, i, at) {
		f, checksum, ok := headAt(buf, i, at, r.limit)
		if !ok || f.offset == r.end {
			i++
			continue
		}
		if *budget -= f.size; *budget < 0 {
			return true, nil
		}
		same, err := matches(r, &f, checksum)
		switch {
		case err != nil:
			return false, err
		case !same:
			i++
		case f.synced > r.end:
			return true, nil
		default:
			i += int(min(f.size, int64(last+1)))
		}
	}
	return false, nil
}

// nextHead returns the first place in buf, from i on, with a valid head of a frame, or a place so
// close to the end that no head fits. The buffer begins at offset base of the file.
//
// There may be hundreds of megabytes to search, byte by byte, so the check is not computed from
// scratch for each place. A CRC without its inversions is linear: the check is the exclusive or of
// the sum of the offset and the sum of the 12 bytes. From one place to the next, one byte leaves
// the 12 and one enters, and usually only the last byte of the offset changes.
func nextHead(buf []byte, i int, base int64) int {
	if i+frameHead > len(buf) {
		return i
	}
	sum := rawSum(0, buf[i+4:i+frameHead])
	var first uint32 // the sum of the first 7 bytes of the offset
	var rest uint32  // the sum of all bytes of the offset but the last
	for known := int64(-1); ; i++ {
		offset := base + int64(i)
		if offset>>8 != known {
			known = offset >> 8
			var at [8]byte
			binary.BigEndian.PutUint64(at[:], uint64(offset))
			first = rawSum(math.MaxUint32, at[:7])
			rest = rawSum(first>>8, make([]byte, frameHead-4))
		}
		if ^(followedBy12[byte(first)^byte(offset)]^rest^sum) == binary.BigEndian.Uint32(buf[i:]) || i+frameHead == len(buf) {
			return i
		}
		sum = castagnoli[byte(sum)^buf[i+frameHead]] ^ sum>>8 ^ followedBy12[buf[i+4]]
	}
}

// rawSum continues a CRC-32C without the inversions at its beginning and at its end.
func rawSum(sum uint32, data []byte) uint32 {
	for _, b := range data { // package crc32 would make data escape to the heap
		sum = castagnoli[byte(sum)^b] ^ sum>>8
	}
	return sum
}

// followedBy12 contains what each byte adds to a raw sum if 12 bytes follow it.
var followedBy12 = func() (table [256]uint32) {
	for b := range table {
		table[b] = rawSum(castagnoli[b], make([]byte, frameHead-4))
	}
	return table
}()

// matches reports whether the payload of a frame has the checksum.
func matches(in io.ReaderAt, f *frame, checksum uint32) (bool, error) {
	sum := crc32.New(castagnoli)
	n, err := io.Copy(sum, io.NewSectionReader(in, f.offset+frameHead, f.size-frameHead))
	return err == nil && n == f.size-frameHead && sum.Sum32() == checksum, err
}

var zeros [32 << 10]byte

func isZero(data []byte) bool {
	for len(data) > 0 {
		n := min(len(data), len(zeros))
		if string(data[:n]) != string(zeros[:n]) {
			return false
		}
		data = data[n:]
	}
	return true
}

// bytesSource is a file in memory.
type bytesSource []byte

func (b bytesSource) ReadAt(dst []byte, offset int64) (int, error) {
	if offset >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(dst, b[offset:])
	if n < len(dst) {
		return n, io.EOF
	}
	return n, nil
}

func (b bytesSource) dataAt(offset, _ int64) int64 { return offset }

func (b bytesSource) holeAt(_, size int64) int64 { return size }
