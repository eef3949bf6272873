package testkit

// With the race detector, a campaign runs one case in 23, since each case takes five to ten times
// as long. Most cases use few goroutines. The number is a prime, so that no kind of case that
// recurs every second or third time is left out.
const raced = 23

// Seeds returns how many of n random programs a test runs: all of them, or one in 23 with the race
// detector. `make test` runs such tests with and without it.
func Seeds(n uint64) uint64 {
	if raceDetector {
		return max(n/raced, 1)
	}
	return n
}

// Sampled reports whether a test runs its n-th case: always, or for one case in
// 23 with the race detector.
func Sampled(n int) bool { return !raceDetector || n%raced == 0 }
