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
)

// Options configure a [Limiter].
type Options struct {
	// Name is that of the service, for log lines. Required.
	Name string

	// Requests and Tokens are how many the service allows in a minute. They are for
	// services that do not say so in their headers, which take precedence. Default
	// to what the headers say, and to no limit before.
	Requests, Tokens int

	// EstimateTokens returns how many tokens a call will use, from its encoded
	// input, which must not be changed. Defaults to an estimate by the length of
	// the input and by what calls have used so far.
	EstimateTokens func(input []byte) int
}

// A Limiter has calls wait before their attempts until the limits of a service
// allow them. The wait is a line in the log, and "paced" among the attributes of the
// attempt. It is no attempt of its own, and does not count against the timeout of
// the attempt. It ends when the run is interrupted. If it is long, as at a daily limit,
// it parks the run (state.WithParking), as [core.CallInfo.WaitFor] says.
//
// When several runs wait, each of them gets its turn after the other, however many
// calls it makes at once. The calls of one run go in the order in which they came.
//
// Tokens are counted by an estimate while a call is under way, and then by its usage.
// A call for which the estimate is above the whole limit goes when all of it is
// there.
//
// A Limiter is for many goroutines. Make one with [New].
type Limiter struct {
	name     string
	estimate func([]byte) int

	mu      sync.Mutex
	limits  []*limit
	held    time.Time // nothing is sent before: the service asked for that
	flying  map[*ticket]struct{}
	queue   queue
	timer   *time.Timer
	perByte float64 // of input: tokens that calls have used; 0 for not known
}

// New panics if an option is out of range.
func New(o Options) *Limiter {
	must := func(ok bool, field string, value any, allowed string) {
		if !ok {
			panic(fmt.Sprintf("ratelimit: Options.%s is %v; want %s", field, value, allowed))
		}
	}
	must(core.CheckName(o.Name) == nil, "Name", fmt.Sprintf("%q", o.Name), "1 to 128 bytes of printable text")
	must(o.Requests >= 0, "Requests", o.Requests, "1 or more in a minute, or 0 for what the service says")
	must(o.Tokens >= 0, "Tokens", o.Tokens, "1 or more in a minute, or 0 for what the service says")
	l := &Limiter{name: o.Name, estimate: o.EstimateTokens, flying: make(map[*ticket]struct{})}
	if o.Requests > 0 {
		l.limits = append(l.limits, &limit{name: "requests", size: float64(o.Requests), period: time.Minute})
	}
	if o.Tokens > 0 {
		l.limits = append(l.limits, &limit{name: "tokens", tokens: true, size: float64(o.Tokens), period: time.Minute})
	}
	return l
}

// Interceptor returns what has attempts wait.
func (l *Limiter) Interceptor() core.Interceptor { return core.Interceptor{Attempt: l.attempt} }

// ticketKey is the context key of the ticket that a request is sent with.
type ticketKey struct{ limiter *Limiter }

func (l *Limiter) attempt(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
	t, err := l.newTicket(call)
	if err != nil {
		return err
	}
	began := time.Now()
	for !l.enter(t) {
		ready, expected, why := l.outlook(t)
		if err := call.WaitFor(ctx, ready, expected, why); err != nil {
			l.leave(t)
			return err
		}
	}
	if paced := time.Since(began).Round(time.Millisecond); paced > 0 {
		call.Annotate("paced", paced.String())
	}
	err = errGoexit // unless next returns
	defer func() { l.done(t, call.Usage().TotalTokens(), err) }()
	err = next(context.WithValue(ctx, ticketKey{l}, t))
	return err
}

var errGoexit = errors.New("ratelimit: the handler ended its goroutine")

// A ticket is an attempt that is sent, or waits to be.
type ticket struct {
	run    string
	size   int     // of the input, in bytes
	tokens float64 // estimated

	granted bool
	sent    time.Time
	heard   bool             // a response told what is left, with this request in it
	counted bool             // by the service
	shares  map[*limit]share // of the limits that were known when it was sent
	ready   chan struct{}    // closed when it is granted, or is to look again; nil before it waits
	told    time.Time        // when its turn is likely to come, as it knows it
}

// A share is what a ticket is to a limit.
type share struct {
	own, total float64 // what of the window was used when it was sent, and ever; with this
	sent       *sent   // once it is counted; nil if it is not logged
}

// wake closes ready.
func (t *ticket) wake() {
	select {
	case <-t.ready:
	default:
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
		perByte = 0.3 // of text, with its answer
	}
	t.tokens = perByte * float64(t.size)
	return t, nil
}

// enter reports whether the ticket is granted. If it is not, it is in the queue.
func (l *Limiter) enter(t *ticket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.granted {
		return true
	}
	if t.ready == nil {
		l.queue.push(t)
	}
	t.ready = make(chan struct{})
	l.dispatch()
	return t.granted
}

// outlook returns what the ticket waits for, and for how long probably.
func (l *Limiter) outlook(t *ticket) (ready <-chan struct{}, expected time.Duration, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	expected, why = l.expected(t, now)
	t.told = now.Add(expected)
	return t.ready, expected, fmt.Sprintf("the limit of %s of %q", why, l.name)
}

// expected returns how long a ticket in the queue is likely to wait, and for which
// limit. The lock is held.
func (l *Limiter) expected(t *ticket, now time.Time) (expected time.Duration, why string) {
	expected, why = l.waitOf(l.queue.first(), now)
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

// waitOf returns how long a ticket has to wait, and for which limit. The lock is
// held.
func (l *Limiter) waitOf(t *ticket, now time.Time) (wait time.Duration, why string) {
	if t == nil {
		return 0, "its turn"
	}
	wait, why = max(0, l.held.Sub(now)), "requests, as it asks by Retry-After,"
	for _, lim := range l.limits {
		if d := lim.waitFor(lim.costOf(t), l.inFlight(lim), now); d > wait {
			wait, why = d, lim.String()
		}
	}
	return wait, why
}

// inFlight returns what the requests cost that the service may not have counted
// yet. The lock is held.
func (l *Limiter) inFlight(lim *limit) (cost float64) {
	for t := range l.flying {
		cost += lim.costOf(t)
	}
	return cost
}

// usedBy returns what of the limit this limiter may have used at most when the
// service answered a request. The lock is held.
func (l *Limiter) usedBy(t *ticket, lim *limit) float64 {
	if t != nil {
		if s, ok := t.shares[lim]; ok {
			return s.own + lim.total - s.total
		}
	}
	return lim.sum + l.inFlight(lim)
}

// dispatch grants tickets in their order, as far as the limits allow, and looks
// again when they allow the next. The lock is held.
func (l *Limiter) dispatch() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	now := time.Now()
	for t := l.queue.first(); t != nil; t = l.queue.first() {
		if wait, _ := l.waitOf(t, now); wait > 0 {
			l.timer = time.AfterFunc(wait, func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.dispatch()
			})
			return
		}
		l.queue.pop()
		t.granted, t.sent = true, now
		l.flying[t] = struct{}{}
		t.shares = make(map[*limit]share, len(l.limits))
		for _, lim := range l.limits {
			lim.total += lim.costOf(t)
			t.shares[lim] = share{own: lim.sum + l.inFlight(lim), total: lim.total}
		}
		t.wake()
	}
}

// leave takes back a ticket whose attempt is not made.
func (l *Limiter) leave(t *ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.granted {
		delete(l.flying, t)
	} else {
		l.queue.remove(t)
	}
	l.dispatch()
}

// onTheWay is how long after it was sent a request may come in at the service: it
// counts from then on.
const onTheWay = time.Second

// count takes in that the service has counted a request. The lock is held.
func (l *Limiter) count(t *ticket, now time.Time) {
	if t.counted {
		return
	}
	delete(l.flying, t)
	t.counted = true
	at := t.sent.Add(min(now.Sub(t.sent), onTheWay))
	for _, lim := range l.limits {
		s := t.shares[lim]
		s.sent = lim.add(at, lim.costOf(t))
		t.shares[lim] = s
		if !t.heard {
			lim.left -= lim.costOf(t)
		}
	}
}

// done takes in how many tokens an attempt has used that is over.
func (l *Limiter) done(t *ticket, tokens int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if tokens > 0 && t.size > 0 {
		const weight = 0.2 // of the newest
		if per := float64(tokens) / float64(t.size); l.perByte == 0 {
			l.perByte = per
		} else {
			l.perByte += weight * (per - l.perByte)
		}
	}
	l.count(t, time.Now())
	if tokens > 0 || err != nil { // else the service does not say, and the estimate has to do
		t.tokens = float64(tokens)
	}
	for lim, s := range t.shares {
		if s.sent != nil {
			lim.correct(s.sent, lim.costOf(t))
		}
	}
	l.dispatch()
}

// Waiting returns how many attempts wait.
func (l *Limiter) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.len()
}

// String returns the name and the limits that are known, such as
// "openai: 60 requests in 1m0s".
func (l *Limiter) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.limits) == 0 {
		return l.name + ": no limit is known"
	}
	var texts []string
	for _, lim := range l.limits {
		texts = append(texts, lim.String())
	}
	return l.name + ": " + strings.Join(texts, ", ")
}
