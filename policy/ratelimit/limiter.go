package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/policy/budget"
)

// Options configure a [Limiter].
type Options struct {
	// Name is the name of the service, used in log lines. Required.
	Name string

	// Requests and Tokens are the service's limits per minute. Set them if the service
	// does not report its limits in headers; reported limits take precedence. By
	// default there is no limit until a header reports one.
	Requests, Tokens int

	// EstimateTokens returns an estimate of the number of tokens of a call. Its argument is the
	// encoded input of the call, which must not be modified. The default estimate is based on the
	// length of the input and the usage of earlier calls.
	EstimateTokens func(input []byte) int

	// Storage, if set, makes the limiters of several processes share Requests and Tokens; at least
	// one of these is then required. The limiters must have the same name. A budget.Dir works for
	// processes on one machine. The clocks must agree to within a second. If the storage fails,
	// calls wait until it works again.
	Storage budget.Storage
}

// A Limiter delays attempts until the limits of a service allow them. Each delay is logged and is
// recorded as the attempt's attribute "paced". A delay is not an attempt and does not count against
// the attempt timeout. It ends if the run is interrupted. A long delay, such as for a daily limit,
// parks the run (state.WithParking); see [core.CallInfo.WaitFor].
//
// If several runs wait, they take turns, however many calls each makes at once. Calls of the same
// run are served in order of arrival.
//
// A call counts for one period of the limit after it is sent, even if the call takes longer: first
// with its estimated tokens and, once it has ended, with its actual usage. A call whose estimate
// exceeds the whole limit is made when the whole limit is available.
//
// A Limiter is safe for concurrent use. Create one with [New].
type Limiter struct {
	name     string
	estimate func([]byte) int
	shared   *sharedState // nil without a storage

	mu           sync.Mutex
	limits       []*limit
	blockedUntil time.Time            // no requests before this time, at the service's request
	sentTickets  map[*ticket]struct{} // requests that have neither ended nor been reported

	blockedByStorage time.Time // no requests before this time, since the storage failed

	queue   queue
	timer   *time.Timer
	perByte float64 // average number of tokens per byte of input; 0 if unknown
}

// New returns a limiter. It panics if an option is out of range.
func New(o Options) *Limiter {
	must := func(ok bool, field string, value any, allowed string) {
		if !ok {
			panic(fmt.Sprintf("ratelimit: Options.%s is %v; want %s", field, value, allowed))
		}
	}
	must(core.CheckName(o.Name) == nil, "Name", fmt.Sprintf("%q", o.Name), "1 to 128 bytes of printable text")
	must(o.Requests >= 0, "Requests", o.Requests, "1 or more per minute, or 0 to use what the service reports")
	must(o.Tokens >= 0, "Tokens", o.Tokens, "1 or more per minute, or 0 to use what the service reports")
	must(o.Storage == nil || o.Requests > 0 || o.Tokens > 0, "Storage", "set without a limit", "Requests or Tokens, which it shares")
	l := &Limiter{name: o.Name, estimate: o.EstimateTokens, sentTickets: make(map[*ticket]struct{}), shared: newShared(o.Name, o.Storage)}
	if o.Requests > 0 {
		l.limits = append(l.limits, &limit{name: "requests", size: float64(o.Requests), period: time.Minute, isShared: o.Storage != nil})
	}
	if o.Tokens > 0 {
		l.limits = append(l.limits, &limit{name: "tokens", tokens: true, size: float64(o.Tokens), period: time.Minute, isShared: o.Storage != nil})
	}
	return l
}

// Interceptor returns an interceptor that delays attempts.
func (l *Limiter) Interceptor() core.Interceptor { return core.Interceptor{Attempt: l.attempt} }

// ticketKey is the context key for a request's ticket.
type ticketKey struct{ limiter *Limiter }

func (l *Limiter) attempt(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
	t, err := l.newTicket(call)
	if err != nil {
		return err
	}
	began := time.Now()
	for reserved := false; !reserved; {
		for !l.enter(t) {
			ready, expected, why := l.waitInfo(t)
			if err := call.WaitFor(ctx, ready, expected, why); err != nil {
				l.leave(t)
				return err
			}
		}
		if reserved, err = l.reserve(ctx, t); err != nil {
			l.leave(t)
			return err
		}
	}
	if paced := time.Since(began).Round(time.Millisecond); paced > 0 {
		call.Annotate("paced", paced.String())
	}
	err = errGoexit // replaced when next returns
	defer func() {
		l.finish(t, call.Usage().TotalTokens(), err)
		l.settle(ctx, t)
	}()
	err = next(context.WithValue(ctx, ticketKey{l}, t))
	return err
}

var errGoexit = errors.New("ratelimit: the handler called runtime.Goexit")

// A ticket is an attempt that is waiting or in progress.
type ticket struct {
	run    string
	size   int     // size of the input, in bytes
	tokens float64 // estimated, later actual number of tokens

	granted   bool
	sent      time.Time        // zero if the request has not been sent yet
	reported  bool             // a response has reported what is left after this request
	reserved  reservation      // what was added to the storage for the ticket
	shares    map[*limit]share // its share of each limit that was known when the ticket was sent
	ready     chan struct{}    // closed when the ticket is granted or should check again; nil before it waits
	announced time.Time        // the expected time of its turn, as last announced
}

// A share is the part of a limit that a ticket uses.
type share struct {
	own, total float64      // amount used in the window and in total when the ticket was sent, including the ticket
	sent       *sentRequest // set when the request is counted; nil if it is not logged
}

// maxTransit is the maximum time that a request is assumed to take to reach the
// service, which counts the request when it arrives.
const maxTransit = time.Second

// hasArrived reports whether the service has counted the request by the given time.
func (t *ticket) hasArrived(by time.Time) bool {
	return !t.sent.IsZero() && !t.sent.Add(maxTransit).After(by)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// wake closes t.ready unless it is closed.
func (t *ticket) wake() {
	if !isClosed(t.ready) {
		close(t.ready)
	}
}

func (l *Limiter) newTicket(call *core.CallInfo) (*ticket, error) {
	t := &ticket{run: call.RunID}
	l.mu.Lock()
	counts, perByte := slices.ContainsFunc(l.limits, func(l *limit) bool { return l.tokens }), l.perByte
	l.mu.Unlock()
	if !counts {
		return t, nil
	}
	input, err := call.Input()
	if err != nil {
		return nil, err
	}
	if t.size = len(input); l.estimate != nil {
		t.tokens = float64(max(0, l.estimate(input)))
		return t, nil
	}
	if perByte == 0 {
		perByte = 0.3 // a typical value for a text together with its answer
	}
	t.tokens = perByte * float64(t.size)
	return t, nil
}

// enter reports whether the ticket is granted. If not, the ticket is in the queue.
func (l *Limiter) enter(t *ticket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.granted {
		return true
	}
	if t.ready == nil {
		l.queue.push(t)
	}
	if t.ready == nil || isClosed(t.ready) {
		t.ready = make(chan struct{})
	}
	l.dispatch()
	return t.granted
}

// waitInfo returns a channel to wait on, the expected wait, and its reason.
func (l *Limiter) waitInfo(t *ticket) (ready <-chan struct{}, expected time.Duration, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	expected, why = l.expected(t, now)
	t.announced = now.Add(expected)
	return t.ready, expected, fmt.Sprintf("the %q limit of %s", l.name, why)
}

// expected returns how long a queued ticket is expected to wait, and for which limit.
// The caller holds l.mu.
func (l *Limiter) expected(t *ticket, now time.Time) (expected time.Duration, why string) {
	expected, why = l.waitForLimits(l.queue.first(), now)
	requests, tokens := l.queue.before(t)
	var more time.Duration
	for _, lim := range l.limits {
		if lim.size == 0 || lim.period == 0 {
			continue
		}
		ahead := requests
		if lim.tokens {
			ahead = tokens
		}
		more = max(more, time.Duration(float64(lim.period)*ahead/lim.size))
	}
	return max((expected + more).Round(time.Millisecond), time.Millisecond), why
}

// waitForLimits returns how long a ticket at the head of the queue has to wait, and for which
// limit. The caller holds l.mu.
func (l *Limiter) waitForLimits(t *ticket, now time.Time) (wait time.Duration, why string) {
	if t == nil {
		return 0, "its turn"
	}
	wait, why = max(0, l.blockedUntil.Sub(now)), "requests (by Retry-After)"
	if d := l.blockedByStorage.Sub(now); d > wait {
		wait, why = d, fmt.Sprintf("requests (the storage failed: %v)", l.shared.err)
	}
	othersUntil := time.Time{}
	if l.shared != nil {
		othersUntil = l.shared.knownUntil
	}
	for sent := range l.sentTickets {
		if sent.hasArrived(now) {
			l.count(sent, now)
		}
	}
	for _, lim := range l.limits {
		if lim.isShared {
			lim.othersUntil = othersUntil
		}
		if d := lim.waitFor(lim.costOf(t), l.inFlight(lim), l.unreported(lim, now), now); d > wait {
			wait, why = d, lim.String()
		}
	}
	return wait, why
}

// inFlight returns the cost of the requests that the service may not have counted yet.
// The caller holds l.mu.
func (l *Limiter) inFlight(lim *limit) (cost float64) {
	for t := range l.sentTickets {
		if t.shares[lim].sent == nil {
			cost += lim.costOf(t)
		}
	}
	return cost
}

// unreported returns the cost of the requests that are to be subtracted from what the
// service has reported to be left or, after the reset, from the whole limit. The caller
// holds l.mu.
func (l *Limiter) unreported(lim *limit, now time.Time) (cost float64) {
	since := lim.since
	if !now.Before(lim.until) {
		since = lim.until
	}
	for t := range l.sentTickets {
		if !t.hasArrived(since) {
			cost += lim.costOf(t)
		}
	}
	return cost
}

// usedBy returns an upper bound for how much of the limit this limiter had used when the service
// answered the request of t. The caller holds l.mu.
func (l *Limiter) usedBy(t *ticket, lim *limit) float64 {
	if t != nil {
		if s, ok := t.shares[lim]; ok {
			return s.own + lim.total - s.total
		}
	}
	return lim.sum + l.inFlight(lim)
}

// dispatch grants queued tickets in order as far as the limits allow, and sets a timer for the next
// ticket. The caller holds l.mu.
func (l *Limiter) dispatch() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	now := time.Now()
	for t := l.queue.first(); t != nil; t = l.queue.first() {
		known := l.shared.isKnown(now)
		if !known && l.shared.probe != nil {
			return // the probe calls dispatch again when it has read the usage of others
		}
		if wait, _ := l.waitForLimits(t, now); wait > 0 {
			l.timer = time.AfterFunc(wait, func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.dispatch()
			})
			return
		}
		l.queue.pop()
		if !known {
			l.shared.probe = t
		}
		if t.granted = true; l.shared == nil {
			t.sent = now
		}
		l.sentTickets[t] = struct{}{}
		t.shares = make(map[*limit]share, len(l.limits))
		for _, lim := range l.limits {
			lim.total += lim.costOf(t)
			t.shares[lim] = share{own: lim.sum + l.inFlight(lim), total: lim.total}
		}
		t.wake()
	}
}

// leave withdraws a ticket whose attempt will not be made.
func (l *Limiter) leave(t *ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.granted {
		l.withdraw(t)
	} else {
		l.queue.remove(t)
	}
	l.dispatch()
}

// count charges a request to each limit, once. The service counts a request when it arrives. The
// caller holds l.mu.
func (l *Limiter) count(t *ticket, now time.Time) {
	at := t.sent.Add(min(now.Sub(t.sent), maxTransit))
	for _, lim := range l.limits {
		if s := t.shares[lim]; s.sent == nil {
			s.sent = lim.add(at, lim.costOf(t))
			t.shares[lim] = s
		}
	}
}

// finish records the number of tokens used by an attempt that has ended.
func (l *Limiter) finish(t *ticket, tokens int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if tokens > 0 && t.size > 0 {
		const weight = 0.2 // weight of the newest value
		if per := float64(tokens) / float64(t.size); l.perByte == 0 {
			l.perByte = per
		} else {
			l.perByte += weight * (per - l.perByte)
		}
	}
	l.count(t, time.Now())
	delete(l.sentTickets, t)
	for _, lim := range l.limits {
		if !t.reported && !t.hasArrived(lim.since) {
			lim.left -= lim.costOf(t)
		}
	}
	if tokens > 0 || err != nil && !isCutOff(err) { // otherwise the usage is unknown: keep the estimate
		t.tokens = float64(tokens)
	}
	for lim, s := range t.shares {
		if s.sent != nil {
			lim.correct(s.sent, lim.costOf(t))
		}
	}
	l.dispatch()
}

// isCutOff reports whether err means, or may mean, that a context ended during the request. A method
// of the error may panic, which must neither replace the error nor stop the limiter.
func isCutOff(err error) (cutOff bool) {
	defer func() { cutOff = cutOff || recover() != nil }()
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Waiting returns the number of attempts that are waiting.
func (l *Limiter) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.len()
}

// String returns the name of the service and the known limits, such as "openai: 60 requests in
// 1m0s".
func (l *Limiter) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.limits) == 0 {
		return l.name + ": no known limits"
	}
	var texts []string
	for _, lim := range l.limits {
		texts = append(texts, lim.String())
	}
	return l.name + ": " + strings.Join(texts, ", ")
}
