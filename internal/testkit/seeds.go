package testkit

// raced is the share of the cases of a campaign that the race detector sees, which makes
// each of them five to ten times as slow: one of so many. What they do is mostly done by
// one goroutine. It is a prime, so that no kind of case is left out that comes every second
// or third time.
const raced = 11

// Seeds returns how many of n random programs a test looks at: all of them, or an eleventh
// with the race detector. `make test` runs such tests in both ways.
func Seeds(n uint64) uint64 {
	if raceDetector {
		return max(n/raced, 1)
	}
	return n
}

// Sampled reports whether a test looks at its n-th case, as [Seeds] does at programs.
func Sampled(n int) bool { return !raceDetector || n%raced == 0 }
