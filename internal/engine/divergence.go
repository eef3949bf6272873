package engine

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// A DivergenceError reports that the program of a resumed run does not make the recorded calls. No
// call was made in place of a recorded one. The run is interrupted, but has not failed: it
// continues with the previous program, or with one that makes the recorded calls. A DivergenceError
// matches [ErrDivergence].
type DivergenceError struct {
	RunID    string
	How      string         // "order", "input", "kind", "end", "output", "overlap", "swap", "value", "question" or "version"
	Address  record.Address // of the call that the program makes; if a scope ended too early, of the scope's call
	Was      record.Address // of the call that was recorded in its place; zero if there is none, or if it has the same address
	Scope    string         // path of the attempt or branch that makes the call; empty for the run itself
	Ordinal  int            // number of the call among all calls of the scope, from 1; 0 if not applicable
	Recorded string         // what is recorded; for an input, its hash
	Asked    string         // what the program does now; for an input, its hash
	Fields   []string       // the parts that differ, if their values are recorded
	Hint     string         // the likely reason

	Fork record.Address // call before which to fork the run, if it is neither Was nor Address; see ForkAddress
}

// Error says what differs and what to do about it.
func (e *DivergenceError) Error() string {
	return fmt.Sprintf("run %s: the program differs from its records: %s. %s. %s", e.RunID, e.Difference(), e.notRun(), e.advice())
}

// notRun says which call did not run.
func (e *DivergenceError) notRun() string {
	switch e.How {
	case "order", "kind", "input", "output", "overlap", "swap":
		return fmt.Sprintf("%s did not run", e.Address)
	case "end":
		return "No other call ran in its place"
	}
	return "The program was stopped there"
}

// Difference describes in one line where the program differs from the records, what is
// recorded there, what the program does now, and the likely reason. It does not contain
// hashes; these are in Recorded and Asked.
func (e *DivergenceError) Difference() string {
	scope := e.Scope
	if scope == "" {
		scope = "the run"
	}
	var text string
	switch e.How {
	case "order", "kind":
		text = fmt.Sprintf("call %d of %s: recorded %s, now %s", e.Ordinal, scope, e.Recorded, e.Asked)
	case "end":
		text = fmt.Sprintf("%s ended without its recorded call %d, %s", scope, e.Ordinal, e.Recorded)
	case "version":
		text = fmt.Sprintf("%s has recorded version %s, the program has %s", scope, e.Recorded, e.Asked)
	case "input":
		text = fmt.Sprintf("the input of %s: %s", e.Address, cmp.Or(strings.Join(e.Fields, "; "), "not the recorded one"))
	case "output":
		text = fmt.Sprintf("the recorded output of %s has fields that its type lacks: %s", e.Address, strings.Join(e.Fields, "; "))
		if len(e.Fields) == 0 {
			text = fmt.Sprintf("the recorded output of %s does not fit its type: %s", e.Address, e.Asked)
		}
	case "overlap":
		text = fmt.Sprintf("goroutines have called %s with the same input concurrently, and %s: the records do not show which goroutine gets which result", e.Address, e.Recorded)
	case "swap":
		text = fmt.Sprintf("the request of %s is recorded as that of %s, with the same conversation: the two were swapped", e.Address, e.Recorded)
	case "value":
		text = fmt.Sprintf("%s has fields that the type of its reader lacks: %s", e.Recorded, strings.Join(e.Fields, "; "))
	default:
		text = fmt.Sprintf("the %s of %s: recorded %s, now %s", e.How, e.Address, e.Recorded, e.Asked)
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// advice describes how the run can continue.
func (e *DivergenceError) advice() string {
	fix := "core.Version for changed code"
	switch {
	case e.How == "version":
		return "Run a program that has that version, or " + e.fork()
	case e.How == "swap":
		return "Make the calls in the recorded order, with actors.Map, actors.Parallel or Prepare if goroutines make them, and take from core.Step what changes from run to run, such as a date; or " + e.fork() + ", or see state.WithDivergence"
	case e.How == "overlap":
		return "Use actors.Map, actors.Parallel or Prepare for calls in parallel, and " + e.fork() + "; or state.DivergenceTrust, if it does not matter"
	case e.How == "input" && e.Scope == "":
		return "Use a new run ID for another input"
	case e.How == "output" && len(e.Fields) == 0:
		fix = "give the field its previous type, or a new name"
	case e.How == "output" || e.How == "value":
		fix = "keep the field with omitempty"
	case e.How == "input" || e.How == "question":
		fix += ", core.Step or core.Identifier for what differs from run to run"
		if e.How == "input" {
			fix += ", actors.Map, actors.Parallel or Prepare for calls from goroutines"
		}
	}
	return fmt.Sprintf("Run the previous program, or change this one (%s); or %s, or see state.WithDivergence", fix, e.fork())
}

// ForkAddress returns the address of the call before which to fork the run, so that the fork
// continues with the current program. The address is zero if the current program needs a new run.
func (e *DivergenceError) ForkAddress() record.Address {
	switch {
	case e.How == "input" && e.Scope == "": // a fork would have the same run input
		return record.Address{}
	case !e.Fork.IsZero():
		return e.Fork
	case !e.Was.IsZero():
		return e.Was
	}
	return e.Address
}

// fork describes how to begin a new run with the current program.
func (e *DivergenceError) fork() string {
	at := e.ForkAddress()
	if at.IsZero() {
		return "begin a new run"
	}
	return fmt.Sprintf("fork the run: reprise --dir DIR fork %s '%s' NEW", e.RunID, at)
}

// Is matches [ErrDivergence].
func (e *DivergenceError) Is(target error) bool { return target == ErrDivergence }

// checkEnd returns a suspension if a handler ended without making all the calls that were recorded
// in its scope. It returns nil if a time limit, a group or the end of a context ended the handler.
func (c *Call) checkEnd(s *Scope) *InterruptedError {
	history := c.root.settings.History
	if history == nil || s.endedItself() || s.outer.Err() != nil || c.parent.context().Err() != nil {
		return nil
	}
	claimed := 0
	if in := s.state.Load(); in != nil {
		in.claims.mu.Lock()
		claimed = in.claims.ordinal
		in.claims.mu.Unlock()
	}
	err := history.Ended(s, claimed)
	if err == nil {
		return nil
	}
	return c.parent.InterruptionBy(err)
}

// InterruptionBy returns the suspension that an error of the run causes for the calls inside the
// scope. The error means that the run could not be resumed, which is not a failure of the program.
func (s *Scope) InterruptionBy(err error) *InterruptedError {
	if e, ok := err.(*InterruptedError); ok { //nolint:errorlint // the run itself has stopped
		return e
	}
	if e := s.endCause(); e != nil { // this may be the cause of the error
		return e
	}
	return &InterruptedError{Reason: record.InterruptReplay, Cause: err}
}
