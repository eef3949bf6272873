package storekit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// A Lease is the heartbeat of a process in a database. While the lease is renewed, the process owns
// the runs that it has open. The lease is renewed in the background until Close. When it has
// expired, the process takes a new lease for runs that it opens later.
type Lease struct {
	stop context.CancelFunc
	wait sync.WaitGroup

	mu   sync.Mutex
	lost chan struct{}
	end  time.Time // when the current lease expires; zero if it has expired
}

// NewLease returns a Lease for a lease that the caller has just taken. The lease has the given
// length.
//
// The function renew must extend the lease to the given length from the time of the call. It is
// called at intervals of one third of that length, and must return an error if it could not extend
// the lease. It must not extend a lease that has expired; it must then return [snapshot.ErrLease],
// and the lease is lost at once.
//
// After the lease has expired, take is called until it succeeds. It must take a new lease, as a new
// process would.
//
// The process uses its own monotonic clock, and starts to measure the length of the lease before it
// sends a renewal. It therefore gives up the lease before the database does, even if other clocks
// are wrong.
func NewLease(length time.Duration, renew, take func(context.Context) error) *Lease {
	ctx, stop := context.WithCancel(context.Background())
	l := &Lease{lost: make(chan struct{}), end: time.Now().Add(length), stop: stop}
	l.wait.Go(func() { l.keep(ctx, length, renew, take) })
	return l
}

// keep renews the lease, and takes a new one when it has expired, until ctx ends.
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

// hasExpired checks the clock, and reports whether the lease has expired. The caller holds the lock.
func (l *Lease) hasExpired() bool {
	if !l.end.IsZero() && !time.Now().Before(l.end) {
		l.expire()
	}
	return l.end.IsZero()
}

// expire ends the lease. The caller holds the lock.
func (l *Lease) expire() {
	close(l.lost)
	l.end = time.Time{}
}

// Lost returns a channel that is closed when the current lease has expired. If there is no lease,
// the channel is already closed. Lost checks the clock, so that it detects the end of the lease
// even if the process was suspended for a long time or the renewals hang.
func (l *Lease) Lost() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hasExpired()
	return l.lost
}

// Close stops renewing the lease, and waits for a renewal that is running. The process still owns
// its open runs until the lease expires.
func (l *Lease) Close() {
	l.stop()
	l.wait.Wait()
}
