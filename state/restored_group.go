package state

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/core"
)

// RecallGroup implements what core.Group.Recall needs. A group has no records
// of its own: what became of it is read from those of the calls in its
// branches.
func (r *run) RecallGroup(s *core.Scope) *core.RecalledGroup {
	r.mu.Lock()
	if r.rerunFailed {
		r.mu.Unlock()
		return nil // what has failed is no failure this time
	}
	var found *core.RecalledGroup
	g, err := r.restored.group(s.Address().String())
	if err == nil {
		found = g.recall(r.rerun.since[s.Address()])
	}
	r.mu.Unlock()
	if err != nil {
		_ = r.stop(err)
	}
	return found
}

// EndGroup implements what core.Group.End needs. Branches that are not made
// again have left values, as they did when the group failed.
func (r *run) EndGroup(s *core.Scope) {
	r.mu.Lock()
	path, since := s.Address().String(), r.rerun.since[s.Address()]
	err := r.takeValues(s, r.restored.valuesIn(path), since)
	if err == nil && r.validation != nil {
		err = r.passGroup(path, since)
	}
	r.mu.Unlock()
	if err != nil {
		_ = r.stop(err)
	}
}

// passGroup has the validation know of the branches that are not made again.
// The lock is held.
func (r *run) passGroup(path string, since uint64) error {
	g, err := r.restored.group(path)
	if err != nil {
		return err
	}
	for number, b := range g.branches {
		if b.stand(nil, since) == branchOpen {
			r.validation.pass(path + "/" + strconv.Itoa(number))
		}
	}
	return nil
}

// group is what was recorded of a parallel group.
type group struct {
	path     string
	branches map[int]*branch
	failed   uint64 // the last record of a call in it that was interrupted because a branch failed
}

// branch is what was recorded of one branch of a group: the calls that it made
// itself, and its groups.
type branch struct {
	calls  []member
	groups []*group
}

// member is a call of a branch.
type member struct {
	*track
	origin string // of the interrupt that it ended with; empty if it was none, or that of the run
}

// group is what was recorded of the group at the path. Its error is that of
// reading the records.
func (r *restored) group(path string) (*group, error) {
	if r.groups == nil {
		all := make(groups)
		for a, t := range r.calls {
			if err := r.place(all, a, t); err != nil {
				return nil, err
			}
		}
		r.groups = all
	}
	return r.groups.at(path), nil
}

// place puts a call into its branch, and the failure that interrupted it, if it
// was one, into the group that failed.
func (r *restored) place(all groups, a core.Address, t *track) error {
	m := member{track: t}
	if t.status == core.StatusInterrupted || t.status == core.StatusAwaiting {
		last, err := r.found.Record(t.last)
		if err != nil {
			return err
		}
		if e := last.Interrupt(); e != nil {
			m.origin = e.Origin()
			if e.Reason == core.InterruptGroup {
				g := all.at(m.origin)
				g.failed = max(g.failed, t.last)
			}
		}
	}
	if b := all.branch(a.Scope()); b != nil {
		b.calls = append(b.calls, m)
	}
	return nil
}

// groups are all groups that were recorded, by their paths.
type groups map[string]*group

func (all groups) at(path string) *group {
	g := all[path]
	if g == nil {
		g = &group{path: path, branches: make(map[int]*branch)}
		all[path] = g
		scope, _ := cutLast(path)
		if around := all.branch(scope); around != nil {
			around.groups = append(around.groups, g)
		}
	}
	return g
}

// branch is that whose calls have the scope, nil if they are in no group.
func (all groups) branch(scope string) *branch {
	path, last := cutLast(scope)
	if _, name := cutLast(path); !strings.HasPrefix(name, "group:") {
		return nil
	}
	number, err := strconv.Atoi(last)
	if err != nil {
		return nil
	}
	g := all.at(path)
	if g.branches[number] == nil {
		g.branches[number] = new(branch)
	}
	return g.branches[number]
}

// cutLast splits a path before its last segment.
func cutLast(path string) (before, last string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// How a branch stands by its calls.
const (
	branchNone   = iota // it made none
	branchOpen          // some of them have no outcome
	branchEnded         // all of them have
	branchFailed        // all of them have, and some failed
)

// stand tells how the branch stands by the records since a divergence. What is
// in groups that failed, whose paths are given, has ended with them.
func (b *branch) stand(over []string, since uint64) int {
	how := branchNone
	for _, t := range b.calls {
		if !t.isSince(since) {
			continue
		}
		how = max(how, branchEnded)
		switch {
		case t.isOutcome() && t.status == core.StatusFailed:
			how = branchFailed
		case t.isOutcome(), t.origin != "" && slices.Contains(over, t.origin):
		default:
			return branchOpen
		}
	}
	for _, g := range b.groups {
		for _, inner := range g.branches {
			switch stand := inner.stand(append(over, g.path), since); stand {
			case branchOpen:
				return branchOpen
			default:
				how = max(how, stand)
			}
		}
	}
	return how
}

// lastSeq is the number of the last outcome in the branch, or of the last
// failure.
func (b *branch) lastSeq(failures bool) (seq uint64) {
	for _, t := range b.calls {
		if !failures || t.status == core.StatusFailed {
			seq = max(seq, t.last)
		}
	}
	for _, g := range b.groups {
		for _, inner := range g.branches {
			seq = max(seq, inner.lastSeq(failures))
		}
	}
	return seq
}

// recall puts the branches into the order in which they may have failed the
// group. One with a failed call may have, or may have gone on without it. One
// whose calls have all succeeded may have, with an error of its own, if
// branches were interrupted because one did.
// Only records since the divergence count.
func (g *group) recall(since uint64) *core.RecalledGroup {
	var failed, ended []int
	for number, b := range g.branches {
		switch b.stand(nil, since) {
		case branchFailed:
			failed = append(failed, number)
		case branchEnded:
			ended = append(ended, number)
		}
	}
	g.sort(failed, true)
	g.sort(ended, false)
	switch {
	case g.failed > since:
		return &core.RecalledGroup{First: append(failed, ended...)}
	case len(failed) > 0:
		return &core.RecalledGroup{First: failed, Ended: ended}
	}
	return nil
}

// sort orders branches by their last outcomes or failures.
func (g *group) sort(numbers []int, failures bool) {
	slices.SortFunc(numbers, func(a, b int) int {
		return cmp.Compare(g.branches[a].lastSeq(failures), g.branches[b].lastSeq(failures))
	})
}
