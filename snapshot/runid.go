package snapshot

import (
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// CheckRunID returns an error if id is not a valid run ID. A valid ID consists of 1 to 128 ASCII
// letters, digits, dots, dashes and underscores. It does not begin with a dot, so it is never "."
// or "..". It does not begin with a dash, so no command mistakes it for a flag. Stores return this
// error for an invalid ID.
func CheckRunID(id string) error {
	const want = "want 1 to 128 letters, digits, dots, dashes and underscores, not beginning with a dot or a dash"
	switch {
	case id == "":
		return fmt.Errorf("snapshot: the run ID is empty; %s", want)
	case len(id) > 128:
		return fmt.Errorf("snapshot: the run ID %q has %d bytes; %s", record.Truncate(id, 20), len(id), want)
	case id[0] == '.', id[0] == '-', strings.ContainsFunc(id, isForbidden):
		return fmt.Errorf("snapshot: the run ID %q is not allowed; %s", id, want)
	}
	return nil
}

func isForbidden(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return r != '.' && r != '-' && r != '_'
}
