package breaker

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// An OpenError is the error of an attempt that a breaker refused. The handler did not run. The
// class of the error is [record.ClassBreaker]. By default, the call is retried when the breaker
// lets attempts through again.
type OpenError struct {
	Breaker string        // name of the breaker
	After   time.Duration // time until attempts are let through; 0 if another attempt is probing
}

// Error returns a message such as `circuit breaker "payments" is open for another 5s`.
func (e *OpenError) Error() string {
	if e.After <= 0 {
		return fmt.Sprintf("circuit breaker %q is open while another call probes", e.Breaker)
	}
	return fmt.Sprintf("circuit breaker %q is open for another %v", e.Breaker, e.After)
}

// Class returns [record.ClassBreaker].
func (e *OpenError) Class() record.Class { return record.ClassBreaker }

// RetryAfter returns e.After.
func (e *OpenError) RetryAfter() time.Duration { return e.After }

func init() { record.RegisterErrorType[*OpenError]("breaker.OpenError") }

// A change is a change of the state of a breaker.
type change struct {
	breaker string        // name of the breaker
	state   string        // "open", "half_open" or "closed"
	openFor time.Duration // how long the breaker stays open
}

// text returns a message such as `circuit breaker "payments" is open for 30s`.
func (c change) text() string {
	switch c.state {
	case "open":
		return fmt.Sprintf("circuit breaker %q is open for %v", c.breaker, c.openFor)
	case "half_open":
		return fmt.Sprintf("circuit breaker %q is half open: it lets a probe through", c.breaker)
	}
	return fmt.Sprintf("circuit breaker %q is %s", c.breaker, c.state)
}

// log appends changes to the log of the run whose call caused them.
func log(call *core.CallInfo, changes []change) {
	for _, c := range changes {
		level := slog.LevelInfo
		if c.state == "open" {
			level = slog.LevelWarn
		}
		call.Log(level, c.text(), map[string]any{"breaker": c.breaker, "state": c.state})
	}
}
