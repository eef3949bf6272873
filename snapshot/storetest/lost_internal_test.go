package storetest

import "testing"

// A store repeats a failed statement about a dozen times. However many other statements come in
// between, at least one of these tries has no fault.
func TestFaultsHaveNoRhythm(t *testing.T) {
	const tries = 10
	for _, every := range []int{3, 7} {
		for others := range 50 {
			next := faults(NotDone, every)
			for next() == NoFault { // up to the fault that makes the store repeat its statement
			}
			failed := 1
			for ; failed < tries; failed++ {
				for range others {
					next()
				}
				if next() == NoFault {
					break
				}
			}
			if failed == tries {
				t.Errorf("a fault every %d statements: with %d others in between, each of %d tries failed", every, others, tries)
			}
		}
	}
}
