package printer

import (
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/core"
)

// maxNodes is how many calls and groups a printer follows at most. What comes
// on top is shown as it is told.
const maxNodes = 1 << 16

// tree holds the calls that are going on and the groups around them, as they
// are nested, in the order in which they began. Below its root are the runs.
type tree struct {
	root     node
	runs     map[string]*node
	limit    int
	ellipsis string

	nodes, calls, waiting int // that are in it
}

// A node is a run, a call that is going on, or a group that is not over.
type node struct {
	above, before, after, first, last *node
	groups                            []*node // of those below

	path   string // of a call or a group in its run
	branch int    // of the group above; 0 in none
	depth  int    // of its line

	run   *runNode
	call  *callNode
	group *groupNode
}

// runNode is what is inside a run.
type runNode struct {
	id    string
	calls map[string]*node
	open  map[string]*node // groups, by the path of their branches without the number
}

// callNode is a call that is going on.
type callNode struct {
	story story
	live  live
	waits bool // for its next attempt,
	// announced says that the line about that was written with the failure.
	announced bool
}

func newTree(limit int, ellipsis string) tree {
	return tree{runs: make(map[string]*node), limit: limit, ellipsis: ellipsis}
}

// find returns the call at an address, nil if it is not followed.
func (t *tree) find(run string, a core.Address) *node {
	top := t.runs[run]
	if top == nil {
		return nil
	}
	var buf [256]byte
	return top.run.calls[string(a.AppendTo(buf[:0]))]
}

// around returns what the call at the address is in: the nearest that is
// followed of the calls and groups around it, the run at least. It is nil if
// there is no room. The number is that of the branch, if it is a group.
func (t *tree) around(run string, a core.Address) (above *node, branch int) {
	top := t.runs[run]
	if top == nil {
		if top = t.insert(&t.root, &node{run: &runNode{id: run, calls: map[string]*node{}, open: map[string]*node{}}}); top == nil {
			return nil, 0
		}
		t.runs[run] = top
	}
	return t.place(top, a.Scope())
}

// maxScope is how long the path of a scope may be. What is nested deeper than
// anybody can read is followed as if it were in the run itself.
const maxScope = 4 << 10

// place finds what numbers the calls of a scope.
func (t *tree) place(top *node, scope string) (above *node, branch int) {
	if len(scope) > maxScope {
		return top, 0
	}
	for scope != "" {
		if path, number, ok := cutBranch(scope); ok {
			if g := top.run.open[path]; g != nil {
				return g, number
			}
			return t.openGroup(top, path), number
		}
		outer, last := cutLast(scope)
		name, _, _ := strings.Cut(last, "@")
		if call := top.run.calls[scope[:len(scope)-len(last)+len(name)]]; call != nil {
			return call, 0
		}
		scope = outer // it began before the printer, or not yet: a precondition calls
	}
	return top, 0
}

func (t *tree) openGroup(top *node, path string) *node {
	scope, segment := cutLast(path)
	above, branch := t.place(top, scope)
	if above == nil {
		return nil
	}
	g := &node{path: path, branch: branch, run: top.run, group: &groupNode{label: groupName(segment, t.ellipsis), branches: map[int]branchState{}}}
	if a, err := core.ParseAddress(path); err == nil {
		g.depth = a.Depth()
	}
	if g = t.insert(above, g); g != nil {
		top.run.open[path] = g
	}
	return g
}

// insert adds n as the last below above. It returns nil if there is no room.
func (t *tree) insert(above, n *node) *node {
	if t.nodes >= t.limit {
		return nil
	}
	t.nodes++
	if n.group != nil {
		above.groups = append(above.groups, n)
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

// remove takes out n, which has nothing below it, and its run when that was
// the last in it.
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
	switch {
	case n.call != nil:
		delete(n.run.calls, n.path)
	case n.group != nil:
		n.above.groups = slices.DeleteFunc(n.above.groups, func(g *node) bool { return g == n })
		delete(n.run.open, n.path)
	default:
		delete(t.runs, n.run.id)
		return
	}
	t.prune(n.above)
}

func (n *node) isRun() bool { return n.call == nil && n.group == nil && n.run != nil }

// prune takes out a run that is empty.
func (t *tree) prune(n *node) {
	if n.isRun() && n.first == nil && t.runs[n.run.id] == n {
		t.remove(n)
	}
}

// cutLast splits the last segment from a path.
func cutLast(path string) (outer, last string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// cutBranch splits a scope that is a branch of a group into the group's path
// and the number of the branch.
func cutBranch(scope string) (group string, number int, ok bool) {
	group, last := cutLast(scope)
	_, segment := cutLast(group)
	if !strings.HasPrefix(segment, groupPrefix) { // the colon is escaped in names
		return "", 0, false
	}
	number, err := strconv.Atoi(last)
	return group, number, err == nil && number > 0
}
