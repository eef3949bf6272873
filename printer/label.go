package printer

import (
	"net/url"
	"strings"

	"github.com/reprise-go/reprise/core"
)

const groupPrefix = "group:"

// label is how a call is told from others: the actor's name, the number of
// the call among those of that name, its tag, its branch.
func (t *text) label(r *core.Record) {
	segment, nth := lastSegment(r.Address)
	name, tag := r.Name, r.Address.Tag()
	if name == "" {
		name = segment
	}
	t.cleanOr(name, maxName, r.Kind.String())
	if tag == name {
		tag = "" // a step is named by its tag
	}
	branch := branchOf(r.Address.Scope())
	switch {
	case tag != "" && branch != "":
		t.name(" (", tag, nth+", ")
		t.name("", branch, ")")
	case tag != "":
		t.name(" (", tag, nth+")")
	case branch != "":
		t.name(nth+" (", branch, ")")
	default:
		t.add(nth)
	}
}

// lastSegment is the last segment of a, and the number in it ("#2"), empty
// for the first call of its name.
func lastSegment(a core.Address) (name, nth string) {
	path := a.String()
	last := path[strings.LastIndexByte(path, '/')+1:]
	if name, n, ok := strings.Cut(last, "#"); ok {
		return name, "#" + n
	}
	return last, ""
}

// branchOf is the innermost branch of a group in the path of a scope, such as
// "collect/3"; empty if there is none.
func branchOf(scope string) string {
	// The colon is escaped in names and tags: what is found begins a segment.
	i := strings.LastIndex(scope, groupPrefix)
	if i < 0 {
		return ""
	}
	group, rest, _ := strings.Cut(scope[i+len(groupPrefix):], "/")
	number, _, _ := strings.Cut(rest, "/")
	if plain, err := url.PathUnescape(group); err == nil {
		group = plain
	}
	return group + "/" + number
}

// inside is the depth of what happens inside the call or the branch at a.
func inside(a core.Address) int {
	if a.IsZero() {
		return 0
	}
	scope := a.Scope()
	if last := scope[strings.LastIndexByte(scope, '/')+1:]; strings.HasPrefix(last, groupPrefix) {
		return a.Depth() // a branch: the group is the step down
	}
	return a.Depth() + 1
}
