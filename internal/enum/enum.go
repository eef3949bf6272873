package enum

import "fmt"

// Name returns the name of value i. If i has no name, for example because it comes from a newer
// format, Name returns what(i).
func Name(names []string, i uint8, what string) string {
	if int(i) < len(names) && (names[i] != "" || i == 0) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", what, i)
}

// Parse stores the value with the given name in *into.
func Parse(names []string, name []byte, what string, into *uint8) error {
	for i, known := range names {
		if known != "" && known == string(name) {
			*into = uint8(i)
			return nil
		}
	}
	return fmt.Errorf("unknown %s %q", what, name)
}
