package storetest

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/reprise-go/reprise/snapshot"
)

// A Fault specifies how a statement that a store sends to its database fails.
type Fault int

// The faults of a statement.
const (
	NoFault    Fault = iota // the statement does not fail
	NotDone                 // the statement fails and has no effect
	AnswerLost              // the statement fails but takes effect; the store cannot distinguish this from NotDone
)

// RunLostAnswers checks a store that reaches its data over a connection. It runs the tests of [Run]
// over a bad connection. The function open must return an empty store that calls next before each
// statement, including repeated ones. If the returned Fault is not NoFault, the statement must fail
// in that way, with a temporary error. At most one statement in three fails. A store passes if it
// repeats failed statements and determines whether they took effect: nothing is stored twice, nothing
// that was confirmed is missing, no run stays locked, and no call fails. [OnBadConnection] makes the
// statements of a backend fail in this way.
func RunLostAnswers(t *testing.T, open func(t *testing.T, next func() Fault) snapshot.Store) {
	for _, fault := range []struct {
		name string
		kind Fault
	}{{"NotDone", NotDone}, {"AnswerLost", AnswerLost}} {
		for _, every := range []int{3, 7} {
			t.Run(fault.name, func(t *testing.T) {
				Run(t, func(t *testing.T) snapshot.Store { return open(t, faults(fault.kind, every)) })
			})
		}
	}
}

// faults returns a function that returns the given fault once in n calls, where n varies from every
// to every+2. If n were constant, the retries of a caller could coincide with the faults and fail
// every time.
func faults(kind Fault, every int) func() Fault {
	var mu sync.Mutex
	distance := rand.New(rand.NewPCG(1, 1))
	left := every
	return func() Fault {
		mu.Lock()
		defer mu.Unlock()
		if left--; left > 0 {
			return NoFault
		}
		left = every + distance.IntN(3)
		return kind
	}
}
