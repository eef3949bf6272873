package nearest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/internal/nearest"
)

func TestNearestNameIsTheOneThatWasMeant(t *testing.T) {
	names := []string{"max_attempts", "max_delay", "initial_delay", "jitter", "all"}
	for name, want := range map[string]string{
		"max_attempt":   "max_attempts",
		"maxattempts":   "max_attempts",
		"max-delay":     "max_delay",
		"nitial_delay":  "initial_delay",
		"jittre":        "jitter", // swapped
		"al":            "all",
		"max_attempts":  "max_attempts",
		"retries":       "",
		"":              "",
		"all_of_them":   "",
		"xyz":           "",
		"\xff\xfejitte": "",
	} {
		assert.Equal(t, want, nearest.To(name, names), name)
	}
}
