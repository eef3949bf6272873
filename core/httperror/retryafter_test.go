package httperror_test

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core/httperror"
)

func headers(values map[string]string) http.Header {
	h := make(http.Header)
	for name, value := range values {
		h.Set(name, value)
	}
	return h
}

func TestRetryAfterIsReadFromTheHeaders(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const ms, plain = "Retry-After-Ms", "Retry-After"
	for _, tt := range []struct {
		name   string
		header map[string]string
		want   time.Duration // 0 for none
	}{
		{"nothing", nil, 0},
		{"seconds", map[string]string{plain: "7"}, 7 * time.Second},
		{"seconds with a fraction", map[string]string{plain: "1.5"}, 1500 * time.Millisecond},
		{"spaces", map[string]string{plain: " 7 "}, 7 * time.Second},
		{"zero", map[string]string{plain: "0"}, 0},
		{"negative", map[string]string{plain: "-7"}, 0},
		{"signed", map[string]string{plain: "+7"}, 0},
		{"word", map[string]string{plain: "soon"}, 0},
		{"unit", map[string]string{plain: "7s"}, 0},
		{"hexadecimal", map[string]string{plain: "0x10"}, 0},
		{"exponent", map[string]string{plain: "1e3"}, 0},
		{"infinite", map[string]string{plain: "Inf"}, 0},
		{"no number", map[string]string{plain: "NaN"}, 0},
		{"point", map[string]string{plain: "."}, 0},
		{"two points", map[string]string{plain: "1.2.3"}, 0},
		{"huge", map[string]string{plain: "99999999999999999999999"}, math.MaxInt64},
		{"milliseconds", map[string]string{ms: "250"}, 250 * time.Millisecond},
		{"milliseconds before seconds", map[string]string{ms: "250", plain: "7"}, 250 * time.Millisecond},
		{"malformed milliseconds", map[string]string{ms: "soon", plain: "7"}, 7 * time.Second},
		{"date", map[string]string{plain: "Sun, 01 Mar 2026 12:01:30 GMT"}, 90 * time.Second},
		{"date of RFC 850", map[string]string{plain: "Sunday, 01-Mar-26 12:01:30 GMT"}, 90 * time.Second},
		{"date of asctime", map[string]string{plain: "Sun Mar  1 12:01:30 2026"}, 90 * time.Second},
		{"past date", map[string]string{plain: "Sun, 01 Mar 2026 11:59:59 GMT"}, 0},
		{"now", map[string]string{plain: "Sun, 01 Mar 2026 12:00:00 GMT"}, 0},
		{"half a date", map[string]string{plain: "Sun, 01 Mar 2026"}, 0},
		{"less than a nanosecond", map[string]string{plain: "0.0000000001"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := httperror.RetryAfter(headers(tt.header), now)
			assert.Equal(t, tt.want, got, "delay")
			assert.Equal(t, tt.want > 0, ok, "ok")
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "7", "1.5", "-1", "soon", "1e9", "Inf", "NaN", "0x1p4", "99999999999999999999", "Sun, 01 Mar 2026 12:01:30 GMT", "Sunday, 01-Mar-26 12:01:30 GMT", "Sun Mar  1 12:01:30 2026"} {
		f.Add(s, "")
		f.Add("", s)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, seconds, milliseconds string) {
		d, ok := httperror.RetryAfter(headers(map[string]string{"Retry-After": seconds, "Retry-After-Ms": milliseconds}), now)
		if ok != (d > 0) {
			t.Errorf("%q, %q: %v, %v; want ok only for delays above 0", seconds, milliseconds, d, ok)
		}
	})
}
