package printer

import (
	"strings"

	"github.com/reprise-go/reprise/record"
)

// maxNodes is how many calls a printer follows at most. The lines of further
// calls are written as they happen.
const maxNodes = 1 << 16

// tree holds the calls that are going on, as they are nested, in the order in
// which they began. Below its root are the runs.
type tree struct {
	root  node
	runs  map[string]*node
	limit int

	nodes   int // in the tree
	calls   int // of them, without runs
	waiting int // calls that wait for their next attempt
	hidden  int // branches without a live line of their own
}

// A node is a run or a call that is going on.
type node struct {
	above, before, after, first, last *node

	path  string // of the call in its run
	depth int    // of its lines

	run  *runNode
	call *callNode // nil for a run
}

// runNode is what is inside a run.
type runNode struct {
	id    string
	calls map[string]*node
}

// callNode is a call that is going on.
type callNode struct {
	kind   record.Kind
	buffer buffer
	live   liveState
	waits  bool      // for its next attempt
	group  *progress // of a group

	// Of a branch: how the latest call in it ended without success.
	trouble trouble

	recalled recalled
}

// trouble is how a call ended without success.
type trouble struct {
	status record.Status
	cause  string
}

func newTree(limit int) tree { return tree{runs: make(map[string]*node), limit: limit} }

// find returns the call at an address, nil if it is not followed.
func (t *tree) find(run string, a record.Address) *node {
	top := t.runs[run]
	if top == nil {
		return nil
	}
	var buf [256]byte
	return top.run.calls[string(a.AppendTo(buf[:0]))]
}

// maxScope is how long the path of a scope may be. Calls that are nested
// deeper than anybody can read are followed as if they were in the run itself.
const maxScope = 4 << 10

// around returns the nearest of the calls around an address that is followed,
// else the run, nil if that is not followed either; and the depth of a call at
// the address.
func (t *tree) around(run string, a record.Address) (above *node, depth int) {
	top := t.runs[run]
	scope := a.Scope()
	if len(scope) > maxScope {
		return top, maxDepth
	}
	for top != nil && scope != "" {
		outer, last := cutLast(scope)
		name, _, _ := strings.Cut(last, "@")
		if n := top.run.calls[scope[:len(scope)-len(last)+len(name)]]; n != nil {
			return n, n.inside() + depth
		}
		scope = outer // it began before the printer, or not yet: a precondition calls
		depth++
	}
	if scope != "" {
		depth = 1 + strings.Count(scope, "/")
	}
	return top, depth
}

// inside is the depth of what happens inside n. Branches have no lines while
// they go on, so that what is inside them stands in their place.
func (n *node) inside() int {
	switch {
	case n.call == nil:
		return 0
	case n.call.kind == record.KindBranch:
		return n.depth
	}
	return n.depth + 1
}

// enter follows a call from now on. It returns nil if there is no room.
func (t *tree) enter(r *record.Record) *node {
	above, depth := t.around(r.RunID, r.Address)
	if above == nil {
		above = t.insert(&t.root, &node{run: &runNode{id: r.RunID, calls: map[string]*node{}}})
		if above == nil {
			return nil
		}
		t.runs[r.RunID] = above
	}
	n := t.insert(above, &node{
		path: r.Address.String(), depth: depth, run: t.runs[r.RunID].run, call: &callNode{kind: r.Kind},
	})
	if n == nil {
		t.prune(above)
		return nil
	}
	if r.Kind == record.KindGroup {
		n.call.group = new(progress)
	}
	if g := above.group(); g != nil {
		g.running++
	}
	t.calls++
	n.run.calls[n.path] = n
	return n
}

// insert adds n as the last below above. It returns nil if there is no room.
func (t *tree) insert(above, n *node) *node {
	if t.nodes >= t.limit {
		return nil
	}
	t.nodes++
	if above.isBranch() && above.first == nil {
		t.hidden++
	}
	n.above, n.before = above, above.last
	if above.last != nil {
		above.last.after = n
	} else {
		above.first = n
	}
	above.last = n
	return n
}

// wait notes whether a call waits for its next attempt.
func (t *tree) wait(n *node, waits bool) {
	if n.call.waits == waits {
		return
	}
	n.call.waits = waits
	step := 1
	if !waits {
		step = -1
	}
	t.waiting += step
	if g := n.above.group(); g != nil {
		g.retrying += step
		g.running -= step
	}
}

// leave follows a call no longer, which has nothing below it and ended with
// the status.
func (t *tree) leave(n *node, status record.Status) {
	t.wait(n, false)
	if g := n.above.group(); g != nil {
		g.running--
		g.end(status)
	}
	t.calls--
	delete(n.run.calls, n.path)
	t.remove(n)
	t.prune(n.above)
}

// remove takes n out, which has nothing below it.
func (t *tree) remove(n *node) {
	t.nodes--
	if n.before != nil {
		n.before.after = n.after
	} else {
		n.above.first = n.after
	}
	if n.after != nil {
		n.after.before = n.before
	} else {
		n.above.last = n.before
	}
	if n.above.isBranch() && n.above.first == nil {
		t.hidden--
	}
}

// prune takes n out if it is a run that is empty.
func (t *tree) prune(n *node) {
	if n.isRun() && n.first == nil && t.runs[n.run.id] == n {
		t.remove(n)
		delete(t.runs, n.run.id)
	}
}

func (n *node) isRun() bool { return n.call == nil && n.run != nil }

func (n *node) isBranch() bool { return n.call != nil && n.call.kind == record.KindBranch }

// group is the progress of n, nil for other calls.
func (n *node) group() *progress {
	if n.call == nil {
		return nil
	}
	return n.call.group
}

// cutLast splits the last segment from a path.
func cutLast(path string) (outer, last string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}
