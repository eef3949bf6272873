package printer

import (
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// progress counts the branches of a group.
type progress struct {
	label             string
	total             int // number of branches; 0 if unknown
	running, retrying int
	outcomes

	written outcomes // counts shown by the last progress line
}

// outcomes counts branches by their outcome.
type outcomes struct{ done, failed, stopped int }

func (o outcomes) all() int { return o.done + o.failed + o.stopped }

// end counts a branch that ended with the given status.
func (p *progress) end(status record.Status) {
	switch status {
	case record.StatusFailed:
		p.failed++
	case record.StatusInterrupted, record.StatusAwaiting:
		p.stopped++
	default:
		p.done++
	}
}

// branches returns the number of branches known so far.
func (p *progress) branches() int { return max(p.total, p.all()+p.running+p.retrying) }

// isDue reports whether a progress line should be written. It should if another tenth of the
// branches, but not all of them, have ended since the last one.
func (p *progress) isDue() bool {
	n := p.branches()
	return p.all() < n && p.all() >= p.written.all()+max(1, n/10)
}

// start stores the group's label, and its size from its first record.
func (p *progress) start(r *record.Record, label string) {
	p.label = label
	if r.Detail != nil {
		p.total = r.Detail.Branches
	}
}

// progress writes a progress line, such as "▦ cities 3 of 8 done, 1 failed".
func (t *text) progress(p *progress) {
	m := mark{t.group, faint}
	switch {
	case p.failed > 0:
		m.style = bad
	case p.done == p.branches():
		m.style = good
	}
	t.begin(m)
	t.add(p.label, " ", p.String())
	t.end()
}

// String returns the progress as text, such as "3 of 8 done, 1 failed, 2 running".
func (p *progress) String() string {
	parts := []string{strconv.Itoa(p.done) + " of " + strconv.Itoa(p.branches()) + " done"}
	for _, part := range []struct {
		n    int
		what string
	}{{p.failed, "failed"}, {p.stopped, "stopped"}, {p.running, "running"}, {p.retrying, "retrying"}} {
		if part.n > 0 {
			parts = append(parts, strconv.Itoa(part.n)+" "+part.what)
		}
	}
	return strings.Join(parts, ", ")
}
