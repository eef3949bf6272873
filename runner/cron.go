package runner

import (
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// isCron reports whether expr is a cron expression. It rejects expressions with a field for years.
func isCron(expr string) bool {
	segments, err := gronx.Segments(expr)
	if err != nil || len(segments) > 6 && segments[6] != "*" || len(strings.Fields(expr)) > 6 {
		return false
	}
	return gronx.IsValid(expr)
}

// occurs reports whether a cron expression has any instant. An expression for February 30, for
// example, has none.
func occurs(expr string) bool {
	_, err := gronx.NextTickAfter(expr, time.Unix(0, 0).UTC(), false)
	return err == nil
}

// nextOfCron returns the first instant after t that matches an expression, or the zero Time if
// there is none. It searches one period after another. In each period, the location has a single
// offset from UTC, which the search uses. Therefore, it finds no instant in an hour that is
// skipped. If an hour occurs twice, it finds instants in both occurrences if the expression's hours
// are * or */n, and otherwise only in the first.
func nextOfCron(expr string, location *time.Location, t time.Time) time.Time {
	for range maxPeriods {
		first := t.Add(1).In(location) // the earliest possible instant
		_, offset := first.Zone()
		_, end := first.ZoneBounds()
		next, err := gronx.NextTickAfter(expr, t.In(time.FixedZone("", offset)), false)
		switch {
		case err != nil || !next.After(t):
			return time.Time{}
		case end.IsZero() || next.Before(end):
			return next.In(location)
		}
		// Offsets differ by less than 26 hours, so with another offset the next instant would be
		// less than 26 hours earlier.
		if near := next.Add(-26 * time.Hour); near.After(end) {
			t = near
			continue
		}
		t = end.Add(-1)
		if _, after := end.In(location).Zone(); after < offset && !isHourly(expr) {
			t = t.Add(time.Duration(offset-after) * time.Second)
		}
	}
	return time.Time{}
}

// maxPeriods is the maximum number of periods that are searched. A year has two periods.
const maxPeriods = 200

// isHourly reports whether the expression's field for hours is * or */n.
func isHourly(expr string) bool {
	segments, err := gronx.Segments(expr)
	return err == nil && strings.HasPrefix(segments[2], "*")
}
