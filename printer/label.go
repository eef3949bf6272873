package printer

import (
	"net/url"
	"strings"

	"github.com/reprise-go/reprise/record"
)

const groupPrefix = "group:"

// label names a call: the actor's name, the number of the call among those of
// that name, its tag, its branch.
func (t *text) label(r *record.Record) {
	path := r.Address.String()
	branch := branchOf(path)
	if r.Kind == record.KindBranch && branch != "" {
		t.clean(branch, maxName)
		return
	}
	segment, nth := lastSegment(path)
	name, tag := r.Name, r.Address.Tag()
	if name == "" {
		name = segment
	}
	if r.Kind == record.KindCompensation {
		t.add("undo ")
		// The call that it undoes tells which one it is.
		undone, _ := strings.CutSuffix(r.Address.Scope(), "@undo")
		_, nth = lastSegment(undone)
		branch = branchOf(undone)
	}
	t.cleanOr(name, maxName, r.Kind.String())
	if tag == name {
		tag = "" // a step is named by its tag
	}
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

// lastSegment is the last segment of a path, and the number in it ("#2"),
// empty for the first call of its name.
func lastSegment(path string) (name, nth string) {
	_, last := cutLast(path)
	if name, n, ok := strings.Cut(last, "#"); ok {
		return name, "#" + n
	}
	return last, ""
}

// branchOf is the innermost branch of a group in a path, such as "collect/3";
// empty if there is none.
func branchOf(path string) string {
	for {
		// The colon is escaped in names and tags: what is found begins a segment.
		i := strings.LastIndex(path, groupPrefix)
		if i < 0 {
			return ""
		}
		group, rest, inside := strings.Cut(path[i+len(groupPrefix):], "/")
		if !inside { // the path is that of the group itself
			path = path[:i]
			continue
		}
		number, _, _ := strings.Cut(rest, "/")
		number, _, _ = strings.Cut(number, "@")
		if plain, err := url.PathUnescape(group); err == nil {
			group = plain
		}
		return group + "/" + number
	}
}
