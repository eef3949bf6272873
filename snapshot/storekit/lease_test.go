package storekit_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// The row of a lease may be gone before the lease expires, because another process, whose clock is
// ahead, has taken the runs of the lease.
func TestALeaseThatIsFoundToBeOverIsLostAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 30 * time.Second
		taken := make(chan struct{})
		l := storekit.NewLease(length, func(context.Context) error {
			return fmt.Errorf("%w: no such row", snapshot.ErrLease)
		}, func(context.Context) error {
			close(taken)
			return nil
		})
		began := time.Now()
		<-l.Lost()
		assert.Equal(t, length/3, time.Since(began), "the first renewal")
		<-taken
		assert.Equal(t, 2*length/3, time.Since(began), "another lease is taken")
		l.Close()
	})
}

// A renewal that fails for another reason may be repeated while the lease lasts.
func TestALeaseThatCannotBeRenewedIsLostWhenItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 30 * time.Second
		began := time.Now()
		l := storekit.NewLease(length, func(context.Context) error { return snapshot.ErrUnavailable }, func(context.Context) error { return nil })
		defer l.Close()
		<-l.Lost()
		assert.Equal(t, length, time.Since(began))
	})
}

// A process that was suspended, or whose renewal hangs, notices that its lease is over when it
// calls Lost.
func TestLostChecksTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 30 * time.Second
		suspended, taken := make(chan struct{}), make(chan struct{})
		l := storekit.NewLease(length, func(context.Context) error { <-suspended; return nil }, func(context.Context) error {
			close(taken)
			return nil
		})
		lost := l.Lost()
		<-time.After(length)
		l.Lost()
		<-lost // if Lost had not checked the clock, this would wait forever
		close(suspended)
		<-taken
		synctest.Wait()
		assert.NotEqual(t, lost, l.Lost())
		l.Close()
	})
}
