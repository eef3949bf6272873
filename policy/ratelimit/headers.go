package ratelimit

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A reading is the information about one limit in a response.
type reading struct {
	name   string // such as "requests"
	tokens bool   // a limit on tokens, not on requests

	limit     float64       // 0 if unknown
	period    time.Duration // window of the limit; 0 if unknown
	left      float64       // negative if unknown
	resetIn   time.Duration // time until the limit is fully available; 0 if unknown
	unlimited bool          // the limit is given as 0, which for some services means no limit
}

// maxReset is the longest accepted time until a reset.
const maxReset = 32 * 24 * time.Hour

// readings returns the limits that the headers describe, sorted by name. Malformed values are
// ignored.
func readings(header http.Header, now time.Time) []reading {
	found := make(map[string]*reading)
	get := func(name string) *reading {
		if found[name] == nil {
			found[name] = &reading{name: name, left: -1, tokens: strings.Contains(name, "token")}
		}
		return found[name]
	}
	for field, values := range header {
		field = strings.ToLower(field)
		if len(values) == 0 || !strings.Contains(field, "ratelimit") {
			continue
		}
		if value := strings.Join(values, ","); field == "ratelimit" || field == "ratelimit-policy" {
			readDraft(value, get)
		} else if kind, name, period := splitHeaderName(field); kind != "" {
			r := get(name)
			r.period = max(r.period, period)
			readField(r, kind, value, now)
		}
	}
	var all []reading
	for _, r := range found {
		if !r.unlimited && (r.limit > 0 || r.left >= 0) {
			all = append(all, *r)
		}
	}
	slices.SortFunc(all, func(a, b reading) int { return strings.Compare(a.name, b.name) })
	return all
}

// periods maps the words for windows in header names to the length of each window.
var periods = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour,
}

// splitHeaderName splits the name of a header such as anthropic-ratelimit-input-tokens-remaining.
// kind is "limit", "remaining", "reset", or empty.
func splitHeaderName(field string) (kind, name string, period time.Duration) {
	var rest []string
	for word := range strings.SplitSeq(field, "-") {
		switch word {
		case "remaining", "reset":
			kind = word
		case "limit":
			if kind == "" {
				kind = word
			}
		case "x", "ratelimit", "anthropic":
		default:
			rest = append(rest, word)
			period = max(period, periods[word])
		}
	}
	name = strings.Join(rest, "-")
	if period == 0 && (strings.Contains(name, "requests") || strings.Contains(name, "tokens")) {
		period = time.Minute // the usual default of services
	}
	return kind, name, period
}

func readField(r *reading, kind, value string, now time.Time) {
	first, params, _ := strings.Cut(value, ";")
	first, _, _ = strings.Cut(first, ",")
	switch kind {
	case "limit":
		if n, ok := number(first); ok {
			r.limit, r.unlimited = n, n == 0
		}
		if _, w, ok := strings.Cut(params, "w="); ok { // "100, 100;w=60"
			r.setWindow(w)
		}
	case "remaining":
		if n, ok := number(first); ok {
			r.left = n
		}
	case "reset":
		if d, ok := parseReset(first, now); ok {
			r.resetIn = d
		}
	}
}

func (r *reading) setWindow(seconds string) {
	seconds = strings.TrimRight(strings.TrimSpace(seconds), ",; ")
	if n, ok := number(seconds); ok && n > 0 && n <= maxReset.Seconds() {
		r.period = time.Duration(n * float64(time.Second))
	}
}

// readDraft reads RateLimit and RateLimit-Policy headers: items such as
// "default";r=50;t=30 or, in older drafts, limit=100, remaining=50, reset=5.
func readDraft(value string, get func(name string) *reading) {
	for item := range strings.SplitSeq(value, ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(item), ";")
		if strings.Contains(name, "=") {
			name, params = "", item
		}
		r := get(strings.ToLower(strings.Trim(name, `" `)))
		for param := range strings.SplitSeq(params, ";") {
			key, text, _ := strings.Cut(strings.TrimSpace(param), "=")
			n, ok := number(text)
			switch {
			case key == "w":
				r.setWindow(text)
			case key == "qu":
				r.tokens = r.tokens || strings.Contains(text, "token")
			case !ok:
			case key == "q" || key == "limit":
				r.limit, r.unlimited = n, n == 0
			case key == "r" || key == "remaining":
				r.left = n
			case (key == "t" || key == "reset") && n <= maxReset.Seconds():
				r.resetIn = time.Duration(n * float64(time.Second))
			}
		}
	}
}

// number parses a non-negative number.
func number(text string) (float64, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return n, err == nil && n >= 0 && n < 1e15
}

// parseReset parses the time until a limit is reset: a number of seconds, a duration
// such as "6m0s" or "1d2h", a Unix time in seconds or milliseconds, or an RFC 3339
// time.
func parseReset(text string, now time.Time) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		switch {
		case math.IsNaN(n) || n <= 0 || n > 1e15:
			return 0, false
		case n > 1e11:
			return checkReset(time.UnixMilli(int64(n)).Sub(now))
		case n > 1e8:
			return checkReset(time.Unix(int64(n), 0).Sub(now))
		}
		return checkReset(time.Duration(n * float64(time.Second)))
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return checkReset(at.Sub(now))
	}
	var days time.Duration
	if before, rest, found := strings.Cut(text, "d"); found {
		n, ok := number(before)
		if !ok || n > 365 {
			return 0, false
		}
		days, text = time.Duration(n*24*float64(time.Hour)), rest
	}
	if text == "" {
		return checkReset(days)
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, false
	}
	return checkReset(days + d)
}

func checkReset(d time.Duration) (time.Duration, bool) { return d, d > 0 && d <= maxReset }
