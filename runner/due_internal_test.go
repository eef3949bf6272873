package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// The clock was a day ahead when the runs were changed, and was then set back.
func TestRunWhoseLastChangeLiesAheadDoesNotWaitForTheClock(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ahead := now.Add(24 * time.Hour)
	crashed := snapshot.Stop{Reason: record.InterruptCrash}
	for name, c := range map[string]struct {
		info snapshot.Info
		want time.Time
	}{
		"crashed":            {snapshot.Info{Status: snapshot.StatusInterrupted, Stop: crashed, Updated: ahead}, now},
		"queued":             {snapshot.Info{Status: snapshot.StatusQueued, Created: ahead, Updated: ahead}, now},
		"parked":             {snapshot.Info{Status: snapshot.StatusPaused, Updated: ahead, Due: ahead.Add(time.Hour)}, now.Add(time.Hour)},
		"parked again since": {snapshot.Info{Status: snapshot.StatusPaused, Updated: ahead, Due: now.Add(time.Hour)}, now.Add(time.Hour)},
		"at a given time":    {snapshot.Info{Status: snapshot.StatusQueued, Created: ahead, Updated: ahead, Due: ahead.Add(time.Hour)}, ahead.Add(time.Hour)},
		"crashed before":     {snapshot.Info{Status: snapshot.StatusInterrupted, Stop: crashed, Updated: now.Add(-time.Hour)}, now.Add(-time.Hour)},
	} {
		due, ok := continuesAt(&c.info, false, now)
		assert.True(t, ok, name)
		assert.Equal(t, c.want, due, name)
	}
	_, ok := continuesAt(&snapshot.Info{Status: snapshot.StatusPaused, Updated: ahead}, false, now)
	assert.False(t, ok, "the run waits for an answer")
}
