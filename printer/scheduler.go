package printer

import (
	"strings"

	"github.com/reprise-go/reprise/record"
)

// A scheduler tracks the running calls and decides when lines are written. In plain form, all lines
// are written immediately.
//
// In compact form, the lines of a call are buffered until the call ends. If the call succeeds, only
// its first and last lines are written; otherwise, all of its lines are. Before anything inside a
// call is written, the call's buffered lines are written.
type scheduler struct {
	tree    tree
	compact bool
	bars    bool // groups are shown as bars instead of progress lines
	out     text // lines to write
	asked   questions
}

// rendered is the text of a record. Its lines are not indented.
type rendered struct {
	lines []byte
	label string // label of a group or, in compact form, of a running call
	cause string // the attempt's error

	question string // ID of the question that the call waits for, or recalledFailure
	repeat   []byte // replaces lines if the question was written before
	answered []byte // replaces lines if the question was answered before
}

// add handles the next record.
func (s *scheduler) add(r *record.Record, text *rendered) {
	switch before, answered := s.asked.add(r, text.question); {
	case answered:
		text.lines = text.answered
	case before:
		text.lines = text.repeat
	}
	switch {
	case r.Kind.IsCall():
		s.call(r, text)
	case r.Kind == record.KindRun:
		// When a run ends, or begins again after a crash, none of its calls is running.
		if top := s.tree.runs[r.RunID]; top != nil {
			s.endChildren(top)
		}
		s.out.addIndented(0, text.lines)
	default:
		s.event(r, text.lines)
	}
}

// event writes the lines of a record that is not about a call. Their depth is that of the lines
// inside the call to which the record belongs.
func (s *scheduler) event(r *record.Record, lines []byte) {
	if r.Address.IsZero() {
		s.out.addIndented(0, lines)
		return
	}
	n, depth := s.tree.find(r.RunID, r.Address), 0
	if n != nil {
		depth = n.innerDepth()
	} else {
		n, depth = s.tree.nearest(r.RunID, r.Address)
		depth++
	}
	s.open(n)
	s.out.addIndented(depth, lines)
}

func (s *scheduler) call(r *record.Record, text *rendered) {
	ends := r.IsOutcome() || r.IsSuspension() || r.Status == record.StatusRecovered
	n := s.tree.find(r.RunID, r.Address)
	if n == nil && (ends || keepsRunning(r)) {
		n = s.tree.enter(r)
	}
	switch {
	case n == nil: // too many calls are tracked, or the status is unknown
		parent, depth := s.tree.nearest(r.RunID, r.Address)
		s.open(parent)
		s.out.addIndented(depth, text.lines)
	case ends:
		s.end(n, r, text)
	default:
		s.update(n, r, text)
	}
}

// keepsRunning reports whether the call continues after r.
func keepsRunning(r *record.Record) bool {
	return r.Status == record.StatusStarted || r.Status == record.StatusRetrying || r.WillRetry
}

// update handles the record of an attempt that started, failed, or waits to be retried.
func (s *scheduler) update(n *node, r *record.Record, text *rendered) {
	if s.compact {
		n.call.live.update(r, text, s.out.kindMark(r.Kind))
	}
	if n.call.group != nil && r.Status == record.StatusStarted {
		n.call.group.start(r, text.label)
	}
	if r.Status == record.StatusFailed {
		s.endChildren(n)
	}
	s.tree.wait(n, r.Status == record.StatusRetrying)
	n.call.buffer.add(text.lines)
	// A failure is written together with the wait that the next record reports, so that no lines of
	// other runs appear between them.
	if !s.compact && r.Status != record.StatusFailed {
		s.open(n)
	}
}

// end handles the record that ends a call.
func (s *scheduler) end(n *node, r *record.Record, text *rendered) {
	s.endChildren(n)
	if s.recall(n, r, text.lines) {
		s.leave(n, r, text.cause)
		return
	}
	if n.call.recalled.n > 0 {
		s.open(n)
	}
	s.open(n.parent)
	if s.compact && isSuccess(r) {
		n.call.buffer.writeFirst(&s.out, n.depth)
	} else {
		n.call.buffer.writeAll(&s.out, n.depth)
	}
	if g := n.call.group; g != nil && !isSuccess(r) && g.outcomes != g.written {
		s.progress(n)
	}
	if !n.isBranch() || !n.call.lastFailure.explains(r, text.cause) {
		s.out.addIndented(n.depth, text.lines)
	}
	s.leave(n, r, text.cause)
}

// leave stops tracking a call that ended with r.
func (s *scheduler) leave(n *node, r *record.Record, cause string) {
	status := r.Status
	if status == record.StatusRecovered && r.Err != nil {
		status = record.StatusFailed
	}
	parent := n.parent
	if parent.isBranch() && !isSuccess(r) {
		parent.call.lastFailure = failure{status, cause}
	}
	s.tree.leave(n, status)
	isNew := !r.Replayed && r.Status != record.StatusRecovered
	if g := parent.group(); g != nil && isNew && !s.bars && g.isDue() {
		s.progress(parent)
	}
}

// explains reports whether the lines of a call inside a branch already show everything that the
// record at the end of the branch reports.
func (t failure) explains(r *record.Record, cause string) bool {
	return t.status == r.Status && strings.Contains(cause, t.cause)
}

func (s *scheduler) progress(n *node) {
	g := n.call.group
	g.written = g.outcomes
	s.out.addIndented(n.depth, []byte(s.out.capture(func(t *text) { t.progress(g) })))
}

// open writes the buffered lines of n and of the calls that contain n. It is called before anything
// inside n is written.
func (s *scheduler) open(n *node) {
	if n == nil {
		return
	}
	s.open(n.parent)
	if n.call != nil {
		n.call.buffer.writeAll(&s.out, n.depth)
		s.writeRecalled(n)
	}
}

// endChildren ends the calls inside n, because the attempt of n or the run has ended. These
// calls were abandoned, or the records that end them were lost; no more records about them
// will arrive.
func (s *scheduler) endChildren(n *node) {
	for n.first != nil {
		child := n.first
		s.endChildren(child)
		if child.isRun() {
			s.tree.prune(child)
			continue
		}
		s.open(child)
		if s.compact && child.call.lastFailure.status != statusUnfinished {
			s.out.addIndented(child.depth, []byte(s.out.capture(child.unfinished)))
		}
		if n.isBranch() {
			n.call.lastFailure.status = statusUnfinished
		}
		s.tree.leave(child, record.StatusInterrupted)
	}
}

// statusUnfinished is the status of a call that ended without a record.
const statusUnfinished record.Status = 0xff

func (n *node) unfinished(t *text) {
	t.begin(t.statusMark(record.StatusInterrupted))
	t.add(n.call.live.label)
	t.tag(paused, "UNFINISHED")
	t.end()
}
