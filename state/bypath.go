package state

import (
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
	seq  uint64
}

// sort keeps the order of those with the same path.
func (b byPath) sort() {
	slices.SortStableFunc(b, func(x, y placed) int { return strings.Compare(x.path, y.path) })
}

// within are the numbers of the records of the call at the path and of those inside
// it; for the empty path, those of no call.
func (b byPath) within(path string) (numbers []uint64) {
	b = b[b.search(path):]
	for i := 0; i < len(b) && b[i].path == path; i++ {
		numbers = append(numbers, b[i].seq)
	}
	if path == "" {
		return numbers
	}
	for _, p := range b.under(path + "/") {
		numbers = append(numbers, p.seq)
	}
	for _, p := range b.under(path + "@") {
		numbers = append(numbers, p.seq)
	}
	return numbers
}

// before are the numbers of the records of the calls that the preconditions of the
// call at the path made, and its attempts before that of the number.
func (b byPath) before(path string, attempt int) (numbers []uint64) {
	if attempt > 0 {
		for _, p := range b.under(path + "/") {
			numbers = append(numbers, p.seq)
		}
	}
	for _, p := range b.under(path + "@") {
		ordinal, _, _ := strings.Cut(p.path[len(path)+1:], "/")
		// That of attempt 1 is 2; preconditions have a word in its place.
		if n, err := strconv.Atoi(ordinal); err != nil || n <= attempt {
			numbers = append(numbers, p.seq)
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
