package printer

import (
	"bytes"

	"github.com/reprise-go/reprise/record"
)

// maxBuffer is the maximum size, in bytes, of a call's buffered lines, not counting
// the first line.
const maxBuffer = 16 << 10

// A buffer holds those lines of a call that have not been written yet, without their indentation.
type buffer struct {
	opened  bool   // the first line has been written
	first   []byte // the line that announces the call
	rest    []byte // lines about attempts and waits
	dropped int    // number of lines dropped from rest
}

// add appends lines. If the buffer is full, it drops the oldest half of rest.
func (b *buffer) add(lines []byte) {
	if len(lines) == 0 {
		return
	}
	if b.first == nil && !b.opened {
		b.first = lines
		return
	}
	b.rest = append(b.rest, lines...)
	if len(b.rest) <= maxBuffer {
		return
	}
	// Drop the oldest lines, since the latest attempts are the most useful.
	half := len(b.rest) / 2
	cut := half + bytes.IndexByte(b.rest[half:], '\n') + 1
	b.dropped += bytes.Count(b.rest[:cut], []byte{'\n'})
	b.rest = bytes.Clone(b.rest[cut:])
}

// writeFirst writes the first line unless it has been written already.
func (b *buffer) writeFirst(to *text, depth int) {
	if !b.opened {
		to.addIndented(depth, b.first)
		b.first, b.opened = nil, true
	}
}

// writeAll writes all buffered lines at the given depth.
func (b *buffer) writeAll(to *text, depth int) {
	b.writeFirst(to, depth)
	if b.dropped > 0 {
		to.addIndented(depth, []byte(to.capture(func(t *text) {
			t.beginContinuation(mark{t.note, faint})
			t.add(count(b.dropped, "line", "lines"), " about earlier attempts left out")
			t.end()
		})))
	}
	to.addIndented(depth, b.rest)
	b.rest, b.dropped = nil, 0
}

// isSuccess reports whether r ends its call successfully.
func isSuccess(r *record.Record) bool {
	return r.Status == record.StatusCompleted || r.Status == record.StatusRecovered && r.Err == nil
}
