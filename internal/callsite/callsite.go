package callsite

import (
	"strings"
	"unique"

	"github.com/reprise-go/reprise/internal/segment"
)

// In scopes that are not attempts, these take the place of the attempt number.
const (
	PreconditionAttempt = -1 // preconditions make the calls
	CompensationAttempt = -2 // the calls are compensations
)

// A Site is the part of an address that is shared by calls with the same name in the same scope. It
// is comparable and as small as a pointer.
type Site struct{ handle unique.Handle[parts] } // interned, which halves the size of a record

type parts struct {
	scope  string // the path of the scope that numbers the calls; empty at the root
	name   string // the escaped segment, with its prefix if it is a tag or a group
	branch bool   // the scope belongs to a group
}

// Of returns the site for calls in the scope with the given path. The name is either an escaped
// segment, as package segment makes it, or the number of a branch.
func Of(path, name string) Site {
	around := path[strings.LastIndexByte(path, '/')+1:]
	return Site{unique.Make(parts{path, name, strings.HasPrefix(around, segment.GroupPrefix)})}
}

// Call returns the nth call of the site, counted from 1.
func (s Site) Call(nth int) Call { return Call{s, nth} }

// A Call is a site together with the number of a call there. The zero Call is the run itself.
type Call struct {
	site Site
	nth  int // from 1; 0 for the zero Call
}

// Site returns the site of the call.
func (c Call) Site() Site { return c.site }

// Nth returns the number of the call at its site, counted from 1. It is 0 for the zero Call.
func (c Call) Nth() int { return c.nth }

// Scope returns the path of the scope that numbers the call. It is empty at the root.
func (c Call) Scope() string { return c.parts().scope }

// Name returns the escaped segment of the call without its number.
func (c Call) Name() string { return c.parts().name }

// IsBranch reports whether the call is a branch of a group.
func (c Call) IsBranch() bool { return c.parts().branch }

func (c Call) parts() parts {
	if c.nth == 0 {
		return parts{}
	}
	return c.site.handle.Value()
}
