package ratelimit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A limit is one of the service's limits, on requests or on tokens.
//
// Two conditions bound what may be sent. First, if the length of the window is known, no period of
// that length may contain more than the limit. This is sufficient for services with fixed windows,
// sliding windows or token buckets. Second, the service reports how much is left until the next
// reset. The report includes the usage of other processes, but does not yet include the requests in
// flight.
type limit struct {
	name   string
	tokens bool
	size   float64       // 0 if unknown
	period time.Duration // 0 if unknown

	left      float64   // what the service says is left before the reset at time until
	until     time.Time // zero if the service has not reported anything
	since     time.Time // send time of the request whose response reported until
	exclusive bool      // only this limiter uses the limit

	total float64 // cost of all requests ever sent

	log []*sentRequest // requests that the service has counted, sorted by time
	sum float64        // sum of their costs

	isShared    bool
	others      []sentRequest // what others have used, sorted by time; only for a shared limit
	othersUntil time.Time     // time at which others must be read again
}

// A sentRequest is a request that the service has counted.
type sentRequest struct {
	at      time.Time
	cost    float64
	expired bool // no longer in the window
}

// maxLogged is the longest window for which requests are logged. For longer windows, only the
// service's report is used.
const maxLogged = time.Hour

func (l *limit) isLogged() bool { return l.size > 0 && l.period > 0 && l.period <= maxLogged }

// costOf returns the cost of a ticket. The cost is at most the whole limit, since a larger request
// is sent when the whole limit is available.
func (l *limit) costOf(t *ticket) float64 {
	cost := 1.0
	if l.tokens {
		cost = t.tokens
	}
	if l.size > 0 {
		cost = min(cost, l.size)
	}
	return cost
}

// waitFor returns how long a request with the given cost has to wait, or 0 if it may be sent now.
// inFlight is the cost of the requests that are not logged yet. unreported is the cost of the
// requests that the service's report does not include.
func (l *limit) waitFor(cost, inFlight, unreported float64, now time.Time) time.Duration {
	l.dropExpired(now)
	return max(l.waitForService(cost, unreported, now), l.waitForWindow(cost, inFlight, now))
}

func (l *limit) waitForService(cost, unreported float64, now time.Time) time.Duration {
	switch {
	case l.exclusive && l.isLogged():
		return 0
	case now.Before(l.until) && l.left-unreported < cost:
		return l.until.Sub(now)
	case now.Before(l.until) || l.isLogged() || l.size == 0 || unreported == 0 || unreported+cost <= l.size:
		return 0
	}
	return recheckInterval // the limit has been reset, but the requests sent since use all of it
}

func (l *limit) waitForWindow(cost, inFlight float64, now time.Time) time.Duration {
	if !l.isLogged() {
		return 0
	}
	others := l.othersNow(now)
	over := l.sum + inFlight + cost - l.size + l.othersSum(now)
	if over <= epsilon {
		return 0
	}
	wait := recheckInterval // until requests in flight have arrived
	for own, n := l.log, 0; len(own) > 0 || n < len(others); {
		var s sentRequest
		if n == len(others) || len(own) > 0 && !own[0].at.After(others[n].at) {
			s, own = *own[0], own[1:]
		} else {
			s, n = others[n], n+1
		}
		if over -= s.cost; over <= epsilon {
			wait = s.at.Add(l.period).Sub(now)
			break
		}
	}
	if len(others) > 0 {
		wait = min(wait, l.othersUntil.Sub(now))
	}
	return max(wait, time.Millisecond)
}

// othersNow returns what others have used in the window, or nil if their usage must be read again.
func (l *limit) othersNow(now time.Time) []sentRequest {
	if !now.Before(l.othersUntil) {
		return nil
	}
	n := 0
	for n < len(l.others) && now.Sub(l.others[n].at) >= l.period {
		n++
	}
	return l.others[n:]
}

func (l *limit) othersSum(now time.Time) (sum float64) {
	for _, s := range l.othersNow(now) {
		sum += s.cost
	}
	return sum
}

const (
	epsilon         = 1e-6 // rounding error of floating-point sums
	recheckInterval = time.Second
)

// dropExpired removes the requests that are no longer in the window.
func (l *limit) dropExpired(now time.Time) {
	n := 0
	for n < len(l.log) && (!l.isLogged() || now.Sub(l.log[n].at) >= l.period) {
		l.sum -= l.log[n].cost
		l.log[n].expired = true
		n++
	}
	l.log = l.log[n:]
	if len(l.log) == 0 {
		l.sum = 0
	}
}

// add logs a request. It returns nil if requests are not logged for this limit.
func (l *limit) add(at time.Time, cost float64) *sentRequest {
	if !l.isLogged() {
		return nil
	}
	if n := len(l.log); n > 0 && at.Before(l.log[n-1].at) {
		at = l.log[n-1].at
	}
	s := &sentRequest{at: at, cost: cost}
	l.log, l.sum = append(l.log, s), l.sum+cost
	return s
}

// correct sets the actual cost of a logged request.
func (l *limit) correct(s *sentRequest, cost float64) {
	if !s.expired {
		l.sum += cost - s.cost
		s.cost = cost
	}
}

// sameReset is the maximum difference between two reported times of the same reset.
const sameReset = 500 * time.Millisecond

// learn updates the limit from a response to a request that was sent at sentAt. own is an upper
// bound for what this limiter had used in the window when the service answered.
func (l *limit) learn(r *reading, own float64, sentAt, now time.Time) {
	if r.limit > 0 {
		l.size = r.limit
	}
	if r.period > 0 {
		l.period = r.period
	}
	if r.left < 0 {
		return
	}
	until := now.Add(r.resetIn)
	if r.resetIn == 0 {
		until = now.Add(recheckInterval)
	}
	switch {
	case now.After(l.until), until.After(l.until.Add(sameReset)): // a new window, or a bucket that was used since
		l.left, l.until, l.since = r.left, until, sentAt
		l.exclusive = l.size-r.left <= own+epsilon
	case !sentAt.Before(l.since): // responses arrive in any order, and what is left only decreases
		l.left = min(l.left, r.left)
		l.exclusive = l.exclusive && l.size-r.left <= own+epsilon
	}
}

// String returns a description such as "60 requests in 1m0s".
func (l *limit) String() string {
	unit := "requests"
	if l.tokens {
		unit = "tokens"
	}
	if l.size == 1 {
		unit = strings.TrimSuffix(unit, "s")
	}
	switch {
	case l.size == 0:
		return unit
	case l.period == 0:
		return strconv.FormatFloat(l.size, 'f', -1, 64) + " " + unit
	}
	return fmt.Sprintf("%s %s in %v", strconv.FormatFloat(l.size, 'f', -1, 64), unit, l.period)
}
