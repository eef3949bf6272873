package snapshot_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
)

func TestErrorsOfInvalidRunIDsSayWhatIsAllowed(t *testing.T) {
	const allowed = "; want 1 to 128 letters, digits, dots, dashes and underscores, not beginning with a dot or a dash"
	for id, want := range map[string]string{
		"":                              "snapshot: the run ID is empty",
		".a":                            `snapshot: the run ID ".a" is not allowed`,
		"-a":                            `snapshot: the run ID "-a" is not allowed`,
		"a/b":                           `snapshot: the run ID "a/b" is not allowed`,
		"a\x00":                         `snapshot: the run ID "a\x00" is not allowed`,
		"gr\xc3\xb6\xc3\x9fe":           `snapshot: the run ID "größe" is not allowed`,
		"\xff":                          `snapshot: the run ID "\xff" is not allowed`,
		strings.Repeat("x", 129):        `snapshot: the run ID "xxxxxxxxxxxxxxxxxxx…" has 129 bytes`,
		strings.Repeat("/", 10_000_000): `snapshot: the run ID "///////////////////…" has 10000000 bytes`,
	} {
		require.EqualError(t, snapshot.CheckRunID(id), want+allowed)
	}
}
