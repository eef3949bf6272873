package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/codec"
)

// The files of a run are frames, one after the other:
//
//	length    4 bytes, big-endian: of the payload
//	checksum  4 bytes, big-endian: CRC-32C of the frame's offset in its file
//	          (8 bytes, big-endian), of the length and of the payload
//	payload   msgpack: the kind as a number of one byte, then what the kind says
//
// The offset is in the checksum so that a frame is one only where it was
// written. What a tool read from a file like this, and is now inside a
// payload, is not taken for a frame by the search after damage, nor is a
// block that the file system put in the wrong place.
const (
	frameHead = 8
	frameMax  = 1 << 30 // of a payload
)

// frameKind is what a frame holds, in one byte of msgpack.
type frameKind byte

const (
	frameHeader  frameKind = 1 // a header, as a map: the first frame of every file
	frameRecords frameKind = 2 // records that were appended together, one after the other
	frameEnd     frameKind = 3 // Info, as a map: a generation ended; the last frame of a snapshot
)

// header is what the first frame of a file says.
type header struct {
	Format int `json:"format"`
	// Covers is the number of a journal. What it and those before it held is
	// in this file, or in the snapshot that was there when this file was
	// begun. They are not read even if they are still there.
	Covers uint64 `json:"covers"`
	Info   Info   `json:"info"` // when the file was begun
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(offset int64, payload []byte) uint32 {
	// By hand, for a slice of these bytes would be allocated.
	crc := ^uint32(0)
	for shift := 56; shift >= 0; shift -= 8 {
		crc = castagnoli[byte(crc)^byte(offset>>shift)] ^ crc>>8
	}
	for shift := 24; shift >= 0; shift -= 8 {
		crc = castagnoli[byte(crc)^byte(len(payload)>>shift)] ^ crc>>8
	}
	return crc32.Update(^crc, castagnoli, payload)
}

// beginFrame appends the head of a frame, to be filled in, and its kind. The
// payload is appended to what it returns, which then goes to endFrame.
func beginFrame(dst []byte, k frameKind) []byte {
	return append(dst, 0, 0, 0, 0, 0, 0, 0, 0, byte(k))
}

// endFrame fills in the head of the frame that begins at dst[at:] and will be
// written at the offset.
func endFrame(dst []byte, at int, offset int64) ([]byte, error) {
	payload := dst[at+frameHead:]
	if len(payload) > frameMax {
		return dst[:at], fmt.Errorf("snapshot: %d bytes appended at once, of at most %d", len(payload), frameMax)
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(len(payload)))
	binary.BigEndian.PutUint32(dst[at+4:], checksum(offset, payload))
	return dst, nil
}

// appendFrame appends a frame with the msgpack of v.
func appendFrame(dst []byte, offset int64, k frameKind, v any) ([]byte, error) {
	body, err := codec.Encode(v)
	if err != nil {
		return dst, fmt.Errorf("snapshot: %w", err)
	}
	at := len(dst)
	return endFrame(append(beginFrame(dst, k), body...), at, offset)
}

// A frame is one that was found whole.
type frame struct {
	file   string
	offset int64
	kind   frameKind
	body   []byte // after the kind
	at     int64  // where the body begins, as if the files of a run were one after the other
}

// size is that of the frame in its file.
func (f *frame) size() int64 { return frameHead + 1 + int64(len(f.body)) }

// frameAt returns the frame at data[at:] if it is whole. The data begins at
// the offset base of its file.
func frameAt(data []byte, base int64, at int) (frame, bool) {
	if len(data)-at <= frameHead {
		return frame{}, false
	}
	n := binary.BigEndian.Uint32(data[at:])
	if n == 0 || n > frameMax || int64(n) > int64(len(data)-at-frameHead) {
		return frame{}, false
	}
	payload := data[at+frameHead:][:n:n]
	if payload[0] == 0 || payload[0] > math.MaxInt8 {
		return frame{}, false // no kind; spares the checksum in most places that are no frame
	}
	offset := base + int64(at)
	if checksum(offset, payload) != binary.BigEndian.Uint32(data[at+4:]) {
		return frame{}, false
	}
	return frame{offset: offset, kind: frameKind(payload[0]), body: payload[1:]}, true
}

// findFrame returns the first whole frame at data[at:] or later.
func findFrame(data []byte, base int64, at int) (frame, bool) {
	for ; at < len(data); at++ {
		if f, ok := frameAt(data, base, at); ok {
			return f, true
		}
	}
	return frame{}, false
}

// A gap is a part of a file that is no frame.
type gap struct{ offset, size int64 }

// frames splits a file. The gap, if there is one, is the first: whole is set
// if a frame comes after it, and the frames after gaps are returned too.
func frames(file string, data []byte) (all []frame, first *gap, whole bool) {
	for at := 0; at < len(data); {
		f, ok := frameAt(data, 0, at)
		if !ok {
			f, ok = findFrame(data, 0, at+1)
			if first == nil {
				first = &gap{int64(at), int64(len(data) - at)}
				if ok {
					first.size = f.offset - int64(at)
				}
			}
			if !ok {
				break
			}
			whole = true
		}
		f.file = file
		all = append(all, f)
		at = int(f.offset + f.size())
	}
	return all, first, whole
}

// header reads a frameHeader.
func (f *frame) header() (header, error) {
	var written versioned
	if err := codec.Decode(f.body, &written); err != nil {
		return header{}, fmt.Errorf("the header: %w", err)
	}
	if written.Format > FormatVersion {
		return header{}, &kindError{
			fmt.Sprintf("it has format %d, and this version of Reprise reads up to %d: use a newer one", written.Format, FormatVersion), ErrFormat,
		}
	}
	var h header
	if err := codec.Decode(f.body, &h); err != nil {
		return header{}, fmt.Errorf("the header: %w", err)
	}
	if h.Info.RunID == "" {
		return header{}, errNoRun
	}
	h.Info.utc()
	return h, nil
}

// versioned is what a header of every version has.
type versioned struct {
	Format int `json:"format"`
}

var errNoRun = errors.New("the header names no run")

// end reads a frameEnd.
func (f *frame) end() (Info, error) {
	var i Info
	err := codec.Decode(f.body, &i)
	i.utc()
	return i, err
}

// utc undoes what decoding does to times.
func (i *Info) utc() { i.Created, i.Updated = i.Created.UTC(), i.Updated.UTC() }

// records appends the records of a frameRecords.
func (f *frame) records(dst []core.Record, runID string) ([]core.Record, error) {
	d := newDecoding(migrations)
	defer d.release()
	return f.decode(dst, d, runID)
}

// decode is records with a decoding that is used for several frames.
func (f *frame) decode(dst []core.Record, d *decoding, runID string) ([]core.Record, error) {
	for _, err := range f.each(d) {
		if err != nil {
			return dst, err
		}
		d.record.RunID = runID
		dst = append(dst, d.record)
	}
	return dst, nil
}

// each reads one record after the other into d, and yields where it begins in
// the body. After an error there is no other.
func (f *frame) each(d *decoding) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		in := codec.NewReader(f.body)
		defer in.Release()
		for in.Len() > 0 {
			begin := in.Offset()
			if err := d.DecodeMsgpack(in.Decoder()); err != nil {
				yield(begin, recordError(err))
				return
			}
			if !yield(begin, nil) {
				return
			}
		}
	}
}

// kindError says text and is of a kind, found by errors.Is.
type kindError struct {
	text string
	kind error
}

func (e *kindError) Error() string { return e.text }
func (e *kindError) Unwrap() error { return e.kind }

// bare is the text of an error of a kind without what the kind says, for one
// that says it already.
func bare(err, kind error) string { return strings.TrimPrefix(err.Error(), kind.Error()+": ") }
