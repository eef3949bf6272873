package core

import (
	"context"
	"fmt"
)

// Version returns which version of a piece of code to run, for code that
// changes while runs are under way:
//
//	if core.Version(ctx, "use-new-tax-rules", 2) >= 2 {
//		…
//	}
//
// N is the highest version that the program has, from 1 up. The first time that
// an attempt asks for a name, the answer is recorded: n, or 0 in a run whose
// records show that this attempt passed the place before the program asked
// there. From then on the attempt keeps that answer, in a loop as well as after
// a resume, whatever n is by then. So a run continues as it began, and runs
// that begin later use the new code. A branch for a version can be deleted when
// no run needs it any more, and the whole call of Version after that.
//
// Version is not a call of an actor: it may be added and deleted at any time.
// Each attempt, and each branch of a group, asks for itself.
//
// A recorded version above n stops the run, as a diverging call does (see
// [DivergenceError]), and so does an n below 1 or a name that [CheckName]
// refuses: whatever the handler calls then is interrupted, and the result does
// not matter. Outside every call, Version returns n.
func Version(ctx context.Context, name string, n int) int {
	s := ScopeOf(ctx)
	if s == nil {
		return n
	}
	in := s.claims()
	in.mu.Lock()
	defer in.mu.Unlock()
	if s.offPath() != nil {
		return n // nothing follows that could be recorded
	}
	v, err := s.root.run.Version(s, VersionQuestion{Name: name, Highest: n, Claimed: in.ordinal})
	if err != nil {
		s.Suspend(s.interruptionBy(err))
		return n
	}
	return v
}

// A VersionQuestion is a call of [Version] in a scope.
type VersionQuestion struct {
	Name    string
	Highest int // the version that the program has
	Claimed int // claims of the scope so far
}

// Check returns an error if the question is invalid, whatever was recorded.
func (q VersionQuestion) Check() error {
	if err := CheckName(q.Name); err != nil {
		return fmt.Errorf("core: Version(%q, %d): %w", q.Name, q.Highest, err)
	}
	if q.Highest < 1 {
		return fmt.Errorf("core: Version(%q, %d): versions are numbered from 1 up; 0 is the code before there were any", q.Name, q.Highest)
	}
	return nil
}
