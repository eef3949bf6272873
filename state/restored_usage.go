package state

import (
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// usage holds what each call itself has consumed (own), and what the calls inside each attempt have
// consumed together (inside). The keys of inside are the paths of the attempts' scopes.
type usage struct {
	own    map[record.Address]core.Usage
	inside map[string]core.Usage
}

func (u *usage) add(rec *record.Record) {
	used := rec.Used()
	if used.IsZero() {
		return
	}
	if u.own == nil {
		u.own, u.inside = make(map[record.Address]core.Usage), make(map[string]core.Usage)
	}
	u.own[rec.Address] = u.own[rec.Address].Plus(used)
	for scope := rec.Address.Scope(); scope != ""; scope = outerScope(scope) {
		u.inside[scope] = u.inside[scope].Plus(used)
	}
}

// dropInside forgets what each single call has consumed inside calls that are recalled as a whole.
// It keeps the total of these inner calls.
func (u *usage) dropInside(whole *wholeCalls) {
	own := make(map[record.Address]core.Usage)
	for a, used := range u.own {
		if !whole.has(a.Scope()) {
			own[a] = used
		}
	}
	if len(own) < len(u.own) {
		u.own = own
	}
}

// of returns what the call and the calls inside it have consumed, or nil if they have consumed
// nothing. It leaves out the calls of an attempt that is entered again, because they are recalled
// one by one.
func (u *usage) of(a record.Address, t *track, p *record.Progress) *core.Usage {
	if u.own == nil {
		return nil
	}
	sum := u.own[a].Plus(u.inside[a.String()+"@pre"])
	for attempt := range int(t.Attempt) + 1 {
		if attempt < int(p.Attempt) || !isEnteredAgain(t.kind, p) {
			sum = sum.Plus(u.inside[scopePath(a, attempt)])
		}
	}
	if sum.IsZero() {
		return nil
	}
	return &sum
}

// isEnteredAgain reports whether the handler of a call with this kind and progress runs again to
// make the calls of an attempt that had already begun.
func isEnteredAgain(kind record.Kind, p *record.Progress) bool {
	switch kind {
	case record.KindGroup:
		return true
	case record.KindBranch:
		return !p.HasOutcome() || p.Phase == record.StateCompleted && !p.HasOutput || p.Retrace
	case record.KindAgent:
		return !p.HasOutcome() || p.NoStore || p.Retrace
	}
	return !p.HasOutcome() // the attempt in which the call stopped is made again
}
