package ratelimit

import (
	"net/http"
	"time"

	"github.com/reprise-go/reprise/core/httperror"
)

// Transport returns a transport that sends requests with next and lets the limiter read the headers
// of the responses. It does not modify requests or responses. If next is nil,
// [http.DefaultTransport] is used.
func (l *Limiter) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &transport{l, next}
}

type transport struct {
	limiter *Limiter
	next    http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := time.Now()
	resp, err := t.next.RoundTrip(req)
	if err == nil {
		tk, _ := req.Context().Value(ticketKey{t.limiter}).(*ticket)
		t.limiter.learn(tk, sent, resp.StatusCode, resp.Header)
	}
	return resp, err
}

// Learn updates the limits from the status and headers of a response. It is for clients
// that do not use [Limiter.Transport].
func (l *Limiter) Learn(status int, header http.Header) { l.learn(nil, time.Now(), status, header) }

// learn updates the limits from the response to a request that was sent at sentAt. t is nil if the
// request had no ticket.
func (l *Limiter) learn(t *ticket, sentAt time.Time, status int, header http.Header) {
	now := time.Now()
	found := readings(header, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.blockedUntil
	if after, ok := httperror.RetryAfter(header, now); ok && blocksAll(status) {
		if until := now.Add(min(after, maxReset)); until.After(l.blockedUntil) {
			l.blockedUntil = until
		}
	}
	if len(found) == 0 && l.blockedUntil.Equal(before) {
		return
	}
	for i := range found {
		if lim := l.limit(&found[i]); lim != nil {
			lim.learn(&found[i], l.usedBy(t, lim), sentAt, now)
		}
	}
	if t != nil && len(found) > 0 && !t.reported {
		t.reported = true
		delete(l.sentTickets, t)
		l.count(t, now)
	}
	l.dispatch()
	if l.blockedUntil.Sub(now) > longWait && !l.blockedUntil.Equal(before) || longReset(found) {
		l.wakeDelayed(now)
	}
}

// blocksAll reports whether a Retry-After header in a response with the given status
// applies to all requests.
func blocksAll(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == 529
}

// maxLimits is the maximum number of limits tracked.
const maxLimits = 32

// limit returns the limit for a reading and adds it if necessary. It returns nil if
// there are too many limits.
func (l *Limiter) limit(r *reading) *limit {
	for _, lim := range l.limits {
		if lim.name == r.name {
			return lim
		}
	}
	if len(l.limits) >= maxLimits {
		return nil
	}
	lim := &limit{name: r.name, tokens: r.tokens}
	l.limits = append(l.limits, lim)
	return lim
}

// longWait is the wait above which a run may be parked.
const longWait = 10 * time.Second

func longReset(found []reading) bool {
	for _, r := range found {
		if r.left == 0 && r.resetIn > longWait {
			return true
		}
	}
	return false
}

// wakeDelayed wakes the tickets whose expected wait has become much longer, so that
// their runs can be parked. The caller holds l.mu.
func (l *Limiter) wakeDelayed(now time.Time) {
	for _, t := range l.queue.all() {
		if expected, _ := l.expected(t, now); now.Add(expected).Sub(t.announced) > max(longWait, t.announced.Sub(now)) {
			t.wake()
		}
	}
}
