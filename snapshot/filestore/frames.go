package filestore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"iter"
	"math"
)

// source is a file that is being read.
type source interface {
	io.ReaderAt
	dataAt(offset, size int64) int64 // where the next data begins, at offset or later; size if there is none
	holeAt(offset, size int64) int64 // where the next hole begins, at offset or later; size if there is none
}

// A frameReader reads the frames in a file one after another, even while the file is being written.
// It is not safe for concurrent use.
type frameReader struct {
	source
	name string
	size int64 // size of the file, as given to resize
	end  int64 // where the frames read so far end
	keep bool  // the body of a frame stays valid; otherwise the next frame overwrites it

	limit    int64  // the file is read up to this offset; see readable
	isAll    bool   // no data follows the limit
	at       int64  // offset in the file at which data begins
	data     []byte // the bytes read last
	found    frame  // the frame read last
	isDamage bool   // the next frame has valid checksums, but is not one that a writer would write
	searched int64  // the value of end for which follows was determined; -1 if it was not
	follows  ending // what follows the frames up to searched
}

func newFrameReader(name string, in source, size int64) *frameReader {
	r := &frameReader{source: in, name: name}
	r.resize(size)
	return r
}

// frameReaderOf returns a reader for the frames of a file whose content is data.
func frameReaderOf(name string, data []byte) *frameReader {
	n := int64(len(data))
	return &frameReader{source: bytesSource(data), name: name, size: n, keep: true, limit: n, isAll: true, data: data, searched: -1}
}

// resize tells the reader that the file may have changed and now has the given size.
func (r *frameReader) resize(size int64) {
	upTo, all := readable(r.source, size)
	r.size, r.limit, r.isAll = size, min(size, upTo+maxHoles), all
	r.data, r.searched = r.data[:0], -1
}

// frames yields the remaining frames, up to the end of the file or to bytes that are not a frame.
// After resize, another call yields the frames written in the meantime. A frame is valid until the
// next one is yielded.
func (r *frameReader) frames() iter.Seq2[*frame, error] {
	return func(yield func(*frame, error) bool) {
		for {
			f, err := r.next()
			if f == nil && err == nil {
				// If anything but zeros follows, a frame may have been written here since the call
				// of next: look again.
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

// The checksum of a frame larger than largeFrame bytes is verified before memory is allocated for
// the frame.
const largeFrame = 1 << 20

// next reads the next frame. It returns nil if no frame follows.
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
		return nil, nil // the file has become shorter
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

// recordMin is less than the size of any record. Smaller frames are rejected, so a reader's memory
// use is proportional to the size of the file.
const recordMin = 24

// readStep is the minimum number of bytes read at once.
const readStep = 64 << 10

// load makes sure that r.data contains the n bytes at offset, or fewer at the end of the file.
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

// header reads the first frame, which must be a header for the given run. If there is an error,
// isDamaged reports whether the error is about the content of the file.
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
	endTorn                  // other bytes, never synced, which can be cut off
	endDamaged               // other bytes, in a part that was synced
)

// searchStep is how many of the bytes after the frames are held in memory at a time.
const searchStep = 1 << 20

// ending determines what follows the frames that were read. It reads each byte once. It also reads
// the payloads of what look like frames, but in total no more bytes than the file has. A file that
// would require more was crafted to keep its reader busy, and counts as damaged.
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

// wasSynced reports whether the bytes after r.end were synced. They were if buf, which begins at
// offset at in the file, contains a frame that was written when the file was already synced beyond
// r.end. To check such a frame, wasSynced reads its payload and subtracts the frame's size from the
// budget. When the budget is used up, wasSynced returns true.
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

// nextHead returns the first index in buf, from i on, at which there is a frame head with a valid
// check. If there is none, it returns an index at or after the last one at which a head would fit.
// buf begins at offset base in the file.
//
// There may be hundreds of megabytes to search byte by byte, so the check is not computed from
// scratch at each index. A CRC without its inversions is linear: the check is the exclusive or of
// the sum of the offset and the sum of the head's last 12 bytes. From one index to the next, one of
// the 12 bytes is removed and one is added, and usually only the last byte of the offset changes.
func nextHead(buf []byte, i int, base int64) int {
	if i+frameHead > len(buf) {
		return i
	}
	sum := rawSum(0, buf[i+4:i+frameHead])
	var first uint32 // the sum of the offset's first 7 bytes
	var rest uint32  // the contribution of first>>8 to the check
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

// rawSum continues a CRC-32C, without the inversions at the beginning and at the end.
func rawSum(sum uint32, data []byte) uint32 {
	for _, b := range data { // package crc32 would make data escape to the heap
		sum = castagnoli[byte(sum)^b] ^ sum>>8
	}
	return sum
}

// followedBy12 contains each byte's contribution to a raw sum when 12 more bytes follow it.
var followedBy12 = func() (table [256]uint32) {
	for b := range table {
		table[b] = rawSum(castagnoli[b], make([]byte, frameHead-4))
	}
	return table
}()

// matches reports whether the payload of a frame has the given checksum.
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

// bytesSource is an in-memory source.
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
