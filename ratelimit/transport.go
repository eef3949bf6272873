package ratelimit

import (
	"net/http"
	"time"

	"github.com/reprise-go/reprise/httperror"
)

// Transport returns a transport that sends requests by next and has the limiter
// read the headers of the responses. It changes neither. Nil stands for
// [http.DefaultTransport].
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
		of, _ := req.Context().Value(ticketKey{t.limiter}).(*ticket)
		t.limiter.learn(of, sent, resp.StatusCode, resp.Header)
	}
	return resp, err
}

// Learn takes in the status and the headers of a response, for clients that do not
// use [Limiter.Transport].
func (l *Limiter) Learn(status int, header http.Header) { l.learn(nil, time.Now(), status, header) }

// learn takes in a response to a request that was sent then; the ticket is nil if
// the request had none.
func (l *Limiter) learn(t *ticket, sentAt time.Time, status int, header http.Header) {
	now := time.Now()
	found := readings(header, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.held
	if after, ok := httperror.RetryAfter(header, now); ok && holds(status) {
		if until := now.Add(min(after, longest)); until.After(l.held) {
			l.held = until
		}
	}
	if len(found) == 0 && l.held.Equal(before) {
		return
	}
	for i := range found {
		if lim := l.limit(&found[i]); lim != nil {
			lim.learn(&found[i], l.usedBy(t, lim), sentAt, now)
		}
	}
	if t != nil && len(found) > 0 && !t.heard {
		t.heard = true
		l.count(t, now)
	}
	l.dispatch()
	if l.held.Sub(now) > long && !l.held.Equal(before) || longReset(found) {
		l.lookAgain(now)
	}
}

// holds reports whether all requests have to wait if a response with that status
// asks for a delay.
func holds(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == 529
}

// maxLimits is how many limits of a service are kept.
const maxLimits = 32

// limit returns the limit that a reading is of; nil if there are too many.
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

// long is from when on a wait may be worth parking a run for.
const long = 10 * time.Second

func longReset(found []reading) bool {
	for _, r := range found {
		if r.left == 0 && r.resetIn > long {
			return true
		}
	}
	return false
}

// lookAgain has those ask anew for how long they wait for which it is much longer
// than they know: it may be a reason to park their runs. The lock is held.
func (l *Limiter) lookAgain(now time.Time) {
	for _, t := range l.queue.all() {
		if expected, _ := l.expected(t, now); now.Add(expected).Sub(t.told) > max(long, t.told.Sub(now)) {
			t.wake()
		}
	}
}
