package printer

import (
	"bytes"

	"github.com/reprise-go/reprise/core"
)

// maxStory is how many bytes of lines are kept for a call, besides its first.
const maxStory = 16 << 10

// story is what happened in a call and was not written yet. Where it succeeds
// that is left out.
type story struct {
	opened bool   // its first line was written
	first  []byte // that it started
	then   []byte // attempts and waits
	left   int    // lines of them that were too many
}

// keep keeps lines for later.
func (s *story) keep(lines []byte) {
	if len(lines) == 0 {
		return
	}
	if s.first == nil && !s.opened {
		s.first = lines
		return
	}
	s.then = append(s.then, lines...)
	if len(s.then) <= maxStory {
		return
	}
	// The latest attempts say the most.
	half := len(s.then) / 2
	cut := half + bytes.IndexByte(s.then[half:], '\n') + 1
	s.left += bytes.Count(s.then[:cut], []byte{'\n'})
	s.then = bytes.Clone(s.then[cut:])
}

// begin tells that the call started, unless that was told.
func (s *story) begin(to *text) {
	if !s.opened {
		to.buf = append(to.buf, s.first...)
		s.first, s.opened = nil, true
	}
}

// tell tells all of it, for a call whose lines are at the depth.
func (s *story) tell(to *text, depth int) {
	s.begin(to)
	if s.left > 0 {
		to.beginBelow(depth, mark{to.note, faint})
		to.add(count(s.left, "line", "lines"), " about earlier attempts left out")
		to.end()
	}
	to.buf = append(to.buf, s.then...)
	s.then, s.left = nil, 0
}

// isSuccess reports whether r ends a call in a way that needs no explanation.
func isSuccess(r *core.Record) bool {
	return r.Status == core.StatusCompleted || r.Status == core.StatusRecovered && r.Err == nil
}
