package core

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAClockAsksAgain: it goes by what it was told for a moment, and then
// notices that it was set.
func TestAClockAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hours := 5 * time.Hour
		var c clock
		c.asked.Store(&timeOfDay{monotonic(), time.Now().Add(-hours).UnixNano()}) // it was set just after

		time.Sleep(trusted) //nolint:forbidigo // of the bubble
		require.Equal(t, time.Now().Add(-hours).UnixNano(), c.unixNano(monotonic()))
		time.Sleep(time.Nanosecond) //nolint:forbidigo // of the bubble
		require.Equal(t, time.Now().UnixNano(), c.unixNano(monotonic()))
		require.Equal(t, time.Now().Add(-trusted).UnixNano(), c.unixNano(monotonic()-instant(trusted)), "an instant before it asked")
	})
}

// TestDeadlineIsTheStartAndTheTimeout: to the nanosecond, whenever it is asked.
func TestDeadlineIsTheStartAndTheTimeout(t *testing.T) {
	for range 100 {
		began := time.Now()
		l := limit{deadline: deadline{start: instantOf(began), length: time.Hour}}
		require.Equal(t, time.Hour, l.Deadline().Sub(began))
	}
}
