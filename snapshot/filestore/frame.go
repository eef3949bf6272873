package filestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/snapshot"
)

// Journals, and the small files beside them, are frames, one after the other:
//
//	check     4 bytes: CRC-32C of the frame's offset in its file (8 bytes), and
//	          of the three numbers that follow
//	length    4 bytes: of the payload
//	unsynced  4 bytes: how many bytes before this frame were not known to be on
//	          the disk when it was written; all ones if that is not known
//	checksum  4 bytes: CRC-32C of the payload
//	payload   its kind, one byte, and what the kind has
//
// All numbers are big-endian. The offset is in the check so that a frame is one
// only where it was written: not inside a payload, where a tool has read it
// from a file like this, nor in a block that the file system has misplaced. The
// head has a check of its own so that a search for frames reads every byte
// once, whatever it finds.
//
// The room behind the last frame may be zeros, which were allocated and not
// used yet: the end of a file is where only zeros follow.
//
// A crash can leave a part of what was not synced, in any order of its blocks:
// the end is then no frame, or has holes. Damage is something else: it is in
// what was synced. What is no frame at offset x was synced if a frame behind it
// says so, by its offset minus unsynced being above x. Otherwise it is a torn
// end, with all that follows: none of it was promised to anybody.
const (
	frameHead = 16
	frameMax  = 1 << 30 // of a payload
)

// frameKind is what a frame holds.
type frameKind byte

const (
	frameHeader  frameKind = 1 // a header, as a map: the first frame of every file
	frameRecords frameKind = 2 // records that were appended together, one after the other
	frameInfo    frameKind = 3 // an info: a generation began, or ended
)

// header is the first frame of a file. That of a message has an info alone.
type header struct {
	format  uint64
	covers  uint64 // of a journal: those up to this number are in it, or in the snapshot that was there when it was begun
	carried uint64 // of a journal: records up to this number were in it before it got its name
	closed  closed // of a meta file
	pid     int    // of a meta file: the process that has the run open; 0 if that is not known
	info    snapshot.Info
}

// closed says where the journal of a run ends that was closed: all before is on
// the disk. It is zero while the run is open, and if that is not known.
type closed struct {
	journal uint64 // its number
	end     int64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkOf is the check of a frame, head being its first bytes.
func checkOf(offset int64, head []byte) uint32 {
	crc := ^uint32(0)
	for shift := 56; shift >= 0; shift -= 8 { // by hand, for a slice of these bytes would be allocated
		crc = castagnoli[byte(crc)^byte(offset>>shift)] ^ crc>>8
	}
	return crc32.Update(^crc, castagnoli, head[4:frameHead])
}

// beginFrame appends the head of a frame, to be filled in, and its kind. The
// rest of the payload is appended to what it returns, which then goes to
// endFrame.
func beginFrame(dst []byte, k frameKind) []byte {
	var head [frameHead]byte
	return append(append(dst, head[:]...), byte(k))
}

// endFrame fills in the head of the frame that begins at dst[at:], and will be
// written at offset to a file that is synced up to synced.
func endFrame(dst []byte, at int, offset, synced int64) ([]byte, error) {
	head, payload := dst[at:at+frameHead], dst[at+frameHead:]
	if len(payload) > frameMax {
		return dst[:at], fmt.Errorf("snapshot: %d bytes appended at once, want at most %d", len(payload), frameMax)
	}
	binary.BigEndian.PutUint32(head[4:], uint32(len(payload)))
	binary.BigEndian.PutUint32(head[8:], uint32(min(offset-synced, math.MaxUint32)))
	binary.BigEndian.PutUint32(head[12:], crc32.Checksum(payload, castagnoli))
	binary.BigEndian.PutUint32(head, checkOf(offset, head))
	return dst, nil
}

// appendHeader appends a frame with the header, at the beginning of a file.
func appendHeader(dst []byte, h *header) ([]byte, error) {
	at := len(dst)
	w := codec.NewWriter(beginFrame(dst, frameHeader))
	w.Map(7)
	w.Key("format").Uint(snapshot.FormatVersion)
	w.Key("covers").Uint(h.covers)
	w.Key("carried").Uint(h.carried)
	w.Key("journal").Uint(h.closed.journal)
	w.Key("end").Uint(uint64(h.closed.end))
	w.Key("pid").Uint(uint64(h.pid))
	w.Text("info")
	dst, err := snapshot.AppendInfo(w.Finish(), &h.info)
	if err != nil {
		return dst, err
	}
	return endFrame(dst, at, int64(at), int64(at))
}

// A frame is one that was found whole.
type frame struct {
	offset int64
	size   int64 // with its head
	synced int64 // up to where the file was synced when it was written
	kind   frameKind
	body   []byte // after the kind
}

// head reads the head of a frame at data[at:], of a file of that size. The data
// begins at the offset base.
func headAt(data []byte, at int, base, size int64) (f frame, checksum uint32, ok bool) {
	if len(data)-at < frameHead {
		return frame{}, 0, false
	}
	head := data[at : at+frameHead]
	offset := base + int64(at)
	n, unsynced := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
	if n == 0 || n > frameMax || int64(n) > size-offset-frameHead {
		return frame{}, 0, false // which spares the check in most places that are no frame
	}
	f = frame{offset: offset, size: frameHead + int64(n), synced: offset - int64(unsynced)}
	if unsynced == math.MaxUint32 {
		f.synced = 0
	}
	if f.synced < 0 || checkOf(offset, head) != binary.BigEndian.Uint32(head) {
		return frame{}, 0, false
	}
	return f, binary.BigEndian.Uint32(head[12:]), true
}

// nextHead returns the first i from which on data[i:] may be the head of a frame, by
// its numbers alone; len(data) if there is none. It is for searching: of what is no
// frame, hardly a place in a thousand has possible numbers.
func nextHead(data []byte, i int, base, size int64) int {
	limit := size - base - frameHead
	for end := len(data) - frameHead; i <= end; i++ {
		n := binary.BigEndian.Uint32(data[i+4 : i+8])
		if n-1 >= frameMax || int64(n) > limit-int64(i) {
			continue
		}
		if unsynced := binary.BigEndian.Uint32(data[i+8 : i+12]); int64(unsynced) <= base+int64(i) || unsynced == math.MaxUint32 {
			return i
		}
	}
	return len(data)
}

// A part is one file of frames, as far as it is whole.
type part struct {
	name   string
	data   []byte
	frames []found
	end    int64 // where they end
	size   int64 // of the file
	limit  int64 // up to where it is read
	torn   bool  // something else than zeros follows that was never synced
	damage bool  // something else than zeros follows that was synced
}

// found is a frame of a part. It is small: there may be millions.
type found struct {
	offset int64
	size   uint32 // with its head
	kind   frameKind
}

// frame is one that was found.
func (p *part) frame(i int) *frame {
	f := p.frames[i]
	end := f.offset + int64(f.size)
	return &frame{offset: f.offset, size: int64(f.size), kind: f.kind, body: p.data[f.offset+frameHead+1 : end : end]}
}

// source is a file that is read.
type source interface {
	io.ReaderAt
	dataAt(offset, size int64) int64 // where data follows, or size
	holeAt(offset, size int64) int64 // where a hole follows, or size
}

// readFrames reads the frames of a file. It reads no more than they take, and
// what follows them in pieces, without keeping it.
func readFrames(name string, in source, size int64) (part, error) {
	upTo, all := readable(in, size)
	p := part{name: name, size: size, limit: min(size, upTo+holesMost)}
	err := p.readFrames(in)
	for before := int64(-1); err == nil && (p.torn || p.damage) && p.end > before; {
		// A frame may have been written after it was looked for, and others
		// behind it before these were found: it is whole then, when it is read
		// again.
		before = p.end
		p.torn, p.damage, p.data = false, false, p.data[:p.end]
		err = p.readFrames(in)
	}
	if !all {
		p.torn, p.damage = false, true // data follows the hole
	}
	return p, err
}

// readFrames goes on reading frames at the end of those that were read, and
// looks at what follows them.
func (p *part) readFrames(in source) error {
	for p.end < p.limit {
		if err := p.load(in, p.end+frameHead); err != nil {
			return err
		}
		f, checksum, ok := headAt(p.data, int(p.end), 0, p.limit)
		if !ok {
			break
		}
		if err := p.load(in, f.offset+f.size); err != nil {
			return err
		}
		payload := p.data[f.offset+frameHead : f.offset+f.size]
		if crc32.Checksum(payload, castagnoli) != checksum {
			break
		}
		kind := frameKind(payload[0])
		if kind == frameRecords && len(payload) < 1+recordLeast {
			p.damage = true // it is whole, and nobody writes such a one
			return nil
		}
		p.frames = append(p.frames, found{f.offset, uint32(f.size), kind})
		p.end += f.size
	}
	return p.lookBehind(in)
}

// recordLeast is fewer bytes than any record has, so that what a file makes its
// reader remember is in proportion to its size.
const recordLeast = 24

// loadStep is how many bytes are read at least.
const loadStep = 64 << 10

// load has data reach up to a position in the file, or to its end.
func (p *part) load(in source, upTo int64) error {
	have := int64(len(p.data))
	if upTo = min(upTo, p.limit); upTo <= have {
		return nil
	}
	upTo = min(max(upTo, have+max(loadStep, have/2)), p.limit)
	p.data = append(p.data, make([]byte, upTo-have)...)
	n, err := in.ReadAt(p.data[have:], have)
	if errors.Is(err, io.EOF) {
		p.size = have + int64(n) // it became shorter
		p.limit = p.size
		p.data, err = p.data[:p.size], nil
	}
	return err
}

// searchStep is how much of what follows the frames is in memory at a time.
const searchStep = 1 << 20

// lookBehind finds out what follows the frames. It reads each byte once, and
// the payloads of what looks like frames, but not more of these than the file
// is long: what holds more was made to hold us up.
func (p *part) lookBehind(in source) error {
	if p.end >= p.limit || int64(len(p.data)) == p.limit && isZero(p.data[p.end:]) {
		return nil
	}
	buf := make([]byte, 0, min(searchStep, p.limit-p.end)+frameHead)
	spent := int64(0)
	for at := p.end; at < p.limit; {
		if next := in.dataAt(at, p.limit); next > at {
			at = next
			continue
		}
		buf = buf[:min(searchStep+frameHead, p.limit-at)]
		if n, err := in.ReadAt(buf, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		} else if buf = buf[:n]; n == 0 {
			break
		}
		if isZero(buf) {
			at += int64(len(buf))
			continue
		}
		p.torn = true
		step := max(len(buf)-frameHead, 1)
		for i := 0; i < step; {
			if i = nextHead(buf, i, at, p.limit); i >= step {
				break
			}
			f, checksum, ok := headAt(buf, i, at, p.limit)
			if !ok || f.offset == p.end {
				i++
				continue
			}
			if spent += f.size; spent > p.limit {
				p.damage, p.torn = true, false
				return nil
			}
			if same, err := matches(in, &f, checksum); err != nil {
				return err
			} else if !same {
				i++
				continue
			}
			if f.synced > p.end {
				p.damage, p.torn = true, false
				return nil
			}
			i += int(min(f.size, int64(step)))
		}
		at += int64(step)
	}
	return nil
}

// matches reports whether the payload of a frame has the checksum.
func matches(in source, f *frame, checksum uint32) (bool, error) {
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

// What is wrong with files.
var (
	errNoDocument = errors.New("it does not begin as a snapshot")
	errNoHeader   = errors.New("it has no header")
	errNoFrame    = errors.New("something else than a frame, in a part that was synced")
	errNoRunID    = errors.New("the header names no run")
)

// headerOf reads the frameHeader of a file of a run.
func (f *frame) headerOf(runID, file string) (header, error) {
	h, err := f.header()
	if err == nil && h.info.RunID != runID {
		err = &strangerError{runID, file, h.info.RunID}
	}
	return h, err
}

// header reads a frameHeader.
func (f *frame) header() (header, error) {
	in := codec.NewReader(f.body)
	defer in.Release()
	var h header
	for key := range in.Pairs() {
		switch key {
		case "format":
			if h.format = in.Uint(); h.format > snapshot.FormatVersion {
				return header{}, fmt.Errorf("%w: it has format %d, and this version of Reprise reads up to %d; use a newer one",
					snapshot.ErrFormat, h.format, snapshot.FormatVersion)
			}
		case "covers":
			h.covers = in.Uint()
		case "carried":
			h.carried = in.Uint()
		case "journal":
			h.closed.journal = in.Uint()
		case "end":
			h.closed.end = int64(min(in.Uint(), math.MaxInt64))
		case "pid":
			h.pid = int(min(in.Uint(), math.MaxInt32))
		case "info":
			var err error
			if h.info, err = snapshot.DecodeInfo(in.Skip()); err != nil && in.Err() == nil {
				return header{}, fmt.Errorf("the header: %w", err)
			}
		default:
			in.Skip()
		}
	}
	switch {
	case in.Err() != nil:
		return header{}, fmt.Errorf("the header: %w", in.Err())
	case h.info.RunID == "":
		return header{}, errNoRunID
	}
	return h, nil
}
