package engine

import "strings"

// MaxSignalName is the maximum length of a signal's name in bytes.
const MaxSignalName = 64

// IsSignalName reports whether name consists of 1 to [MaxSignalName] letters, digits, dots, dashes
// and underscores.
func IsSignalName(name string) bool {
	return name != "" && len(name) <= MaxSignalName && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_'
	})
}
