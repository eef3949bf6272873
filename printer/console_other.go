//go:build !windows

package printer

// enableSequences reports whether a terminal understands control sequences.
func enableSequences(uintptr) bool { return true }
