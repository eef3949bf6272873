package core

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/record"
)

// WithRetryAfter gives err the time that a service asked to be left alone
// for: a floor under the delay before the next attempt, neither jittered nor
// clipped to MaxDelay. It does not make err retryable. A nil err stays nil.
func WithRetryAfter(err error, d time.Duration) error {
	if err == nil || d <= 0 {
		return err
	}
	return &retryAfterError{err, d}
}

type retryAfterError struct {
	error
	after time.Duration
}

func (e *retryAfterError) Unwrap() error             { return e.error }
func (e *retryAfterError) RetryAfter() time.Duration { return e.after }

// RetryAfter finds the delay that a service asked for in an error: the first
// in its chain that has a method RetryAfter() time.Duration. What is not
// above zero counts as nothing asked.
func RetryAfter(err error) (time.Duration, bool) {
	after := record.Inspect(err).RetryAfter
	return after, after > 0
}

// ParseRetryAfter reads the delay that a response asks for from its headers;
// get is http.Header.Get of the response. Retry-After-Ms (milliseconds, as
// some LLM services send it) is read first, then Retry-After: seconds, with a
// fraction if need be, or an HTTP date, which is taken relative to now.
// Nothing, or what is malformed, negative or past, is false.
//
// Source: RFC 9110, sections 10.2.3 and 5.6.7.
func ParseRetryAfter(get func(header string) string, now time.Time) (time.Duration, bool) {
	if d, ok := parseNumber(get("Retry-After-Ms"), time.Millisecond); ok {
		return d, true
	}
	value := get("Retry-After")
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

// parseNumber reads a decimal number of units, saturating.
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

// saturate keeps a number of nanoseconds within a Duration.
func saturate(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}
