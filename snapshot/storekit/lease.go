package storekit

import (
	"context"
	"sync"
	"time"
)

// A Lease is the sign of life of a process in a database: while it is renewed, the runs
// that the process has open are its own. It is renewed in the background until Close.
type Lease struct {
	lost chan struct{}
	stop context.CancelFunc
	wait sync.WaitGroup
}

// NewLease returns a lease that the caller has just taken, for that long. Renew extends it
// by as much from the time at which it is called, and fails if it is over or could not be
// extended; it is called three times in the length of the lease. It must not extend a lease
// that is over.
//
// The process goes by its own monotonic clock, and counts from before it has sent a
// renewal: whatever the other clocks say, it gives up first.
func NewLease(length time.Duration, renew func(context.Context) error) *Lease {
	ctx, stop := context.WithCancel(context.Background())
	l := &Lease{lost: make(chan struct{}), stop: stop}
	l.wait.Go(func() { l.renew(ctx, length, renew) })
	return l
}

func (l *Lease) renew(ctx context.Context, length time.Duration, renew func(context.Context) error) {
	ticker := time.NewTicker(length / 3)
	defer ticker.Stop()
	end := time.Now().Add(length)
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		trying, cancel := context.WithDeadline(ctx, end)
		err := renew(trying)
		cancel()
		if err == nil && time.Now().Before(end) {
			end = began.Add(length)
		}
		if !time.Now().Before(end) && ctx.Err() == nil {
			close(l.lost)
			return
		}
	}
}

// Lost returns a channel that is closed when the lease is over.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Close ends the renewals, and waits for the one that is under way. What the process has
// open by then is its own until the lease is over.
func (l *Lease) Close() {
	l.stop()
	l.wait.Wait()
}
