package main

import (
	"strconv"
	"strings"
	"time"
)

// parseTime parses the value of a flag: an RFC 3339 time or an age.
func (a *app) parseTime(flag, value string) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, value); err == nil {
		return t, nil
	}
	if d, ok := parseAge(value); ok {
		return a.now().Add(-d), nil
	}
	return time.Time{}, usageErrorf("%s %q: want a time such as 2026-01-31T08:00:00Z, or an age such as 90s, 24h or 7d", flag, printable(value))
}

// maxDays keeps the number of days within the range of time.Duration.
const maxDays = 100_000

// parseAge parses a non-negative duration. It also accepts days of 24 hours.
func parseAge(value string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(value, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		return time.Duration(n) * 24 * time.Hour, err == nil && n <= maxDays
	}
	d, err := time.ParseDuration(value)
	return d, err == nil && d >= 0
}
