package queuetest_test

import (
	"testing"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/queuetest"
)

// A test of a queue calls Run, and the other functions that apply.
func Example() {
	newQueue := func() runner.Queue { return nil } // the queue of your package
	_ = func(t *testing.T) {
		queuetest.Run(t, func(*testing.T) runner.Queue { return newQueue() })
	}
	// Output:
}
