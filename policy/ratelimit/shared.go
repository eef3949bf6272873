package ratelimit

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/reprise-go/reprise/policy/budget"
)

// Limiters of several processes can share a limit through a storage. The storage has an account for
// each short span of time, and each request is added to the current account before it is sent. What
// other limiters have added to an account counts until one period of the limit after the end of the
// account's span. Therefore, no period contains more than the limit, wherever the windows of the
// service begin.
//
// A limiter reads the accounts after it has added to one of them. If two limiters add at the same
// time, at least one of them sees what the other has added. A limiter that finds the limit exceeded
// takes back what it added, and waits.

const (
	span = 3 * time.Second // length of time that one account covers; a twentieth of the period

	rereadInterval = 10 * time.Second // how long the known usage of others is considered current
	maxRetryDelay  = 30 * time.Second // maximum delay after errors from the storage
	correctTimeout = 10 * time.Second // longest time that an attempt's outcome waits for the storage
)

// A sharedState is what a limiter knows about its storage. own may be used only by the holder of
// turn. The fields below own are guarded by Limiter.mu.
type sharedState struct {
	storage budget.Storage
	name    string
	turn    chan struct{} // contains one element while the storage is in use

	own map[int64]budget.Amount // what this limiter has added, by account number

	owed       map[int64]budget.Amount // corrections that could not be stored yet
	knownUntil time.Time               // until then, the known usage of others is considered current
	probe      *ticket                 // the ticket that reads the usage of others; nil if there is none
	err        error                   // last error from the storage; nil if the storage works
	retryDelay time.Duration           // the last delay; 0 if there was none
}

// A reservation is an amount that was added to an account for a ticket.
type reservation struct {
	number int64
	amount budget.Amount
}

func newShared(name string, storage budget.Storage) *sharedState {
	if storage == nil {
		return nil
	}
	return &sharedState{
		storage: storage, name: name, turn: make(chan struct{}, 1),
		own: make(map[int64]budget.Amount), owed: make(map[int64]budget.Amount),
	}
}

// isKnown reports whether the usage of others is known. If s is nil, there are no others.
func (s *sharedState) isKnown(now time.Time) bool { return s == nil || now.Before(s.knownUntil) }

func numberAt(at time.Time) int64 { return at.UnixNano() / int64(span) }

// oldest returns the number of the oldest account that still counts.
func oldest(now time.Time) int64 { return numberAt(now.Add(-time.Minute - maxTransit)) }

func (s *sharedState) add(ctx context.Context, number int64, a budget.Amount) (budget.Amount, error) {
	start := time.Unix(0, number*int64(span)).UTC()
	return s.storage.Add(ctx, fmt.Sprintf("ratelimit %s %s", s.name, start.Format(time.RFC3339)), a)
}

// payOwed stores the corrections that could not be stored before. The caller holds the turn.
func (l *Limiter) payOwed(ctx context.Context) error {
	s := l.shared
	l.mu.Lock()
	owed := maps.Clone(s.owed)
	l.mu.Unlock()
	for number, a := range owed {
		if number >= oldest(time.Now()) {
			if _, err := s.add(ctx, number, a); err != nil {
				return err
			}
			s.own[number] = s.own[number].Plus(a)
		}
		l.owe(number, budget.Amount{}.Minus(a))
	}
	return nil
}

// owe adds an amount to the corrections that are to be stored later.
func (l *Limiter) owe(number int64, a budget.Amount) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shared.owed[number] = l.shared.owed[number].Plus(a)
	if l.shared.owed[number].IsZero() {
		delete(l.shared.owed, number)
	}
}

// A spanUsage is what other limiters used in a span.
type spanUsage struct {
	at     time.Time // the latest time at which the service counted it
	amount budget.Amount
}

// others returns what others have added to the accounts that still count, sorted by time.
func (s *sharedState) others(ctx context.Context) (all []spanUsage, err error) {
	first := oldest(time.Now())
	for number := range s.own {
		if number < first {
			delete(s.own, number)
		}
	}
	for number := first; number <= numberAt(time.Now()); number++ {
		sum, err := s.add(ctx, number, budget.Amount{})
		if err != nil {
			return nil, err
		}
		if used := sum.Minus(s.own[number]); used.Calls > 0 || used.Tokens > 0 {
			all = append(all, spanUsage{time.Unix(0, (number+1)*int64(span)).Add(maxTransit), used})
		}
	}
	return all, nil
}

// reserve adds a granted ticket to the shared usage. If the limits do not allow the
// ticket, or the storage fails, the ticket is put back into the queue. The only possible
// error is that of ctx.
func (l *Limiter) reserve(ctx context.Context, t *ticket) (ok bool, err error) {
	s := l.shared
	if s == nil {
		return true, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	err = l.payOwed(ctx)
	if err == nil && !l.othersKnown() {
		ok, err = l.learnOthers(ctx, t, rereadInterval)
		if err == nil && !ok {
			return false, nil
		}
	}
	if err == nil {
		ok, err = l.addReservation(ctx, t)
	}
	if err == nil {
		return ok, nil
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.err, s.retryDelay = err, min(max(time.Second, 2*s.retryDelay), maxRetryDelay)
	s.knownUntil = time.Time{}
	l.blockedByStorage = time.Now().Add(s.retryDelay)
	l.putBack(t)
	return false, nil
}

func (l *Limiter) othersKnown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shared.isKnown(time.Now())
}

// addReservation adds the ticket to the current account, and removes it again if the
// limits do not allow it. The caller holds the turn.
func (l *Limiter) addReservation(ctx context.Context, t *ticket) (ok bool, err error) {
	s, number := l.shared, numberAt(time.Now())
	l.mu.Lock()
	a := l.amountOf(t)
	l.mu.Unlock()
	if _, err := s.add(ctx, number, a); err != nil {
		return false, err // if the amount was stored despite the error, it counts as usage of others
	}
	s.own[number] = s.own[number].Plus(a)
	conflict := 50*time.Millisecond + rand.N(time.Second) // others may take back their additions
	if ok, err = l.learnOthers(ctx, t, conflict); ok {
		t.reserved = reservation{number, a}
		l.mu.Lock()
		defer l.mu.Unlock()
		t.sent = time.Now()
		return true, nil
	}
	correctCtx, cancel := correcting(ctx)
	defer cancel()
	l.correct(correctCtx, number, budget.Amount{}.Minus(a))
	return false, err
}

// correcting returns a context for correcting an account even if ctx is done. So that the attempt
// does not time out, the context ends after at most half of the time that the attempt has left.
func correcting(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := correctTimeout
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) > 0 {
		timeout = min(timeout, time.Until(deadline)/2)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), timeout)
}

// correct adds a correction to an account. If that fails, the correction may have been added
// nevertheless, so it is added again later only if it is upward: for a minute, too much may be
// counted, but never too little. The caller holds the turn.
func (l *Limiter) correct(ctx context.Context, number int64, a budget.Amount) {
	if _, err := l.shared.add(ctx, number, a); err != nil {
		if a.Calls >= 0 && a.Tokens >= 0 {
			l.owe(number, a)
		}
		return
	}
	l.shared.own[number] = l.shared.own[number].Plus(a)
}

// amountOf returns how much of the limits the ticket uses. The caller holds l.mu.
func (l *Limiter) amountOf(t *ticket) budget.Amount {
	a := budget.Amount{Calls: 1}
	for _, lim := range l.limits {
		if lim.tokens && lim.isShared {
			a.Tokens = int64(lim.costOf(t) + 0.5)
		}
	}
	return a
}

// learnOthers reads the usage of others. If the limits do not allow the ticket, the
// ticket is put back into the queue, and the usage of others is read again after the
// given time.
func (l *Limiter) learnOthers(ctx context.Context, t *ticket, again time.Duration) (fits bool, err error) {
	uses, err := l.shared.others(ctx)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.shared.err, l.shared.retryDelay = nil, 0
	fits = true
	for _, lim := range l.limits {
		if !lim.isShared {
			continue
		}
		lim.others, lim.othersUntil = lim.others[:0], now.Add(again)
		for _, u := range uses {
			cost := float64(u.amount.Calls)
			if lim.tokens {
				cost = float64(u.amount.Tokens)
			}
			if cost > 0 {
				lim.others = append(lim.others, sentRequest{at: u.at, cost: cost})
			}
		}
		lim.dropExpired(now)
		fits = fits && lim.sum+l.inFlight(lim)+lim.othersSum(now) <= lim.size+epsilon
	}
	if fits {
		again = rereadInterval
	}
	l.shared.knownUntil = now.Add(again)
	if !fits {
		l.putBack(t)
	} else if l.shared.probe == t {
		l.shared.probe = nil
		l.dispatch()
	}
	return fits, nil
}

// putBack withdraws a ticket's grant and puts the ticket back at the head of the queue.
// The caller holds l.mu.
func (l *Limiter) putBack(t *ticket) {
	l.withdraw(t)
	l.queue.pushFront(t)
	t.ready = make(chan struct{})
	l.dispatch()
}

// withdraw takes back the grant of a ticket whose request was not sent. The caller holds l.mu.
func (l *Limiter) withdraw(t *ticket) {
	delete(l.sentTickets, t)
	t.granted, t.sent = false, time.Time{}
	for lim, s := range t.shares {
		lim.total -= lim.costOf(t)
		if s.sent != nil {
			lim.correct(s.sent, 0)
		}
	}
	t.shares = nil
	if l.shared != nil && l.shared.probe == t {
		l.shared.probe = nil
	}
}

// settle replaces a ticket's estimated tokens in the storage with the actual ones.
func (l *Limiter) settle(ctx context.Context, t *ticket) {
	s := l.shared
	if s == nil {
		return
	}
	l.mu.Lock()
	diff := l.amountOf(t).Minus(t.reserved.amount)
	l.mu.Unlock()
	if diff.IsZero() || t.reserved.number < oldest(time.Now()) {
		return
	}
	ctx, cancel := correcting(ctx)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
		l.correct(ctx, t.reserved.number, diff)
	case <-ctx.Done():
		l.owe(t.reserved.number, diff)
	}
}
