package state

import (
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/retrylevel"
)

// retryLevels are the levels of the run, as its store keeps them: not nil, also
// if there are none.
func (c *config) retryLevels() retrylevel.Levels {
	levels := make(retrylevel.Levels)
	if p := c.settings.Retry; p != nil {
		levels[retrylevel.All] = retrylevel.Of(p)
	}
	for kind, p := range c.settings.RetryByKind {
		if p != nil {
			levels[record.Kind(kind).String()] = retrylevel.Of(p)
		}
	}
	for name, p := range c.settings.RetryByActor {
		levels[retrylevel.ActorPrefix+name] = retrylevel.Of(p)
	}
	return levels
}
