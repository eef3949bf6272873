package printer

import (
	"strings"

	"github.com/reprise-go/reprise/record"
)

// maxNodes is the maximum number of calls that a printer tracks. The lines of any further calls are
// written immediately.
const maxNodes = 1 << 16

// tree holds the running calls, nested and in the order in which they began. The
// root's children are runs.
type tree struct {
	root  node
	runs  map[string]*node
	limit int

	nodes   int // number of nodes in the tree
	calls   int // nodes that are calls
	waiting int // calls that are waiting for their next attempt
	hidden  int // branches without a live line of their own
}

// A node is a run or a running call.
type node struct {
	parent, prev, next, first, last *node

	path  string // the call's address in its run
	depth int    // indentation of its lines

	run  *runNode
	call *callNode // nil for a run
}

// runNode holds the calls of a run, by address.
type runNode struct {
	id    string
	calls map[string]*node
}

// callNode holds the state of a running call.
type callNode struct {
	kind   record.Kind
	buffer buffer
	live   liveState
	waits  bool      // the call is waiting for its next attempt
	group  *progress // nil unless the call is a group

	// lastFailure describes the latest call inside this branch that did not succeed. It is set
	// only in branches.
	lastFailure failure

	recalled recalledCalls
}

// A failure describes a call that ended without success.
type failure struct {
	status record.Status
	cause  string
}

func newTree(limit int) tree { return tree{runs: make(map[string]*node), limit: limit} }

// find returns the call at an address, or nil if it is not tracked.
func (t *tree) find(run string, a record.Address) *node {
	top := t.runs[run]
	if top == nil {
		return nil
	}
	var buf [256]byte
	return top.run.calls[string(a.AppendTo(buf[:0]))]
}

// maxScope is the maximum length of the path of a scope. Calls with a longer path are treated as if
// they were made directly in the run.
const maxScope = 4 << 10

// nearest returns the innermost tracked call that contains the address. If there is none, it
// returns the run, or nil if the run is not tracked. It also returns the depth of a call at
// the address.
func (t *tree) nearest(run string, a record.Address) (parent *node, depth int) {
	top := t.runs[run]
	scope := a.Scope()
	if len(scope) > maxScope {
		return top, maxDepth
	}
	for top != nil && scope != "" {
		outer, last := cutLast(scope)
		name, _, _ := strings.Cut(last, "@")
		if n := top.run.calls[scope[:len(scope)-len(last)+len(name)]]; n != nil {
			return n, n.innerDepth() + depth
		}
		scope = outer // not tracked: it began before the printer was used, or its precondition makes calls before it begins
		depth++
	}
	if scope != "" {
		depth = 1 + strings.Count(scope, "/")
	}
	return top, depth
}

// innerDepth returns the depth of the lines inside n. While a branch is running, it has no lines,
// so the calls in it have the depth of the branch.
func (n *node) innerDepth() int {
	switch {
	case n.call == nil:
		return 0
	case n.call.kind == record.KindBranch:
		return n.depth
	}
	return n.depth + 1
}

// enter starts tracking a call. It returns nil if there is no room for the call.
func (t *tree) enter(r *record.Record) *node {
	parent, depth := t.nearest(r.RunID, r.Address)
	if parent == nil {
		parent = t.insert(&t.root, &node{run: &runNode{id: r.RunID, calls: map[string]*node{}}})
		if parent == nil {
			return nil
		}
		t.runs[r.RunID] = parent
	}
	n := t.insert(parent, &node{
		path: r.Address.String(), depth: depth, run: t.runs[r.RunID].run, call: &callNode{kind: r.Kind},
	})
	if n == nil {
		t.prune(parent)
		return nil
	}
	if r.Kind == record.KindGroup {
		n.call.group = new(progress)
	}
	if g := parent.group(); g != nil {
		g.running++
	}
	t.calls++
	n.run.calls[n.path] = n
	return n
}

// insert appends n to the children of parent. It returns nil if there is no room.
func (t *tree) insert(parent, n *node) *node {
	if t.nodes >= t.limit {
		return nil
	}
	t.nodes++
	if parent.isBranch() && parent.first == nil {
		t.hidden++
	}
	n.parent, n.prev = parent, parent.last
	if parent.last != nil {
		parent.last.next = n
	} else {
		parent.first = n
	}
	parent.last = n
	return n
}

// wait records whether a call waits for its next attempt.
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
	if g := n.parent.group(); g != nil {
		g.retrying += step
		g.running -= step
	}
}

// leave stops tracking a call that ended with the given status. The call must not have
// children.
func (t *tree) leave(n *node, status record.Status) {
	t.wait(n, false)
	if g := n.parent.group(); g != nil {
		g.running--
		g.end(status)
	}
	t.calls--
	delete(n.run.calls, n.path)
	t.remove(n)
	t.prune(n.parent)
}

// remove removes n from the tree. n must not have children.
func (t *tree) remove(n *node) {
	t.nodes--
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		n.parent.first = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		n.parent.last = n.prev
	}
	if n.parent.isBranch() && n.parent.first == nil {
		t.hidden--
	}
}

// prune removes n if it is a run without calls.
func (t *tree) prune(n *node) {
	if n.isRun() && n.first == nil && t.runs[n.run.id] == n {
		t.remove(n)
		delete(t.runs, n.run.id)
	}
}

func (n *node) isRun() bool { return n.call == nil && n.run != nil }

func (n *node) isBranch() bool { return n.call != nil && n.call.kind == record.KindBranch }

// group returns the progress of n, or nil if n is not a group.
func (n *node) group() *progress {
	if n.call == nil {
		return nil
	}
	return n.call.group
}

// cutLast splits a path before its last segment.
func cutLast(path string) (outer, last string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}
