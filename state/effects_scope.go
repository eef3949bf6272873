package state

import (
	"iter"
	"strconv"
	"strings"
)

// This file determines where effects are: in which attempts of which calls.

// effectScope holds the effects in a scope and in the scopes inside it, in order.
type effectScope struct {
	all      []*effect
	around   *effectScope // nil if the surrounding scope is the run
	attempt  int
	attempts *attemptScopes // the scopes of all attempts of the same call, this one included
}

// attemptScopes holds the scopes of those attempts of one call that contain effects.
type attemptScopes struct{ scopes []*effectScope }

// scope returns the scope with the path, or nil for the run itself. It creates the scope if
// necessary.
func (all *effects) scope(path string) *effectScope {
	if path == "" {
		return nil
	}
	s := all.scopes[path]
	if s != nil {
		return s
	}
	if all.scopes == nil {
		all.scopes, all.attempts = make(map[string]*effectScope), make(map[string]*attemptScopes)
	}
	call := callOf(path)
	of := all.attempts[call]
	if of == nil {
		of = new(attemptScopes)
		all.attempts[call] = of
	}
	s = &effectScope{around: all.scope(outerScope(path)), attempt: attemptNumber(path), attempts: of}
	of.scopes = append(of.scopes, s)
	all.scopes[path] = s
	return s
}

// inAttempts yields the effects in those attempts of the call at the path whose number is below
// attempt.
func (all *effects) inAttempts(path string, attempt int) iter.Seq[*effect] {
	return func(yield func(*effect) bool) {
		of := all.attempts[path]
		if of == nil {
			return
		}
		for _, s := range of.scopes {
			if s.attempt < attempt && !each(s.all, yield) {
				return
			}
		}
	}
}

// each calls yield for each effect until yield returns false. It reports whether yield always
// returned true.
func each(all []*effect, yield func(*effect) bool) bool {
	for _, e := range all {
		if !yield(e) {
			return false
		}
	}
	return true
}

// attemptNumber returns the number of the attempt that the scope belongs to, counting from 0. For a
// scope that does not belong to an attempt, it returns 0.
func attemptNumber(scope string) int {
	if at := strings.LastIndexByte(scope, '@'); at > strings.LastIndexByte(scope, '/') {
		if n, err := strconv.Atoi(scope[at+1:]); err == nil {
			return n - 1
		}
	}
	return 0
}
