package testkit

// raced determines the share of a campaign's cases that run with the race detector: one in
// raced. The race detector makes each case five to ten times slower, and most cases use few
// goroutines. The number is a prime, so that no kind of case that recurs every second or third
// time is left out.
const raced = 23

// Seeds returns how many of n random programs a test runs: all of them, or one in 23
// with the race detector. `make test` runs such tests both ways.
func Seeds(n uint64) uint64 {
	if raceDetector {
		return max(n/raced, 1)
	}
	return n
}

// Sampled reports whether a test runs its n-th case, like [Seeds] for programs.
func Sampled(n int) bool { return !raceDetector || n%raced == 0 }
