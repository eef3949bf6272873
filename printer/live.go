package printer

import (
	"cmp"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/record"
)

// liveState is the state of a live line.
type liveState struct {
	label   string
	mark    mark
	since   time.Time // on the clock of this process, as until
	until   time.Time // the wait, if it waits
	ordinal string    // of the attempt: "2/3"; empty for the first
	cause   string    // why it waits
}

// update takes the record of an attempt that began, failed, or is waited for.
func (l *liveState) update(r *record.Record, text *rendered, m mark) {
	now := time.Now()
	if l.since.IsZero() {
		l.label, l.mark, l.since = text.label, m, now
	}
	l.ordinal, l.cause = "", text.cause
	if r.IsRetry() {
		l.ordinal = ordinal(r)
	}
	if r.Status == record.StatusRetrying {
		// The record may be from another clock.
		l.until = now.Add(min(max(0, r.NextAttemptAt().Sub(now)), r.Delay))
	}
}

// redrawEvery is the interval at which live lines are drawn: as often as the
// tenths of a second in them change.
const redrawEvery = 100 * time.Millisecond

// goLive starts the goroutine that draws live lines if there are any and it is
// not running. The lock is held.
func (p *Printer) goLive() {
	if p.screen == nil || p.closed || p.redrawing || p.scheduler.tree.calls == 0 {
		return
	}
	p.redrawing = true
	p.redraws.Go(p.redraw)
}

// redraw draws the live lines until there are none, or the printer is closed.
func (p *Printer) redraw() {
	ticker := time.NewTicker(redrawEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-p.done:
			return
		}
		if !p.drawAgain() {
			return
		}
	}
}

func (p *Printer) drawAgain() (again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		if v := recover(); v != nil { // of the writer, or of the function of WithTerminal
			p.err = cmp.Or(p.err, fmt.Errorf("printer: drawing panicked: %v", v))
		}
		p.redrawing = again
	}()
	if p.closed {
		return false
	}
	_ = p.flush()
	return p.scheduler.tree.calls > 0
}
