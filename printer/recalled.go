package printer

import "github.com/reprise-go/reprise/record"

// recalledCalls counts the calls inside an outer call whose results were recalled from history and
// that have not been shown yet. These calls share one line, because a resumed agent may recall
// hundreds of calls. The line is written before the next line inside the outer call.
type recalledCalls struct {
	n, failed int
	first     []byte // lines of the first call
	depth     int    // depth of these lines
}

// recall handles the record of a recalled call. It reports whether the call will be shown later, as
// part of a shared line.
func (s *scheduler) recall(n *node, r *record.Record, lines []byte) bool {
	caller := n.parent
	for caller.call != nil && (caller.isBranch() || caller.group() != nil) {
		caller = caller.parent
	}
	if r.Status != record.StatusRecovered || caller.call == nil {
		return false
	}
	calls := &caller.call.recalled
	if calls.n++; calls.n == 1 {
		calls.first, calls.depth = append(calls.first[:0], lines...), n.depth
	}
	if r.Err != nil {
		calls.failed++
	}
	return true
}

// recalledFailure is used in place of a question's ID for recalled failures, because the hint about
// such a failure is written only once, like a question.
const recalledFailure = "failure"

// isRecalledFailure reports whether r is the record of a root call that has returned its recorded
// failure again.
func isRecalledFailure(r *record.Record) bool {
	return r.Kind.IsCall() && r.Status == record.StatusRecovered && r.Err != nil && !r.Address.IsZero() && r.Address.Scope() == ""
}

// retryHint writes a note that the failure is not new, followed by the command that makes the
// failed calls again.
func (t *text) retryHint(runID string) {
	t.beginContinuation(mark{t.note, faint})
	t.add("this is the recorded failure: nothing ran again")
	if run := shellWord(runID); run != "" && t.command != "" {
		t.add("; to make the failed calls again: ")
		t.paint(faint, t.command, " retry ", run)
	}
	t.end()
}

// writeRecalled writes the line for the recalled calls inside n.
func (s *scheduler) writeRecalled(n *node) {
	calls := &n.call.recalled
	switch calls.n {
	case 0:
		return
	case 1:
		s.out.addIndented(calls.depth, calls.first)
	default:
		s.out.addIndented(n.innerDepth(), []byte(s.out.capture(func(t *text) {
			t.begin(t.statusMark(record.StatusRecovered))
			t.add(count(calls.n, "call", "calls"))
			t.tag(faint, "RECOVERED from history")
			if calls.failed > 0 {
				t.add(" (", count(calls.failed, "failure", "failures"), ")")
			}
			t.end()
		})))
	}
	calls.n, calls.failed = 0, 0
}
