package queuetest_test

import (
	"testing"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/queuetest"
)

// The tests of a queue.
func Example() {
	newQueue := func() runner.Queue { return nil } // that of the package
	_ = func(t *testing.T) {
		queuetest.Run(t, func(*testing.T) runner.Queue { return newQueue() })
	}
	// Output:
}
