package jetstream

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/snapshot"
)

// TestHoursUntilATimeAreThoseThatHavePassed checks that each past hour matches exactly one of the
// wildcards, and that no later hour matches any. No due run is therefore missed, and none is found
// twice.
func TestHoursUntilATimeAreThoseThatHavePassed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	at := func() time.Time {
		return time.Date(2015+rng.IntN(20), 1, 1+rng.IntN(365), rng.IntN(24), rng.IntN(60), 0, 0, time.UTC)
	}
	now := []time.Time{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 31, 23, 59, 0, 0, time.UTC), time.Date(2028, 2, 29, 12, 0, 0, 0, time.UTC)}
	for range 50 {
		now = append(now, time.Date(2020+rng.IntN(15), 1, 1+rng.IntN(365), rng.IntN(24), rng.IntN(60), 0, 0, time.UTC))
	}
	for _, now := range now {
		hours := hoursUntil(now)
		assert.LessOrEqual(t, len(hours), now.Year()-firstYear+11+30+24)
		dues := []time.Time{now, now.Add(time.Hour), now.Add(-time.Hour), now.AddDate(0, 0, 1), now.AddDate(0, -1, 0), now.AddDate(1, 0, 0), {}}
		for range 200 {
			dues = append(dues, at())
		}
		for _, due := range dues {
			hour := hourOf(&snapshot.Info{Status: snapshot.StatusPaused, Due: due})
			n := 0
			for _, pattern := range hours {
				if covers(pattern, hour) {
					n++
				}
			}
			want := 0
			if !due.IsZero() && !due.Truncate(time.Hour).After(now) {
				want = 1
			}
			assert.Equal(t, want, n, "due %v, now %v", due, now)
		}
	}
}

func covers(pattern, subject string) bool {
	tokens := strings.Split(subject, ".")
	for i, token := range strings.Split(pattern, ".") {
		if token != "*" && token != tokens[i] {
			return false
		}
	}
	return true
}
