package printer

import (
	"strings"

	"github.com/reprise-go/reprise/record"
)

// A scheduler follows the calls that run and decides when lines are written: at once in the
// plain form, and when the end of their call is known in the compact form.
//
// In the compact form the lines of a call are buffered until it ends. If it succeeds, its
// first and last lines are written, otherwise all of them. Before anything inside a call is
// written, the buffered lines of the call are.
type scheduler struct {
	tree    tree
	compact bool
	bars    bool // groups have bars, and no lines while they run
	out     text // to be written
	asked   questions
}

// rendered is a record as text. Lines are without indentation.
type rendered struct {
	lines []byte
	label string // of a call that runs; only in the compact form
	cause string // why the attempt failed

	question string // that a call waits for, by its ID
	again    []byte // instead of lines, if the question was written before
}

// add takes the next record.
func (s *scheduler) add(r *record.Record, text *rendered) {
	if s.asked.add(r, text.question) {
		text.lines = text.again
	}
	switch {
	case r.Kind.IsCall():
		s.call(r, text)
	case r.Kind == record.KindRun:
		// No call runs after the end of a run, or when the run begins again after a
		// crash.
		if top := s.tree.runs[r.RunID]; top != nil {
			s.endBelow(top)
		}
		s.out.indented(0, text.lines)
	default:
		s.fact(r, text.lines)
	}
}

// fact writes the lines of a record that is about no call, inside the call
// that it belongs to.
func (s *scheduler) fact(r *record.Record, lines []byte) {
	if r.Address.IsZero() {
		s.out.indented(0, lines)
		return
	}
	n, depth := s.tree.find(r.RunID, r.Address), 0
	if n != nil {
		depth = n.inside()
	} else {
		n, depth = s.tree.around(r.RunID, r.Address)
		depth++
	}
	s.open(n)
	s.out.indented(depth, lines)
}

func (s *scheduler) call(r *record.Record, text *rendered) {
	ends := r.IsOutcome() || r.IsSuspension() || r.Status == record.StatusRecovered
	n := s.tree.find(r.RunID, r.Address)
	if n == nil && (ends || goesOn(r)) {
		n = s.tree.enter(r)
	}
	switch {
	case n == nil: // there is no room, or the status is unknown
		above, depth := s.tree.around(r.RunID, r.Address)
		s.open(above)
		s.out.indented(depth, text.lines)
	case ends:
		s.end(n, r, text)
	default:
		s.continues(n, r, text)
	}
}

// goesOn reports whether the call of r runs after it.
func goesOn(r *record.Record) bool {
	return r.Status == record.StatusStarted || r.Status == record.StatusRetrying || r.WillRetry
}

// continues takes the record of an attempt that began, failed, or is waited for.
func (s *scheduler) continues(n *node, r *record.Record, text *rendered) {
	if s.compact {
		n.call.live.update(r, text, s.out.of(r.Kind))
	}
	if n.call.group != nil && r.Status == record.StatusStarted {
		n.call.group.started(r, text.label)
	}
	if r.Status == record.StatusFailed {
		s.endBelow(n)
	}
	s.tree.wait(n, r.Status == record.StatusRetrying)
	n.call.buffer.add(text.lines)
	// The wait is written with the failure, also where runs mix: that record
	// comes next.
	if !s.compact && r.Status != record.StatusFailed {
		s.open(n)
	}
}

// end takes the record that ends a call.
func (s *scheduler) end(n *node, r *record.Record, text *rendered) {
	s.endBelow(n)
	if s.recall(n, r, text.lines) {
		s.leave(n, r, text.cause)
		return
	}
	if n.call.recalled.n > 0 {
		s.open(n)
	}
	s.open(n.above)
	if s.compact && isSuccess(r) {
		n.call.buffer.writeFirst(&s.out, n.depth)
	} else {
		n.call.buffer.writeAll(&s.out, n.depth)
	}
	if g := n.call.group; g != nil && !isSuccess(r) && g.ended != g.written {
		s.progress(n)
	}
	if !n.isBranch() || !n.call.trouble.explains(r, text.cause) {
		s.out.indented(n.depth, text.lines)
	}
	s.leave(n, r, text.cause)
}

// leave follows a call no longer that ended with r.
func (s *scheduler) leave(n *node, r *record.Record, cause string) {
	status := r.Status
	if status == record.StatusRecovered && r.Err != nil {
		status = record.StatusFailed
	}
	above := n.above
	if above.isBranch() && !isSuccess(r) {
		above.call.trouble = trouble{status, cause}
	}
	s.tree.leave(n, status)
	isNew := !r.Replayed && r.Status != record.StatusRecovered
	if g := above.group(); g != nil && isNew && !s.bars && g.isDue() {
		s.progress(above)
	}
}

// explains reports whether the lines of a call in a branch say all that the
// record of the branch's end does.
func (t trouble) explains(r *record.Record, cause string) bool {
	return t.status == r.Status && strings.Contains(cause, t.cause)
}

func (s *scheduler) progress(n *node) {
	g := n.call.group
	g.written = g.ended
	s.out.indented(n.depth, []byte(s.out.apart(func(t *text) { t.progress(g) })))
}

// open writes the buffered lines of n and of the calls around it, because
// something inside is written next.
func (s *scheduler) open(n *node) {
	if n == nil {
		return
	}
	s.open(n.above)
	if n.call != nil {
		n.call.buffer.writeAll(&s.out, n.depth)
		s.writeRecalled(n)
	}
}

// endBelow ends what is inside n, because its attempt or the run is over.
// Calls that go on there were left behind, or their ends were lost: no record
// of them will come.
func (s *scheduler) endBelow(n *node) {
	for n.first != nil {
		below := n.first
		s.endBelow(below)
		if below.isRun() {
			s.tree.prune(below)
			continue
		}
		s.open(below)
		if s.compact && below.call.trouble.status != statusUnfinished {
			s.out.indented(below.depth, []byte(s.out.apart(below.unfinished)))
		}
		if n.isBranch() {
			n.call.trouble.status = statusUnfinished
		}
		s.tree.leave(below, record.StatusInterrupted)
	}
}

// statusUnfinished is that of a call that ends without a record.
const statusUnfinished record.Status = 0xff

func (n *node) unfinished(t *text) {
	t.begin(t.at(record.StatusInterrupted))
	t.add(n.call.live.label)
	t.tag(paused, "UNFINISHED")
	t.end()
}
