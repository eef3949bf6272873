package engine

import (
	"context"
	"fmt"
)

// Version is core.Version.
func Version(ctx context.Context, name string, n int) int {
	s := ScopeOf(ctx)
	if s == nil {
		return n
	}
	in := s.claims()
	in.mu.Lock()
	defer in.mu.Unlock()
	if s.blockedBy() != nil {
		return n // nothing can be recorded from here on
	}
	v, err := s.root.run.Version(s, VersionQuestion{Name: name, Highest: n, Claimed: in.ordinal})
	if err != nil {
		s.Suspend(s.InterruptionBy(err))
		return n
	}
	return v
}

// A VersionQuestion is a call to [Version] in a scope.
type VersionQuestion struct {
	Name    string
	Highest int // the version of the program
	Claimed int // number of claims in the scope so far
}

// Check returns an error if the question itself is invalid, whatever the records contain.
func (q VersionQuestion) Check() error {
	if err := CheckName(q.Name); err != nil {
		return fmt.Errorf("core: Version(%q, %d): %w", q.Name, q.Highest, err)
	}
	if q.Highest < 1 {
		return fmt.Errorf("core: Version(%q, %d): versions are numbered from 1; 0 is the code before the first version", q.Name, q.Highest)
	}
	return nil
}
