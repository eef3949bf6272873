package openai

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/core/httperror"
)

// retryAfter returns the delay that a failed response asks for in the Retry-After header, in the
// body, or, for a 429, in rate limit headers.
func retryAfter(e *Error, header http.Header, now time.Time) (time.Duration, bool) {
	if d, ok := httperror.RetryAfter(header, now); ok {
		return d, true
	}
	switch {
	case e == nil:
		return 0, false
	case e.delay > 0:
		return e.delay, true
	case e.Status == http.StatusTooManyRequests:
		return limitReset(header, now)
	}
	return 0, false
}

// limitReset returns the time until the exhausted limit is reset: the latest reset among the limits
// with nothing left or, if there are no such limits, the earliest reset of all.
func limitReset(header http.Header, now time.Time) (time.Duration, bool) {
	var latest, earliest time.Duration
	for name, values := range header {
		name = strings.ToLower(name)
		if !strings.Contains(name, "ratelimit") || !strings.Contains(name, "reset") || len(values) == 0 {
			continue
		}
		d, ok := parseReset(values[0], now)
		if !ok {
			continue
		}
		if left := header.Get(strings.Replace(name, "reset", "remaining", 1)); left == "0" {
			latest = max(latest, d)
		}
		if earliest == 0 || d < earliest {
			earliest = d
		}
	}
	if latest > 0 {
		return latest, true
	}
	return earliest, earliest > 0
}

// parseReset parses the time until a reset: a duration such as "6m0s" or "1d2h", a
// number of seconds, a Unix time in seconds or milliseconds, or an RFC 3339 time.
func parseReset(text string, now time.Time) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		switch {
		case n <= 0 || n > 1e15:
			return 0, false
		case n > 1e11:
			return untilTime(time.UnixMilli(int64(n)), now)
		case n > 1e8:
			return untilTime(time.Unix(int64(n), 0), now)
		}
		return time.Duration(n * float64(time.Second)), true
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return untilTime(at, now)
	}
	var days time.Duration
	if before, rest, found := strings.Cut(text, "d"); found {
		n, err := strconv.ParseFloat(before, 64)
		if err != nil || n < 0 || n > 365 {
			return 0, false
		}
		days, text = time.Duration(n*24*float64(time.Hour)), rest
	}
	if text == "" {
		return days, days > 0
	}
	d, err := time.ParseDuration(text)
	return days + d, err == nil && d >= 0 && days+d > 0
}

func untilTime(at, now time.Time) (time.Duration, bool) {
	d := at.Sub(now)
	return d, d > 0
}
