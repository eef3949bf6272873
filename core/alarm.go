package core

import (
	"sync"
	"time"
)

// alarms end the attempts of a run whose time is over. A timer costs more than
// all else that a limit takes, so none is stopped when its attempt ends: the
// next attempt has it, and mostly it need not be set again, because it fires
// before that attempt's time is over, and is set to the rest then.
//
// They know nothing of the run: a timer that is still set must not keep it in
// memory.
type alarms struct {
	mu    sync.Mutex
	spare []*alarm // those that no attempt has
}

// alarm is a timer, and the limit of the attempt that has it.
type alarm struct {
	all   *alarms
	timer *time.Timer // nil until it is set first
	due   time.Time   // when it fires; zero if it is not set
	limit *limit      // nil if no attempt has it
}

// set returns an alarm that ends l in time. It must be released.
func (all *alarms) set(l *limit) *alarm {
	all.mu.Lock()
	defer all.mu.Unlock()
	var a *alarm
	if last := len(all.spare) - 1; last >= 0 {
		a, all.spare = all.spare[last], all.spare[:last]
	} else {
		a = &alarm{all: all}
	}
	a.limit = l
	if at := l.Deadline(); a.due.IsZero() || at.Before(a.due) {
		a.fireIn(l.left())
	}
	return a
}

// release gives the alarm back.
func (a *alarm) release() {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	a.limit = nil
	a.all.spare = append(a.all.spare, a)
}

// fireIn sets the timer. The lock is held.
func (a *alarm) fireIn(d time.Duration) {
	if a.timer == nil {
		a.timer = time.AfterFunc(d, a.fire)
	} else {
		a.timer.Reset(d)
	}
	a.due = a.limit.Deadline()
}

func (a *alarm) fire() {
	a.all.mu.Lock()
	a.due = time.Time{}
	l := a.limit
	if l != nil && l.left() > 0 {
		a.fireIn(l.left())
		l = nil
	}
	a.all.mu.Unlock()
	if l != nil {
		l.expire()
	}
}
