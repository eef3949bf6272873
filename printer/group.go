package printer

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/core"
)

// maxBranches is how many branches of a group are followed. A group of more
// has no line: its numbers would be wrong.
const maxBranches = 1 << 16

// groupNode follows a parallel group. Records tell of the calls in its
// branches, not of the group: that it exists is known from its first call, and
// that it is over when what is around it goes on. How many branches it will have
// is not known.
type groupNode struct {
	label    string
	branches map[int]branchState
	progress progress
	tooMany  bool     // to be followed
	told     progress // by the last line
}

// branchState is how a branch stands: by its last call, as a run does.
type branchState struct {
	calls, waiting int // that are going on, and how many of them wait
	last           core.Status
}

// progress counts branches.
type progress struct {
	known                 int // the highest number so far
	done, failed, stopped int
	running, retrying     int
}

func (p *progress) ended() int { return p.done + p.failed + p.stopped }

func (p *progress) begun() int { return p.ended() + p.running + p.retrying }

// count adds n branches that stand like b.
func (p *progress) count(b branchState, n int) {
	switch {
	case b.calls > 0 && b.calls == b.waiting:
		p.retrying += n
	case b.calls > 0:
		p.running += n
	case b.last == core.StatusFailed:
		p.failed += n
	case b.last == core.StatusInterrupted || b.last == core.StatusAwaiting:
		p.stopped += n
	case b.last != 0:
		p.done += n
	}
}

// change says that calls began or ended in a branch of the group above, and
// so in those around that.
func change(above *node, branch, calls, waiting int, last core.Status) {
	for ; above != nil && above.group != nil; above, branch = above.above, above.branch {
		g := above.group
		b, known := g.branches[branch]
		if !known && len(g.branches) >= maxBranches {
			g.tooMany = true
			continue
		}
		g.progress.count(b, -1)
		b.calls, b.waiting, b.last = max(0, b.calls+calls), max(0, b.waiting+waiting), last
		g.progress.count(b, 1)
		g.branches[branch] = b
		g.progress.known = max(g.progress.known, branch)
	}
}

// isDue reports whether a line about a group is to be written while it goes
// on: whenever another tenth of the branches so far has ended.
func (g *groupNode) isDue() bool {
	return g.hasLine() && g.progress.ended() >= g.told.ended()+max(1, g.progress.known/10)
}

// hasLine reports whether there is something to tell that was not told.
func (g *groupNode) hasLine() bool {
	now, told := g.progress, g.told
	now.running, told.running = 0, 0
	told.known = now.known // it is not told
	return !g.tooMany && now.known > 1 && now != told
}

// groupStarted writes that a group begins.
func (t *text) groupStarted(depth int, g *groupNode) {
	t.begin(depth, mark{t.group, faint})
	t.add(g.label)
	t.tag("", "STARTED")
	t.end()
}

// progress writes the line of a group: "cities 3 done, 1 failed".
func (t *text) progress(depth int, g *groupNode) {
	m := mark{t.group, faint}
	switch p := &g.progress; {
	case p.failed > 0:
		m.style = bad
	case p.done == p.begun():
		m.style = good
	}
	t.begin(depth, m)
	t.add(g.label, " ", g.progress.String())
	t.end()
}

// String is "3 done, 1 failed, 2 running".
func (p *progress) String() string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{p.done, "done"}, {p.failed, "failed"}, {p.stopped, "stopped"}, {p.running, "running"}, {p.retrying, "retrying"}} {
		if part.n > 0 {
			parts = append(parts, strconv.Itoa(part.n)+" "+part.what)
		}
	}
	return strings.Join(parts, ", ")
}

// groupName is the name in a segment such as "group:north%2Fsouth#2".
func groupName(segment, ellipsis string) string {
	name := segment[len(groupPrefix):]
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	return string(appendClean(nil, name, maxName, ellipsis))
}
