package ratelimit

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestHeadersOfServicesAreRead(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	requests := func(r reading) reading { r.name = "requests"; return r }
	for name, c := range map[string]struct {
		header map[string]string
		want   []reading
	}{
		"nothing": {map[string]string{"Content-Type": "text/plain"}, nil},
		"openai": {
			map[string]string{
				"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": "1s",
				"x-ratelimit-limit-tokens": "150000", "x-ratelimit-remaining-tokens": "149984", "x-ratelimit-reset-tokens": "6m0s",
			},
			[]reading{
				requests(reading{limit: 60, left: 59, resetIn: time.Second, period: time.Minute}),
				{name: "tokens", tokens: true, limit: 150000, left: 149984, resetIn: 6 * time.Minute, period: time.Minute},
			},
		},
		"azure": {
			map[string]string{"x-ratelimit-remaining-requests": "9"},
			[]reading{requests(reading{left: 9, period: time.Minute})},
		},
		"anthropic": {
			map[string]string{
				"anthropic-ratelimit-input-tokens-limit": "40000", "anthropic-ratelimit-input-tokens-remaining": "39000",
				"anthropic-ratelimit-input-tokens-reset": "2026-03-01T12:00:30Z",
			},
			[]reading{{name: "input-tokens", tokens: true, limit: 40000, left: 39000, resetIn: 30 * time.Second, period: time.Minute}},
		},
		"window in the name": {
			map[string]string{"x-ratelimit-limit-requests-day": "1000", "x-ratelimit-remaining-requests-day": "0", "x-ratelimit-reset-requests-day": "33011.5"},
			[]reading{{name: "requests-day", limit: 1000, left: 0, resetIn: 33011*time.Second + 500*time.Millisecond, period: 24 * time.Hour}},
		},
		"without a name, in milliseconds since 1970": {
			map[string]string{"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1772366430000"},
			[]reading{{limit: 20, left: 0, resetIn: 30 * time.Second}},
		},
		"in seconds since 1970": {
			map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1772366430"},
			[]reading{{left: 0, resetIn: 30 * time.Second}},
		},
		"days": {
			map[string]string{"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1d2h"},
			[]reading{{name: "tokens", tokens: true, left: 0, resetIn: 26 * time.Hour, period: time.Minute}},
		},
		"draft": {
			map[string]string{"RateLimit-Policy": `"burst";q=100;w=60,"daily";q=1000;w=86400`, "RateLimit": `"burst";r=50;t=30,"daily";r=900;t=4000`},
			[]reading{
				{name: "burst", limit: 100, left: 50, resetIn: 30 * time.Second, period: time.Minute},
				{name: "daily", limit: 1000, left: 900, resetIn: 4000 * time.Second, period: 24 * time.Hour},
			},
		},
		"draft with a unit": {
			map[string]string{"RateLimit-Policy": `"a";q=100;qu="tokens";w=1`},
			[]reading{{name: "a", tokens: true, limit: 100, left: -1, period: time.Second}},
		},
		"older draft": {
			map[string]string{"RateLimit": "limit=100, remaining=50, reset=5"},
			[]reading{{limit: 100, left: 50, resetIn: 5 * time.Second}},
		},
		"oldest draft": {
			map[string]string{"RateLimit-Limit": "100, 100;w=60", "RateLimit-Remaining": "50", "RateLimit-Reset": "5"},
			[]reading{{limit: 100, left: 50, resetIn: 5 * time.Second, period: time.Minute}},
		},
		"a limit of zero": {map[string]string{"x-ratelimit-limit-requests": "0", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1h"}, nil},
		"malformed": {
			map[string]string{
				"x-ratelimit-limit-requests": "many", "x-ratelimit-remaining-requests": "-3", "x-ratelimit-reset-requests": "soon",
				"x-ratelimit-limit-tokens": "1e400", "x-ratelimit-remaining-tokens": "NaN", "RateLimit": ";;=,=;q;", "RateLimit-Policy": `"a";w=-1;q=x`,
			}, nil,
		},
		"a reset that is past or absurd": {
			map[string]string{"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "2025-03-01T12:00:00Z", "x-ratelimit-remaining": "1", "x-ratelimit-reset": "9999d"},
			[]reading{{left: 1}, requests(reading{left: 1, period: time.Minute})},
		},
	} {
		t.Run(name, func(t *testing.T) {
			header := make(http.Header)
			for key, value := range c.header {
				header.Set(key, value)
			}
			assert.Equal(t, c.want, readings(header, now))
		})
	}
}

func FuzzReadings(f *testing.F) {
	f.Add("x-ratelimit-limit-requests", "60", "x-ratelimit-reset-requests", "6m0s")
	f.Add("RateLimit", `"a";r=50;t=30`, "RateLimit-Policy", `"a";q=100;w=60`)
	f.Add("X-RateLimit-Reset", "1772366430000", "X-RateLimit-Remaining", "0")
	f.Add("anthropic-ratelimit-requests-reset", "2026-03-01T12:00:30Z", "anthropic-ratelimit-requests-remaining", "1e3")
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		for _, r := range readings(http.Header{http.CanonicalHeaderKey(name1): {value1}, http.CanonicalHeaderKey(name2): {value2}}, now) {
			if r.limit < 0 || r.left < -1 || r.resetIn < 0 || r.resetIn > maxReset || r.period < 0 || r.period > maxReset {
				t.Errorf("%q: %q, %q: %q: %+v", name1, value1, name2, value2, r)
			}
		}
	})
}
