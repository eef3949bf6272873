package httperror

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter returns the delay that a response requests in its headers. It first reads
// Retry-After-Ms, which some LLM services send, and then Retry-After. The value of Retry-After is
// either a number of seconds, possibly with a fraction, or an HTTP date, from which now is
// subtracted. RetryAfter returns false if there is no delay, or if the delay is malformed, zero,
// negative or in the past.
//
// Source: RFC 9110, sections 10.2.3 and 5.6.7.
func RetryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	if d, ok := parseNumber(header.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d, true
	}
	value := header.Get("Retry-After")
	if d, ok := parseNumber(value, time.Second); ok {
		return d, true
	}
	for _, layout := range []string{time.RFC1123, time.RFC850, time.ANSIC} {
		if at, err := time.Parse(layout, strings.TrimSpace(value)); err == nil {
			d := at.Sub(now)
			return max(d, 0), d > 0
		}
	}
	return 0, false
}

// parseNumber parses s as a decimal number of units. If the result is too large, it returns the
// longest Duration.
func parseNumber(s string, unit time.Duration) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(n, 1) || n <= 0 {
		return 0, false
	}
	d := saturate(n * float64(unit))
	return d, d > 0
}

// saturate converts a number of nanoseconds to a Duration. If the number is too large, it returns
// the longest Duration.
func saturate(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}
