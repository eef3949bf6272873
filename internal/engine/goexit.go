package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
)

// This file handles goroutines that end in a call, because a handler called runtime.Goexit.

// settleGoexit settles an attempt whose handler, or a method of its error, called runtime.Goexit.
func (c *Call) settleGoexit(p *record.Progress, s *Scope, began time.Time, err error) {
	s.close()
	r := attemptEnd{Result: Result{Err: err, Stage: record.StageHandler, Panicked: true}}
	r.end(began)
	c.exit(p, s, c.settle(p, s, &r))
}

// exit ends a call whose goroutine is ending (runtime.Goexit), and passes the call's error to
// [CatchExit].
func (c *Call) exit(p *record.Progress, s *Scope, err error) {
	err = c.undo(p, s, err)
	if caught, ok := s.outer.Value(exitKey{}).(*atomic.Pointer[error]); ok && err != nil {
		caught.Store(&err)
	}
}

// exitKey is the context key of the error stored for CatchExit.
type exitKey struct{}

// CatchExit returns a context for executing a call, and a function that returns the error of the call
// after its handler has called runtime.Goexit. The call itself does not return in this case. If no
// handler has called runtime.Goexit, the function returns nil.
func CatchExit(ctx context.Context) (caught context.Context, exit func() error) {
	err := new(atomic.Pointer[error])
	return context.WithValue(ctx, exitKey{}, err), func() error {
		if e := err.Load(); e != nil {
			return *e
		}
		return nil
	}
}
