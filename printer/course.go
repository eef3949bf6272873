package printer

import (
	"github.com/reprise-go/reprise/core"
)

// course follows what is going on and decides when lines are written: as they
// come in the plain form; in the compact one, when it is known how their call
// ends.
//
// There, what happens in a call is kept until it ends, and then written whole:
// that it started and how it ended if it succeeded, and else every attempt.
// Before anything inside a call is written, what was kept for it is: that it
// started, and the attempts so far.
type course struct {
	tree    tree
	compact bool
	bars    bool // groups have bars, and lines only when they are over
	out     text // to be written
	asked   questions
}

// told is a record in the words of the printer.
type told struct {
	lines   []byte
	retry   []byte // the line below a failure that an attempt will follow
	label   string // of a call; in the compact form only
	problem string // why an attempt is put off; for live lines only

	question string // that a call waits for, by its ID
	again    []byte // instead of lines, where the question was told before
}

// take takes in a record.
func (c *course) take(r *core.Record, told *told) {
	if c.asked.take(r, told.question) {
		told.lines = told.again
	}
	switch {
	case r.Kind.IsCall():
		c.call(r, told)
	case r.Kind == core.KindRun:
		// Both its end and, after a crash, its next beginning leave nothing.
		if top := c.tree.runs[r.RunID]; top != nil {
			c.endBelow(top)
		}
		c.put(told.lines)
	default:
		c.openAt(r)
		c.put(told.lines)
	}
}

func (c *course) put(lines []byte) { c.out.buf = append(c.out.buf, lines...) }

func (c *course) call(r *core.Record, told *told) {
	n := c.tree.find(r.RunID, r.Address)
	switch {
	case r.Status == core.StatusStarted, r.Status == core.StatusRetrying, r.Status == core.StatusFailed && r.WillRetry:
		if n == nil {
			n = c.enter(r)
		}
		if n != nil {
			c.goesOn(n, r, told)
		}
	case r.IsOutcome(), r.IsSuspension(), r.Status == core.StatusRecovered:
		c.end(n, r, told.lines)
		return
	}
	switch {
	case !c.compact:
		c.put(told.lines)
	case n != nil:
		n.call.story.keep(told.lines)
	default: // there was no room
		c.openAt(r)
		c.put(told.lines)
	}
}

// enter follows a call from now on; nil if there is no room.
func (c *course) enter(r *core.Record) *node {
	above, branch := c.tree.around(r.RunID, r.Address)
	if above == nil {
		return nil
	}
	n := c.tree.insert(above, &node{
		path: r.Address.String(), branch: branch, depth: r.Address.Depth(), run: c.tree.runs[r.RunID].run, call: new(callNode),
	})
	if n == nil {
		c.tree.prune(above)
		return nil
	}
	c.tree.calls++
	n.run.calls[n.path] = n
	c.settle(above, branch)
	c.beginGroups(above)
	change(above, branch, 1, 0, 0)
	return n
}

// goesOn takes in that an attempt began, failed, or is waited for.
func (c *course) goesOn(n *node, r *core.Record, told *told) {
	if c.compact {
		n.call.live.take(r, told, c.out.of(r.Kind))
	}
	switch r.Status {
	case core.StatusFailed:
		// The wait is told with the failure, and never in another place.
		c.endBelow(n)
		told.lines = append(told.lines, told.retry...)
		n.call.announced = true
		return
	case core.StatusRetrying:
		if n.call.announced {
			told.lines = nil
		}
	}
	n.call.announced = false
	if waits := r.Status == core.StatusRetrying; waits != n.call.waits {
		n.call.waits = waits
		step := 1
		if !waits {
			step = -1
		}
		c.tree.waiting += step
		change(n.above, n.branch, 0, step, 0)
	}
}

// end takes in how a call ended. A call that never began here has no node.
func (c *course) end(n *node, r *core.Record, lines []byte) {
	if n == nil {
		if n = c.enter(r); n == nil {
			c.openAt(r)
			c.put(lines)
			return
		}
		n.call.story.opened = true
	}
	c.endBelow(n)
	if c.compact {
		c.open(n.above)
		if isSuccess(r) {
			n.call.story.begin(&c.out)
		} else {
			n.call.story.tell(&c.out, n.depth)
		}
	}
	c.put(lines)
	last := r.Status
	if last == core.StatusRecovered && r.Err != nil {
		last = core.StatusFailed
	}
	above := n.above
	c.leave(n, last)
	if r.Replayed || r.Status == core.StatusRecovered {
		return // it is no progress of today
	}
	for ; above.group != nil; above = above.above {
		if above.group.isDue() && (!c.bars || !hasBar(above)) {
			c.groupLine(above)
		}
	}
}

// leave follows a call no longer.
func (c *course) leave(n *node, last core.Status) {
	waiting := 0
	if n.call.waits {
		waiting = -1
		c.tree.waiting--
	}
	change(n.above, n.branch, -1, waiting, last)
	c.tree.calls--
	c.tree.remove(n)
}

// openAt opens the calls around what a record is about that has no node.
func (c *course) openAt(r *core.Record) {
	top := c.tree.runs[r.RunID]
	if !c.compact || top == nil || r.Address.IsZero() {
		return
	}
	n := c.tree.find(r.RunID, r.Address)
	if n == nil {
		scope := r.Address.Scope()
		if _, _, ok := cutBranch(r.Address.String()); ok {
			scope = r.Address.String() // a branch is no call
		}
		n, _ = c.tree.place(top, scope)
	}
	c.open(n)
}

// open writes what was kept for n and for what is around it: something inside
// is about to be written.
func (c *course) open(n *node) {
	if n == nil || !c.compact {
		return
	}
	c.open(n.above)
	if n.call != nil {
		n.call.story.tell(&c.out, n.depth)
	}
}

// endBelow ends what is inside n, because its attempt or the run is over.
// Calls that go on there were left behind, or their ends were lost: nothing
// more will be told of them.
func (c *course) endBelow(n *node) {
	for n.first != nil {
		below := n.first
		c.endBelow(below)
		switch {
		case below.isRun():
			c.tree.prune(below)
			continue
		case below.group != nil:
			c.endGroup(below)
			continue
		}
		if c.compact {
			c.open(below)
			c.out.begin(below.depth, c.out.at(core.StatusInterrupted))
			c.out.add(below.call.live.label)
			c.out.tag(paused, "UNFINISHED")
			c.out.end()
		}
		c.leave(below, core.StatusInterrupted)
	}
}

// settle ends the groups next to a call that begins, because the code around
// them has gone on. The call is in a branch of above; where that is a group
// which begins with it, in what is around that.
func (c *course) settle(above *node, branch int) {
	begins := (*node)(nil)
	for {
		for i := len(above.groups) - 1; i >= 0; i-- {
			if g := above.groups[i]; g != begins && g.branch == branch && g.first == nil {
				c.endGroup(g)
			}
		}
		if above.group == nil || above.group.progress.known > 0 {
			return
		}
		begins, above, branch = above, above.above, above.branch
	}
}

// beginGroups writes that the groups begin which a call in n is the first of, so
// that it does not stand deeper than what is above it.
func (c *course) beginGroups(n *node) {
	if c.compact || n.group == nil || n.group.progress.known > 0 {
		return
	}
	c.beginGroups(n.above)
	c.out.groupStarted(n.depth, n.group)
}

func (c *course) endGroup(g *node) {
	if g.group.hasLine() {
		c.groupLine(g)
	}
	c.tree.remove(g)
}

func (c *course) groupLine(g *node) {
	c.open(g.above)
	g.group.told = g.group.progress
	g.group.told.running = 0
	c.out.progress(g.depth, g.group)
}

// hasBar reports whether a live line shows how far a group has come. The group
// of a program that is in no call has one only while something goes on.
func hasBar(g *node) bool {
	return g.group.progress.running+g.group.progress.retrying > 0 || g.above.call != nil
}
