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
	around   *effectScope // nil if the scope around it is the run
	attempt  int
	attempts *attemptScopes // the scopes of all attempts of the same call, this one included
}

// attemptScopes are the scopes of the attempts of one call that contain effects.
type attemptScopes struct{ scopes []*effectScope }

// scope returns the scope with the path, nil for the run itself.
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

// inAttempts yields the effects in the attempts of the call at the path below the given number.
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

// each reports whether yield has returned true for each effect.
func each(all []*effect, yield func(*effect) bool) bool {
	for _, e := range all {
		if !yield(e) {
			return false
		}
	}
	return true
}

// attemptNumber returns the number, from 0, of the attempt whose scope has the path. It is 0 for a
// scope that is not that of an attempt.
func attemptNumber(scope string) int {
	if at := strings.LastIndexByte(scope, '@'); at > strings.LastIndexByte(scope, '/') {
		if n, err := strconv.Atoi(scope[at+1:]); err == nil {
			return n - 1
		}
	}
	return 0
}
