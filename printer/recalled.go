package printer

import "github.com/reprise-go/reprise/record"

// recalled are the calls inside a call that were answered from history and are not
// written yet. They become one line, before whatever is written next there: an
// agent that is resumed may have recalled hundreds.
type recalled struct {
	n, failed int
	only      []byte // the lines of the first
	depth     int    // of these
}

// recall takes the record of a call that was recalled. It reports whether its lines
// are written later.
func (s *scheduler) recall(n *node, r *record.Record, lines []byte) bool {
	around := n.above
	for around.call != nil && (around.isBranch() || around.group() != nil) {
		around = around.above
	}
	if r.Status != record.StatusRecovered || around.call == nil {
		return false
	}
	into := &around.call.recalled
	if into.n++; into.n == 1 {
		into.only, into.depth = append(into.only[:0], lines...), n.depth
	}
	if r.Err != nil {
		into.failed++
	}
	return true
}

// writeRecalled writes the line of the calls that were recalled inside n.
func (s *scheduler) writeRecalled(n *node) {
	of := &n.call.recalled
	switch of.n {
	case 0:
		return
	case 1:
		s.out.indented(of.depth, of.only)
	default:
		s.out.indented(n.inside(), []byte(s.out.apart(func(t *text) {
			t.begin(t.at(record.StatusRecovered))
			t.add(count(of.n, "call", "calls"))
			t.tag(faint, "RECOVERED from history")
			if of.failed > 0 {
				t.add(" (", count(of.failed, "failure", "failures"), ")")
			}
			t.end()
		})))
	}
	of.n, of.failed = 0, 0
}
