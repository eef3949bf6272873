package streamer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/record"
)

func TestHistoryCountsRecordsAfterAClockWasSetBack(t *testing.T) {
	began := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	h := newHistory(began)
	take := func(at, now time.Time) {
		h.take(&record.Record{Seq: 1, Kind: record.KindTool, Status: record.StatusStarted, Time: at}, now)
	}
	count := func(now time.Time) (n int) {
		for _, m := range h.read(now).Minutes {
			n += m.Attempts
		}
		return n
	}
	take(began.Add(time.Hour), began) // from a process whose clock is ahead
	take(began, began)
	assert.Equal(t, 2, count(began))
	now := began
	for range 120 {
		now = now.Add(time.Minute)
		take(now, now)
	}
	assert.Equal(t, 60, count(now))
	take(now.Add(-time.Minute), now)
	assert.Equal(t, 61, count(now), "a record may arrive late")
	take(now.Add(-time.Hour), now)
	assert.Equal(t, 61, count(now), "but not later than an hour")

	now = began.Add(-90 * time.Minute) // the clock was set back to before the beginning
	for range 60 {
		now = now.Add(time.Minute)
		take(now, now)
	}
	assert.Equal(t, 60, count(now))
	assert.Equal(t, began.Add(-89*time.Minute), h.read(now).Since)
}
