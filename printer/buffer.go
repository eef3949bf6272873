package printer

import (
	"bytes"

	"github.com/reprise-go/reprise/record"
)

// maxBuffer is how many bytes of lines are kept for a call, besides its first.
const maxBuffer = 16 << 10

// buffer holds the lines of a call that are not written yet. Lines are kept
// without indentation.
type buffer struct {
	opened  bool   // the first line was written
	first   []byte // that the call started
	rest    []byte // attempts and waits
	dropped int    // lines of rest that were too many
}

// add keeps lines for later.
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
	// The latest attempts say the most.
	half := len(b.rest) / 2
	cut := half + bytes.IndexByte(b.rest[half:], '\n') + 1
	b.dropped += bytes.Count(b.rest[:cut], []byte{'\n'})
	b.rest = bytes.Clone(b.rest[cut:])
}

// writeFirst writes that the call started, unless that was written.
func (b *buffer) writeFirst(to *text, depth int) {
	if !b.opened {
		to.indented(depth, b.first)
		b.first, b.opened = nil, true
	}
}

// writeAll writes everything, for a call at the depth.
func (b *buffer) writeAll(to *text, depth int) {
	b.writeFirst(to, depth)
	if b.dropped > 0 {
		to.indented(depth, []byte(to.apart(func(t *text) {
			t.beginBelow(mark{t.note, faint})
			t.add(count(b.dropped, "line", "lines"), " about earlier attempts left out")
			t.end()
		})))
	}
	to.indented(depth, b.rest)
	b.rest, b.dropped = nil, 0
}

// isSuccess reports whether r ends a call in a way that needs no explanation.
func isSuccess(r *record.Record) bool {
	return r.Status == record.StatusCompleted || r.Status == record.StatusRecovered && r.Err == nil
}
