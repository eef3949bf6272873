package filestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/snapshot"
)

// Journals, and the small files next to them, consist of frames, one after the other:
//
//	check     4 bytes: CRC-32C of the frame's offset in the file (8 bytes) and
//	          of the three numbers that follow
//	length    4 bytes: the length of the payload
//	unsynced  4 bytes: how many bytes before this frame were not known to be on
//	          the disk when the frame was written; all ones means all of them
//	checksum  4 bytes: CRC-32C of the payload
//	payload   1 byte for the kind of the frame, and then its content
//
// All numbers are big-endian. The check includes the offset, so that a frame is valid only where it
// was written. It is not valid inside a payload, such as the output of a tool that read a journal,
// or in a block that the file system misplaced. The head has its own check, so that a search for
// frames reads every byte only once, whatever the file contains.
//
// The last frame may be followed by zeros, in space that is allocated but not yet used.
//
// After a crash, any blocks that were not synced may be missing. The file then ends with bytes that
// are not a frame, or with holes. Such a torn end is not damage, because no Sync has returned for
// it. Only a part that was synced can be damaged. If the bytes at offset x are not a frame, they
// were synced if the offset of a later frame, minus the frame's unsynced, is greater than x.
// Otherwise, these bytes and all bytes after them are a torn end.
const (
	frameHead  = 16
	maxPayload = 1 << 30 // the maximum size of a payload, in bytes
)

// A frameKind says what a frame contains.
type frameKind byte

const (
	frameHeader  frameKind = 1 // a header, encoded as a map; the first frame of every file
	frameRecords frameKind = 2 // records that were appended together, one after the other
	frameInfo    frameKind = 3 // an info, written when a generation begins or ends
)

// header is the content of the first frame of a file. In a message's file, only format and info are
// set.
type header struct {
	format  uint64
	covers  uint64    // in a journal: journals up to this number are no longer read
	carried uint64    // in a journal: the journal was created with the records up to this number
	closed  closedEnd // in a meta file
	pid     int       // in a meta file: the process that has the run open; 0 if there is none
	info    snapshot.Info
}

// closedEnd specifies where the journal of a closed run ends. Everything before that end is on
// disk. If end is 0, the journal was compacted, and the snapshot with the journal's number contains
// the whole run. While the run is open, both fields are 0 and have no meaning.
type closedEnd struct {
	journal uint64 // number of the journal
	end     int64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// headChecksum returns the check for a frame with the given offset and head. The check is a
// checksum of the offset, in big-endian order, and of the head without its first field, which is
// the check itself. The offset's bytes are added one by one, because a slice of them would have to
// be allocated for each frame.
func headChecksum(offset int64, head []byte) uint32 {
	sum := ^uint32(0)
	for shift := 56; shift >= 0; shift -= 8 {
		sum = castagnoli[byte(sum)^byte(offset>>shift)] ^ sum>>8
	}
	return crc32.Update(^sum, castagnoli, head[4:frameHead])
}

// beginFrame begins a frame: it appends an empty head and the kind. The caller must then append the
// rest of the payload and call endFrame.
func beginFrame(dst []byte, k frameKind) []byte {
	var head [frameHead]byte
	return append(append(dst, head[:]...), byte(k))
}

// endFrame ends the frame that begins at dst[at:] by filling in its head. The frame will be written
// at the given offset, to a file that is on disk up to synced.
func endFrame(dst []byte, at int, offset, synced int64) ([]byte, error) {
	head, payload := dst[at:at+frameHead], dst[at+frameHead:]
	if len(payload) > maxPayload {
		return dst[:at], fmt.Errorf("snapshot: %d bytes appended at once, want at most %d", len(payload), maxPayload)
	}
	binary.BigEndian.PutUint32(head[4:], uint32(len(payload)))
	binary.BigEndian.PutUint32(head[8:], uint32(min(offset-synced, math.MaxUint32)))
	binary.BigEndian.PutUint32(head[12:], crc32.Checksum(payload, castagnoli))
	binary.BigEndian.PutUint32(head, headChecksum(offset, head))
	return dst, nil
}

// appendHeader appends a frame with the header. The frame will be the first in its file.
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

// A frame holds a frame that was read from a file, and its position.
type frame struct {
	offset int64
	size   int64 // size of the frame, including its head
	synced int64 // the offset up to which the file was synced when the frame was written
	kind   frameKind
	body   []byte // the payload after the kind
}

// headAt reads the head of a frame at data[at:]. The data begins at offset base in a file with the
// given size. If there is no valid head, ok is false.
func headAt(data []byte, at int, base, size int64) (f frame, checksum uint32, ok bool) {
	if len(data)-at < frameHead {
		return frame{}, 0, false
	}
	head := data[at : at+frameHead]
	offset := base + int64(at)
	n, unsynced := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
	if n == 0 || n > maxPayload || int64(n) > size-offset-frameHead {
		return frame{}, 0, false // this way, the check is rarely computed where there is no frame
	}
	f = frame{offset: offset, size: frameHead + int64(n), synced: offset - int64(unsynced)}
	if unsynced == math.MaxUint32 {
		f.synced = 0
	}
	if f.synced < 0 || headChecksum(offset, head) != binary.BigEndian.Uint32(head) {
		return frame{}, 0, false
	}
	return f, binary.BigEndian.Uint32(head[12:]), true
}

// The errors for damaged files.
var (
	errNoDocument = errors.New("it does not begin like a snapshot")
	errNoHeader   = errors.New("it has no header")
	errNoFrame    = errors.New("not a frame, in a part that was synced")
	errNoRunID    = errors.New("the header names no run")
)

// headerOf decodes a frameHeader. If the file belongs to another run, the error is a
// *strangerError.
func (f *frame) headerOf(runID, file string) (header, error) {
	h, err := f.header()
	if err == nil && h.info.RunID != runID {
		err = &strangerError{runID, file, h.info.RunID}
	}
	return h, err
}

// header decodes a frameHeader.
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
