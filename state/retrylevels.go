package state

import (
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// retryLevels are the levels of the run, as its store keeps them: not nil, also
// if there are none.
func (c *config) retryLevels() snapshot.RetryLevels {
	levels := make(snapshot.RetryLevels)
	if p := c.settings.Retry; p != nil {
		levels[snapshot.AllCalls] = snapshot.RetryLevelOf(p)
	}
	for kind, p := range c.settings.RetryByKind {
		if p != nil {
			levels[record.Kind(kind).String()] = snapshot.RetryLevelOf(p)
		}
	}
	for name, p := range c.settings.RetryByActor {
		levels[snapshot.ActorPrefix+name] = snapshot.RetryLevelOf(p)
	}
	return levels
}
