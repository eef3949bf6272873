package storekit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// A Lease is the heartbeat of a process in a database: while it is renewed, the process owns the
// runs that it has open. It is renewed in the background until Close. After it has expired, a new
// lease is taken for runs opened later.
type Lease struct {
	stop context.CancelFunc
	wait sync.WaitGroup

	mu   sync.Mutex
	lost chan struct{}
	end  time.Time // when the lease expires; zero if it has
}

// NewLease returns a lease of that length, which the caller has just taken. renew must extend the
// lease to that length from the time of the call. It must fail if the lease could not be extended,
// and must not extend a lease that has expired: its error is then [snapshot.ErrLease], and the lease
// is lost at once. It is called three times during the length of the lease. After the lease has
// expired, take is called until it has taken another one, as a new process would.
//
// The process uses its own monotonic clock and counts from before it sends a renewal. It therefore
// gives up the lease before the database does, even if other clocks are wrong.
func NewLease(length time.Duration, renew, take func(context.Context) error) *Lease {
	ctx, stop := context.WithCancel(context.Background())
	l := &Lease{lost: make(chan struct{}), end: time.Now().Add(length), stop: stop}
	l.wait.Go(func() { l.keep(ctx, length, renew, take) })
	return l
}

// keep keeps one lease after another until ctx ends.
func (l *Lease) keep(ctx context.Context, length time.Duration, renew, take func(context.Context) error) {
	ticker := time.NewTicker(length / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		l.mu.Lock()
		end := l.end
		l.mu.Unlock()
		if end.IsZero() {
			trying, cancel := context.WithTimeout(ctx, length)
			err := take(trying)
			cancel()
			if err == nil {
				l.mu.Lock()
				l.lost, l.end = make(chan struct{}), began.Add(length)
				l.mu.Unlock()
			}
			continue
		}
		trying, cancel := context.WithDeadline(ctx, end)
		err := renew(trying)
		cancel()
		l.mu.Lock()
		switch {
		case ctx.Err() != nil, l.hasExpired():
		case errors.Is(err, snapshot.ErrLease):
			l.expire()
		case err == nil:
			l.end = began.Add(length)
		}
		l.mu.Unlock()
	}
}

// hasExpired checks the clock. The lock is held.
func (l *Lease) hasExpired() bool {
	if !l.end.IsZero() && !time.Now().Before(l.end) {
		l.expire()
	}
	return l.end.IsZero()
}

// expire ends the lease. The lock is held.
func (l *Lease) expire() {
	close(l.lost)
	l.end = time.Time{}
}

// Lost returns a channel that is closed when the current lease expires, or is found to be over. If
// there is no lease, the channel is closed already. Lost checks the clock: a process that was
// suspended for longer than its lease, or whose renewals hang, notices it here.
func (l *Lease) Lost() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hasExpired()
	return l.lost
}

// Close ends the renewals, and waits for a running one. The process still owns its open runs until
// the lease expires.
func (l *Lease) Close() {
	l.stop()
	l.wait.Wait()
}
