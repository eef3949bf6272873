package printer

import (
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// progress counts the branches of a group.
type progress struct {
	label             string
	total             int // branches of the group; 0 if that is not known
	running, retrying int
	ended

	written ended // by the last line
}

// ended counts branches by how they ended.
type ended struct{ done, failed, stopped int }

func (e ended) all() int { return e.done + e.failed + e.stopped }

// end counts a branch that ended.
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

// branches is how many there are, as far as it is known.
func (p *progress) branches() int { return max(p.total, p.all()+p.running+p.retrying) }

// isDue reports whether a line is to be written while the group goes on: when
// another tenth of its branches has ended, and some have not.
func (p *progress) isDue() bool {
	n := p.branches()
	return p.all() < n && p.all() >= p.written.all()+max(1, n/10)
}

// started reads what the record that starts a group has.
func (p *progress) started(r *record.Record, label string) {
	p.label = label
	if r.Detail != nil {
		p.total = r.Detail.Branches
	}
}

// progress writes the line of a group: "▦ cities 3 of 8 done, 1 failed".
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

// String is "3 of 8 done, 1 failed, 2 running".
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
