//go:build !windows

package printer

// enableSequences reports whether the terminal understands control sequences.
func enableSequences(uintptr) bool { return true }
