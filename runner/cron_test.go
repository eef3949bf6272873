package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCronWhereTheClockChanges checks days on which the clock skips an hour, or
// shows an hour twice.
func TestCronWhereTheClockChanges(t *testing.T) {
	const layout = "02 15:04 -0700"
	for _, c := range []struct {
		zone, cron string
		from       time.Time
		want       []string
	}{
		{"Europe/Berlin", "30 2 * * *", time.Date(2018, 3, 23, 12, 0, 0, 0, time.UTC), []string{"24 02:30 +0100", "26 02:30 +0200", "27 02:30 +0200"}},
		{"Europe/Berlin", "30 2 * * *", time.Date(2018, 10, 26, 12, 0, 0, 0, time.UTC), []string{"27 02:30 +0200", "28 02:30 +0200", "29 02:30 +0100"}},
		{"Europe/Berlin", "0 3 * * *", time.Date(2018, 10, 26, 12, 0, 0, 0, time.UTC), []string{"27 03:00 +0200", "28 03:00 +0100", "29 03:00 +0100"}},
		{"Europe/Berlin", "0 3 * * *", time.Date(2018, 3, 23, 12, 0, 0, 0, time.UTC), []string{"24 03:00 +0100", "25 03:00 +0200", "26 03:00 +0200"}},
		{"Europe/Berlin", "0 * * * *", time.Date(2018, 3, 25, 0, 0, 0, 0, time.UTC), []string{"25 03:00 +0200", "25 04:00 +0200"}},
		{"Europe/Berlin", "0 * * * *", time.Date(2018, 10, 27, 23, 30, 0, 0, time.UTC), []string{"28 02:00 +0200", "28 02:00 +0100", "28 03:00 +0100"}},
		{"Europe/Berlin", "0 */2 * * *", time.Date(2018, 10, 27, 23, 30, 0, 0, time.UTC), []string{"28 02:00 +0200", "28 02:00 +0100", "28 04:00 +0100"}},
		{"Europe/Berlin", "*/30 1-2 * * *", time.Date(2018, 10, 27, 23, 0, 0, 0, time.UTC), []string{"28 01:30 +0200", "28 02:00 +0200", "28 02:30 +0200", "29 01:00 +0100"}},
		{"America/New_York", "0 * * * *", time.Date(2018, 11, 4, 4, 30, 0, 0, time.UTC), []string{"04 01:00 -0400", "04 01:00 -0500", "04 02:00 -0500"}},
		{"America/New_York", "30 1 * * *", time.Date(2018, 11, 3, 12, 0, 0, 0, time.UTC), []string{"04 01:30 -0400", "05 01:30 -0500"}},
		{"Australia/Lord_Howe", "45 1 * * *", time.Date(2018, 3, 31, 0, 0, 0, 0, time.UTC), []string{"01 01:45 +1100", "02 01:45 +1030"}}, // the clock changes by half an hour
		{"Africa/Cairo", "0 0 29 2 *", time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC), []string{"29 00:00 +0200", "29 00:00 +0200"}},
		{"Asia/Kolkata", "@daily", time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC), []string{"02 00:00 +0530", "03 00:00 +0530"}},
		{"Europe/Berlin", "0 0 30 2 *", time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC), []string{"01 00:00 +0000"}}, // there is no such day
	} {
		location, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Skip("no time zones on this system")
		}
		var got []string
		for at := c.from; len(got) < len(c.want); got = append(got, at.Format(layout)) {
			at = nextOfCron(c.cron, location, at)
		}
		assert.Equal(t, c.want, got, "%s %s", c.zone, c.cron)
	}
}

// TestScheduleFollowsAClockThatIsSet checks for which instants runs start while the clock shows a
// sequence of times.
func TestScheduleFollowsAClockThatIsSet(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type look struct {
		clock time.Duration // what the clock shows, as the time since begin
		want  []time.Duration
	}
	hour, minute := time.Hour, time.Minute
	for name, c := range map[string]struct {
		schedule Schedule
		looks    []look
	}{
		"not set": {Schedule{Every: hour}, []look{
			{30 * minute, nil}, {59 * minute, nil}, {hour, []time.Duration{hour}}, {hour, nil}, {2*hour + 30*time.Second, []time.Duration{2 * hour}},
		}},
		"forward, before an instant": {Schedule{Every: hour}, []look{{10 * minute, nil}, {59 * minute, nil}, {hour, []time.Duration{hour}}}},
		"forward, over instants":     {Schedule{Every: hour}, []look{{10 * minute, nil}, {3*hour + 5*minute, nil}, {4 * hour, []time.Duration{4 * hour}}}},
		"forward, with CatchUp": {Schedule{Every: hour, CatchUp: 90 * minute}, []look{
			{10 * minute, []time.Duration{-hour, 0}}, {3*hour + 5*minute, []time.Duration{2 * hour, 3 * hour}},
		}},
		"back": {Schedule{Every: hour}, []look{
			{10 * minute, nil}, {hour, []time.Duration{hour}}, {20 * minute, nil}, {hour, []time.Duration{hour}}, // the same run ID as before
		}},
		"far back, from a wrong time":            {Schedule{Every: hour}, []look{{1000 * hour, []time.Duration{1000 * hour}}, {30 * minute, nil}, {hour, []time.Duration{hour}}}},
		"far back, before the only instant":      {Schedule{At: begin.Add(hour)}, []look{{1000 * hour, nil}, {30 * minute, nil}, {hour, []time.Duration{hour}}, {2 * hour, nil}}},
		"back, after the only instant was early": {Schedule{At: begin.Add(hour)}, []look{{0, nil}, {hour, []time.Duration{hour}}, {hour + 1, nil}}},
	} {
		var p position
		for i, l := range c.looks {
			var got []time.Duration
			for {
				at, wait := p.due(&c.schedule, begin.Add(l.clock))
				if at.IsZero() {
					assert.Positive(t, wait, name)
					assert.LessOrEqual(t, wait, time.Minute, name)
					break
				}
				require.Less(t, len(got), 10, name)
				got = append(got, at.Sub(begin))
				p.advance(&c.schedule, at)
			}
			assert.Equal(t, l.want, got, "%s, look %d", name, i)
		}
	}
}
