package printer

import (
	"net/url"
	"strings"

	"github.com/reprise-go/reprise/record"
)

const groupPrefix = "group:"

// label adds the label of a call: the actor's name, the number of the call among the calls with the
// same name, the tag, and the branch.
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
		// A compensation is identified by the call that it undoes.
		undone, _ := strings.CutSuffix(r.Address.Scope(), "@undo")
		_, nth = lastSegment(undone)
		branch = branchOf(undone)
	}
	t.cleanOr(name, maxName, r.Kind.String())
	if tag == name {
		tag = "" // the tag of a step is its name
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

// lastSegment returns the name in the last segment of a path, and the number that follows it, such
// as "#2". The number is empty for the first call with that name.
func lastSegment(path string) (name, nth string) {
	_, last := cutLast(path)
	if name, n, ok := strings.Cut(last, "#"); ok {
		return name, "#" + n
	}
	return last, ""
}

// branchOf returns the innermost group branch in a path, such as "collect/3", or "" if
// there is none.
func branchOf(path string) string {
	for {
		// Colons are escaped in names and tags, so a match begins a segment.
		i := strings.LastIndex(path, groupPrefix)
		if i < 0 {
			return ""
		}
		group, rest, inside := strings.Cut(path[i+len(groupPrefix):], "/")
		if !inside { // the path ends with the group itself
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
