package state

import (
	"iter"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// byPath finds the records inside a call without scanning all records. It is sorted by path. A
// record is inside a call if its path is the call's path followed by a slash or, for attempts after
// the first, by an @.
type byPath []placedRecord

// placedRecord holds a record's number and the path of its address.
type placedRecord struct {
	path string
	seq  uint64 // 0 after takeNumbers
}

// sort sorts by path, and keeps the order of records with the same path.
func (b byPath) sort() {
	slices.SortStableFunc(b, func(x, y placedRecord) int { return strings.Compare(x.path, y.path) })
}

// within yields the records of the call at the path and of the calls inside it; for the empty path,
// it yields the records that do not belong to a call.
func (b byPath) within(path string) iter.Seq[*placedRecord] {
	return func(yield func(*placedRecord) bool) {
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

// inside yields the records of the calls in the scope and of the calls nested inside these.
func (b byPath) inside(scope string) iter.Seq[*placedRecord] {
	return func(yield func(*placedRecord) bool) { b.under(scope + "/").each(yield) }
}

// before yields the records of the calls that the call at the path made in its preconditions and in
// those attempts whose number is below attempt.
func (b byPath) before(path string, attempt int) iter.Seq[*placedRecord] {
	return func(yield func(*placedRecord) bool) {
		if attempt > 0 && !b.under(path+"/").each(yield) {
			return
		}
		b.under(path + "@").each(func(p *placedRecord) bool {
			ordinal, _, _ := strings.Cut(p.path[len(path)+1:], "/")
			// The path contains 2 for attempt 1, and a word instead of a number for preconditions.
			n, err := strconv.Atoi(ordinal)
			return err == nil && n > attempt || yield(p)
		})
	}
}

// each calls yield for each element of b until yield returns false. It reports whether yield always
// returned true.
func (b byPath) each(yield func(*placedRecord) bool) bool {
	for i := range b {
		if !yield(&b[i]) {
			return false
		}
	}
	return true
}

// takeNumbers returns those record numbers that no earlier call to it has returned.
func takeNumbers(records iter.Seq[*placedRecord]) (numbers []uint64) {
	for p := range records {
		if p.seq > 0 {
			numbers = append(numbers, p.seq)
			p.seq = 0
		}
	}
	return numbers
}

// under returns the part of b whose paths begin with the prefix.
func (b byPath) under(prefix string) byPath {
	b = b[b.search(prefix):]
	return b[:sort.Search(len(b), func(i int) bool { return !strings.HasPrefix(b[i].path, prefix) })]
}

// search returns the first index of the path, or the index at which it would be inserted.
func (b byPath) search(path string) int {
	i, _ := slices.BinarySearchFunc(b, path, func(p placedRecord, path string) int { return strings.Compare(p.path, path) })
	return i
}
