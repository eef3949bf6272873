package printer

import (
	"cmp"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/record"
)

// liveState holds what the live line of a call shows.
type liveState struct {
	label   string
	mark    mark
	since   time.Time // local time, like until
	until   time.Time // end of the wait
	ordinal string    // attempt number, such as "2/3"; empty for the first attempt
	cause   string    // error of the failed attempt
}

// update applies the record of an attempt that started, failed, or waits to be retried.
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
		// The times in the record may come from another clock.
		l.until = now.Add(min(max(0, r.NextAttemptAt().Sub(now)), r.Delay))
	}
}

// redrawEvery is the interval between redraws. Live lines show tenths of a second.
const redrawEvery = 100 * time.Millisecond

// startRedrawing starts the goroutine that draws live lines, unless it is running already or
// there are no live lines. p.mu must be held.
func (p *Printer) startRedrawing() {
	if p.screen == nil || p.closed || p.redrawing || p.scheduler.tree.calls == 0 {
		return
	}
	p.redrawing = true
	p.redraws.Go(p.redraw)
}

// redraw draws the live lines periodically until there are none left or the printer is closed.
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

func (p *Printer) drawAgain() (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		if v := recover(); v != nil { // the writer, or the function passed to WithTerminal, panicked
			p.err = cmp.Or(p.err, fmt.Errorf("printer: drawing panicked: %v", v))
		}
		p.redrawing = more
	}()
	if p.closed {
		return false
	}
	_ = p.flush()
	return p.scheduler.tree.calls > 0
}
