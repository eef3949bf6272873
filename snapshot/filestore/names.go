package filestore

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/reprise-go/reprise/snapshot"
)

// The names of a run's files. All paths in a store consist of these names, numbers, references to
// artifacts, and run IDs that snapshot.CheckRunID has checked.
const (
	journalSuffix  = ".journal"
	snapshotSuffix = ".snapshot"
	tmpSuffix      = ".tmp"
	metaName       = "meta"
	updateName     = "update"
	lockName       = "lock"
	inboxName      = "inbox"
)

func journalName(n uint64) string  { return fmt.Sprintf("%08d%s", n, journalSuffix) }
func snapshotName(n uint64) string { return fmt.Sprintf("%08d%s", n, snapshotSuffix) }

// tmpNumber makes the names of temporary files unique within the process.
var tmpNumber atomic.Uint64

// tmpName returns a temporary name for a file that others may be writing at the same time.
func tmpName(name string) string {
	return fmt.Sprintf("%s.%d-%d%s", name, os.Getpid(), tmpNumber.Add(1), tmpSuffix)
}

// unusedName returns a name that no file has: the given name, with a number appended if necessary.
func unusedName(name string) string {
	unused := name
	for n := 2; ; n++ {
		if _, err := os.Lstat(unused); err != nil {
			return unused
		}
		unused = fmt.Sprintf("%s.%d", name, n)
	}
}

// dirName returns the name of a run's directory. The name is the run ID, with each upper-case
// letter replaced by + and the lower-case letter. So IDs that differ only in case have different
// directories even on file systems that ignore case. If all letters in the ID are upper-case, the
// name is ++ followed by the lower-case ID. So even the longest ID fits in the 255 bytes that a
// name may have.
func dirName(runID string) string {
	lower := strings.ToLower(runID)
	switch {
	case lower == runID:
		return runID
	case strings.ToUpper(runID) == runID:
		return "++" + lower
	}
	var b strings.Builder
	for i := range len(runID) {
		if runID[i] != lower[i] {
			b.WriteByte('+')
		}
		b.WriteByte(lower[i])
	}
	return b.String()
}

// runIDOf is the inverse of dirName. It reports false if dir is not a name that dirName returns.
func runIDOf(dir string) (string, bool) {
	id, allUpper := strings.CutPrefix(dir, "++")
	if allUpper {
		id = strings.ToUpper(id)
	} else {
		var b strings.Builder
		for i := 0; i < len(dir); i++ {
			c := dir[i]
			if c == '+' {
				if i++; i == len(dir) || dir[i] < 'a' || dir[i] > 'z' {
					return "", false
				}
				c = dir[i] - ('a' - 'A')
			}
			b.WriteByte(c)
		}
		id = b.String()
	}
	return id, snapshot.CheckRunID(id) == nil && dirName(id) == dir
}

// A listing describes what a run's directory contains.
type listing struct {
	journals   []uint64 // the numbers of the journals, sorted
	snapshots  []uint64 // the numbers of the snapshots, sorted
	unfinished bool     // there are temporary files, which a crash has left or which are being written
}

func (l listing) equal(other listing) bool {
	return slices.Equal(l.journals, other.journals) && slices.Equal(l.snapshots, other.snapshots)
}

// files returns the number of journals and snapshots.
func (l listing) files() int { return len(l.journals) + len(l.snapshots) }

// newest returns the highest number of a journal or a snapshot, or 0 if there is none.
func (l listing) newest() uint64 {
	n := uint64(0)
	for _, numbers := range [][]uint64{l.journals, l.snapshots} {
		if len(numbers) > 0 {
			n = max(n, numbers[len(numbers)-1])
		}
	}
	return n
}

func listingOf(entries []fs.DirEntry) (l listing) {
	for _, e := range entries {
		name := e.Name()
		if n, ok := numberOf(name, journalSuffix); ok {
			l.journals = append(l.journals, n)
		} else if n, ok := numberOf(name, snapshotSuffix); ok {
			l.snapshots = append(l.snapshots, n)
		} else if strings.HasSuffix(name, tmpSuffix) {
			l.unfinished = true
		}
	}
	slices.Sort(l.journals)
	slices.Sort(l.snapshots)
	return l
}

// maxNumber is an upper bound for the numbers of files. It is low enough that adding to such a
// number cannot overflow.
const maxNumber = 1 << 53

func numberOf(name, suffix string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n < maxNumber && name == fmt.Sprintf("%08d%s", n, suffix)
}
