package testkit

// Seeds returns how many of n random programs a test looks at: all of them, or a quarter
// with the race detector, which makes each of them ten times as slow. `make test` runs such
// tests in both ways.
func Seeds(n uint64) uint64 {
	if raceDetector {
		return max(n/4, 1)
	}
	return n
}
