package core

import (
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// An Identifier is an input that says itself what makes it another input. By
// default that is all of it but the fields that are zero.
//
// The result is compared with what was recorded when a run is resumed, so it
// has what the answer to a call depends on, and leaves out what may change from
// one deploy to the next. It must be a value that [record.Encode] takes.
type Identifier interface{ Identity() any }

// A DivergenceError says that a program which resumes a run makes other calls
// than those that were recorded. The run has stopped, and is interrupted and not
// failed: nothing was executed in place of what was recorded, and with the
// program of before, or a mended one, it goes on. It is [ErrDivergence].
type DivergenceError struct {
	RunID    string
	How      string         // "order", "input", "kind", "end", "output", "value", "question" or "version"
	Address  record.Address // of the call that was asked for; at an end, of the call that ended
	Was      record.Address // of the call that was recorded in its place; zero if that is the same, or none
	Scope    string         // the path of what makes the call
	Ordinal  int            // its number among all that the scope makes, from 1; 0 where it does not matter
	Recorded string         // what the records have
	Asked    string         // what the program asks for
	Fields   []string
	Hint     string // the likely edit, or what else helps

	Fork record.Address // where to begin anew instead, if that is not the call itself: zero for it
}

// Error says where the program differs, in what, and the ways out.
func (e *DivergenceError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s: the program differs from what it recorded", e.RunID)
	where := e.Scope
	if where == "" {
		where = "the run itself"
	}
	switch e.How {
	case "order":
		fmt.Fprintf(&b, ": in %s, call %d was %s and is now %s", where, e.Ordinal, e.Recorded, e.Asked)
	case "version":
		fmt.Fprintf(&b, ": in %s, version %s was recorded, and it has %s (%s). Nothing of it ran. Ways out: run a program that has it; or %s",
			where, e.Recorded, e.Asked, e.Hint, e.fork())
		return b.String()
	case "end":
		fmt.Fprintf(&b, ": %s ended before its call %d, which was %s", where, e.Ordinal, e.Recorded)
	case "value":
		fmt.Fprintf(&b, ": %s has %s", where, e.Recorded)
	default:
		fmt.Fprintf(&b, ": the %s of %s was %s and is now %s", e.How, e.Address, e.Recorded, e.Asked)
	}
	for _, field := range e.Fields {
		b.WriteString("; " + field)
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	fmt.Fprintf(&b, ". Nothing of it ran. Ways out: run the program of before; %s"+
		"state.WithDivergence to trust the records or to run again from here; or %s", e.mend(), e.fork())
	return b.String()
}

// mend says what can be changed in the program.
func (e *DivergenceError) mend() string {
	switch e.How {
	case "order", "end", "kind":
		return "core.Version for code that changes while runs are under way; mend the order " +
			"(actors.Map, actors.Parallel or Prepare for parallel calls, core.Step for what is not a call); "
	case "input", "question":
		return "core.Version for code that changes while runs are under way; core.Step for what differs from run to run; "
	}
	return ""
}

// fork is the command that begins a new run from before the call.
func (e *DivergenceError) fork() string {
	at := e.Address
	switch {
	case !e.Fork.IsZero():
		at = e.Fork
	case !e.Was.IsZero():
		at = e.Was
	}
	if at.IsZero() {
		return "a new run"
	}
	return fmt.Sprintf("reprise fork %s '%s' NEW", e.RunID, at)
}

// Is matches [ErrDivergence].
func (e *DivergenceError) Is(target error) bool { return target == ErrDivergence }

// checkEnd refuses the end of a handler that left out calls which were
// recorded. It is nil if the handler did not end by itself.
func (c *call) checkEnd(s *Scope) *InterruptedError {
	if !c.root.settings.Restored {
		return nil
	}
	return c.checkRecorded(s)
}

// checkRecorded is checkEnd where there is restored history.
func (c *call) checkRecorded(s *Scope) *InterruptedError {
	if s.endedItself() || s.outer.Err() != nil || c.parent.context().Err() != nil {
		return nil
	}
	claimed := 0
	if in := s.inside.Load(); in != nil {
		in.claims.mu.Lock()
		claimed = in.claims.ordinal
		in.claims.mu.Unlock()
	}
	err := c.root.run.Ended(s, claimed)
	if err == nil {
		return nil
	}
	return c.interruptionBy(err)
}

// interruptionBy is the suspension that an error of the run means.
func (c *call) interruptionBy(err error) *InterruptedError { return c.parent.interruptionBy(err) }

// interruptionBy is the suspension that an error of the run means for what is
// inside the scope.
func (s *Scope) interruptionBy(err error) *InterruptedError {
	if e, ok := err.(*InterruptedError); ok { //nolint:errorlint // the run's own, which has stopped it
		return e
	}
	if e := s.ending(); e != nil { // which may be why it went wrong
		return e
	}
	return &InterruptedError{Reason: record.InterruptReplay, Cause: err}
}
