package runner_test

import (
	"testing"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/queuetest"
)

func TestQueueInMemory(t *testing.T) {
	open := func(*testing.T) runner.Queue { return runner.NewHeapQueue() }
	queuetest.Run(t, open)
	queuetest.RunOrdered(t, open)
}
