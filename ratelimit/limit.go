package ratelimit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A limit is one limit of the service, on requests or on tokens.
//
// Two things bound what may be sent. If the length of the window is known, no span
// of that length may have more in it than the limit: that is enough for services
// with fixed and with sliding windows, and for those that refill a bucket. And the
// service says how much is left until when, which counts what others have used;
// requests under way are not in that yet.
type limit struct {
	name   string
	tokens bool
	size   float64       // 0 if it is not known
	period time.Duration // 0 if it is not known

	left  float64   // according to the service, until then
	until time.Time // zero if the service has said nothing
	since time.Time // when the request was sent whose response told until
	alone bool      // what is not left was used by this limiter

	total float64 // of the costs of all requests that were ever sent

	log []*sent // requests that the service has counted, by time
	sum float64 // of their costs
}

// sent is a request that the service has counted.
type sent struct {
	at   time.Time
	cost float64
	gone bool // it is out of the window
}

// maxLogged is the longest window for which requests are logged. For longer ones
// the word of the service has to do.
const maxLogged = time.Hour

func (l *limit) isLogged() bool { return l.size > 0 && l.period > 0 && l.period <= maxLogged }

// costOf returns what a ticket costs. One that is above the whole limit is sent
// when all of it is there.
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

// waitFor returns how long a request of that cost has to wait; 0 for not.
func (l *limit) waitFor(cost, flying float64, now time.Time) time.Duration {
	l.forget(now)
	return max(l.waitForService(cost, flying, now), l.waitForWindow(cost, flying, now))
}

func (l *limit) waitForService(cost, flying float64, now time.Time) time.Duration {
	switch {
	case l.alone && l.isLogged():
		return 0
	case now.Before(l.until) && l.left-flying < cost:
		return l.until.Sub(now)
	case now.Before(l.until) || l.isLogged() || l.size == 0 || flying == 0 || flying+cost <= l.size:
		return 0
	}
	return recheck // all of it is there again, and under way
}

func (l *limit) waitForWindow(cost, flying float64, now time.Time) time.Duration {
	if !l.isLogged() {
		return 0
	}
	over := l.sum + flying + cost - l.size
	for _, s := range l.log {
		if over <= slack {
			break
		}
		over -= s.cost
		if over <= slack {
			return s.at.Add(l.period).Sub(now)
		}
	}
	if over > slack { // those under way have to end first
		return recheck
	}
	return 0
}

const (
	slack   = 1e-6 // of sums of floating point numbers
	recheck = time.Second
)

// forget drops the requests that are out of the window.
func (l *limit) forget(now time.Time) {
	n := 0
	for n < len(l.log) && (!l.isLogged() || now.Sub(l.log[n].at) >= l.period) {
		l.sum -= l.log[n].cost
		l.log[n].gone = true
		n++
	}
	l.log = l.log[n:]
	if len(l.log) == 0 {
		l.sum = 0
	}
}

// add logs a request.
func (l *limit) add(at time.Time, cost float64) *sent {
	if !l.isLogged() {
		return nil
	}
	if n := len(l.log); n > 0 && at.Before(l.log[n-1].at) {
		at = l.log[n-1].at
	}
	s := &sent{at: at, cost: cost}
	l.log, l.sum = append(l.log, s), l.sum+cost
	return s
}

// correct sets what a logged request has cost.
func (l *limit) correct(s *sent, cost float64) {
	if !s.gone {
		l.sum += cost - s.cost
		s.cost = cost
	}
}

// sameReset is by how much the times of a reset differ that mean the same one.
const sameReset = 500 * time.Millisecond

// learn takes in what the response to a request says that was sent then. Own is what
// this limiter may have used of the window by then, at most.
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
		until = now.Add(recheck)
	}
	switch {
	case now.After(l.until), until.After(l.until.Add(sameReset)): // of a new window, or of a bucket that was used since
		l.left, l.until, l.since = r.left, until, sentAt
		l.alone = l.size-r.left <= own+slack
	case !sentAt.Before(l.since): // responses come in any order, and what is left only falls
		l.left = min(l.left, r.left)
		l.alone = l.alone && l.size-r.left <= own+slack
	}
}

// String names the limit, such as "60 requests in 1m0s".
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
