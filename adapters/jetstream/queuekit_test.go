package jetstream_test

import (
	"testing"

	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/queuetest"
)

func TestQueueKeepsTheRulesOfQueues(t *testing.T) {
	queuetest.Run(t, func(t *testing.T) runner.Queue { return newWorker(t, jstest.Start(t), longLease).queue })
	queuetest.RunOrdered(t, func(t *testing.T) runner.Queue { return newWorker(t, jstest.Start(t), longLease).queue })
	queuetest.RunShared(t, func(t *testing.T) func() runner.Queue {
		server := jstest.Start(t)
		return func() runner.Queue { return newWorker(t, server, longLease).queue }
	})
}
