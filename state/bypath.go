package state

import (
	"iter"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// byPath finds what was recorded inside a call without looking at anything
// else. It is sorted by path: what is inside the call at a path are the paths
// that go on from it with a slash and, for attempts after the first, with an @.
type byPath []placed

// placed is a record by the path of its address.
type placed struct {
	path string
	seq  uint64 // 0 once it was taken
}

// sort keeps the order of those with the same path.
func (b byPath) sort() {
	slices.SortStableFunc(b, func(x, y placed) int { return strings.Compare(x.path, y.path) })
}

// within are the records of the call at the path and of those inside it; for
// the empty path, those of no call.
func (b byPath) within(path string) iter.Seq[*placed] {
	return func(yield func(*placed) bool) {
		for i := b.search(path); i < len(b) && b[i].path == path; i++ {
			if !yield(&b[i]) {
				return
			}
		}
		if path != "" && b.under(path+"/").each(yield) {
			b.under(path + "@").each(yield)
		}
	}
}

// inside are the records of the calls in the scope of the path, and of those
// inside them.
func (b byPath) inside(scope string) iter.Seq[*placed] {
	return func(yield func(*placed) bool) { b.under(scope + "/").each(yield) }
}

// before are the records of the calls that the preconditions of the call at the
// path made, and its attempts before that of the number.
func (b byPath) before(path string, attempt int) iter.Seq[*placed] {
	return func(yield func(*placed) bool) {
		if attempt > 0 && !b.under(path+"/").each(yield) {
			return
		}
		b.under(path + "@").each(func(p *placed) bool {
			ordinal, _, _ := strings.Cut(p.path[len(path)+1:], "/")
			// That of attempt 1 is 2; preconditions have a word in its place.
			n, err := strconv.Atoi(ordinal)
			return err == nil && n > attempt || yield(p)
		})
	}
}

// each yields all, and reports whether it may go on.
func (b byPath) each(yield func(*placed) bool) bool {
	for i := range b {
		if !yield(&b[i]) {
			return false
		}
	}
	return true
}

// take returns the numbers of the records that were not taken before.
func take(records iter.Seq[*placed]) (numbers []uint64) {
	for p := range records {
		if p.seq > 0 {
			numbers = append(numbers, p.seq)
			p.seq = 0
		}
	}
	return numbers
}

// under is the part that begins with the prefix.
func (b byPath) under(prefix string) byPath {
	b = b[b.search(prefix):]
	return b[:sort.Search(len(b), func(i int) bool { return !strings.HasPrefix(b[i].path, prefix) })]
}

// search is where the path is, or would be.
func (b byPath) search(path string) int {
	i, _ := slices.BinarySearchFunc(b, path, func(p placed, path string) int { return strings.Compare(p.path, path) })
	return i
}
