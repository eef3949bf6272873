package state

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// Put stores v under key in the run that ctx belongs to. The value belongs to
// the attempt that writes it: that attempt and what it calls see it at once,
// everyone else when its call completes. An attempt that fails, is abandoned
// or does not finish leaves nothing; what a precondition writes belongs to all
// attempts of its call, also after a restart, for preconditions do not run
// again. Outside every call the value is there for everyone at once.
//
// v is kept encoded: changing it afterwards changes nothing. A value that
// cannot be encoded is an error that names the field. Outside a run it is
// [core.ErrNoRun].
func Put[T any](ctx context.Context, key string, v T) error {
	h := From(ctx)
	if h == nil {
		return core.ErrNoRun
	}
	if key == "" {
		return errors.New("state: value: the key is empty")
	}
	encoded, err := record.Encode(v)
	if err != nil {
		return fmt.Errorf("state: value %q: %w", key, err)
	}
	return h.run.put(h.scope, value{key: key, encoded: encoded})
}

// Get returns the value under key that ctx sees (see [Put]), and whether there
// is one. A value that cannot be read as a T is an error that names the key.
// Between structs, fields are matched by their json names. Those that the value
// lacks are zero; one that T lacks stops the run, as a recorded output with such
// a field does (see [core.DivergenceError]), also where the value was written a
// moment ago: read a part of a value as a map, or leave out with omitempty what is
// zero.
func Get[T any](ctx context.Context, key string) (v T, ok bool, err error) {
	h := From(ctx)
	if h == nil {
		return v, false, core.ErrNoRun
	}
	encoded, ok, err := h.run.get(h.scope, key)
	if !ok || err != nil {
		return v, false, err
	}
	lost, err := record.DecodeAll(encoded, &v)
	if err == nil && len(lost) > 0 {
		err = h.run.refuseValue(h.scope, key, lost)
	}
	if err != nil {
		var zero T
		return zero, true, fmt.Errorf("state: value %q: %w", key, err)
	}
	return v, true, nil
}

// refuseValue stops the run because a value has fields that the type it is read
// as does not have. It returns nil where the run trusts such values.
func (r *run) refuseValue(s *core.Scope, key string, lost []string) error {
	err := r.Refuse(s, &core.DivergenceError{
		RunID: r.settings.RunID, How: "value", Address: s.Address(), Scope: s.Path(),
		Recorded: fmt.Sprintf("the value %q", key), Asked: "read without them", Fields: lost,
		Hint: "to read a part of a value, read it as a map",
	})
	if e := (*core.InterruptedError)(nil); errors.As(err, &e) {
		s.Suspend(e)
	}
	return err
}

type value struct {
	key     string
	encoded []byte
	seq     uint64 // of its record, once it has one
}

// An attemptID identifies an attempt of a call, or what its preconditions do.
type attemptID struct {
	call    record.Address
	attempt int
}

func idOf(s *core.Scope) attemptID {
	if s.IsPreconditions() {
		return preconditionsOf(s)
	}
	return attemptID{s.Address(), s.Attempt()}
}

// preconditionsOf identifies what the preconditions of the call did. It belongs
// to all attempts.
func preconditionsOf(s *core.Scope) attemptID { return attemptID{s.Address(), record.Preconditions} }

// values are those of the run, and those of the attempts under way.
type values struct {
	common  map[string]value
	pending map[attemptID][]value // in the order of writing
}

// attemptOf is s if it is an attempt, and nil outside every call.
func attemptOf(s *core.Scope) *core.Scope {
	if s == nil || s.Parent() == nil {
		return nil
	}
	return s
}

func (r *run) put(s *core.Scope, v value) error {
	attempt := attemptOf(s)
	r.mu.Lock()
	switch {
	case r.closed:
		r.mu.Unlock()
		return ErrClosed
	case s.Closed():
		r.mu.Unlock()
		return core.ErrAttemptOver
	case attempt != nil:
		defer r.mu.Unlock()
		if r.values.pending == nil {
			r.values.pending = make(map[attemptID][]value)
		}
		id := idOf(attempt)
		r.values.pending[id] = append(r.values.pending[id], v)
		return nil
	}
	r.commit(record.Address{}, v)
	err := r.write()
	r.publish()
	return err
}

func (r *run) get(s *core.Scope, key string) ([]byte, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ; s != nil; s = s.Parent() {
		if err := r.restorePreconditions(s); err != nil {
			return nil, false, err
		}
		for _, id := range [...]attemptID{idOf(s), preconditionsOf(s)} {
			if encoded, ok := r.values.latest(id, key); ok {
				return encoded, true, nil
			}
		}
	}
	common, ok := r.values.common[key]
	return common.encoded, ok, nil
}

// settleValues decides what becomes of the values of the attempt s, which rec
// begins or ends. With its first attempt, a call records what its preconditions
// wrote: they do not run again when it is resumed. What an attempt wrote is
// there for everyone if the call completed, and else gone; what the
// preconditions wrote stays as long as there are attempts. The lock is held.
func (r *run) settleValues(s *core.Scope, rec *record.Record) {
	if !rec.Kind.IsCall() {
		return
	}
	id := idOf(s)
	switch {
	case rec.Status == record.StatusStarted:
		r.keepPreconditions(s, rec.Address)
	case rec.WillRetry:
		delete(r.values.pending, id)
	case rec.Status == record.StatusCompleted:
		for _, v := range append(r.values.pending[preconditionsOf(s)], r.values.pending[id]...) {
			r.values.replace(s, v.key)
			r.commit(rec.Address, v)
		}
		r.values.drop(s)
	default:
		r.values.drop(s)
	}
}

// keepPreconditions records what the preconditions of a call wrote and was not
// recorded yet. It belongs to the call alone until that completes, and is then
// recorded again: it is only then that others see it.
func (r *run) keepPreconditions(s *core.Scope, a record.Address) {
	written := r.values.pending[preconditionsOf(s)]
	for i := range written {
		if v := &written[i]; v.seq == 0 {
			v.seq = uint64(r.len()) + 1
			r.keepValue(a, *v, record.StagePrecondition)
		}
	}
}

// latest is what the attempt has written there last.
func (v *values) latest(id attemptID, key string) ([]byte, bool) {
	written := v.pending[id]
	for i := len(written) - 1; i >= 0; i-- {
		if written[i].key == key {
			return written[i].encoded, true
		}
	}
	return nil, false
}

// drop forgets what the attempt and the preconditions of its call have written.
func (v *values) drop(s *core.Scope) {
	delete(v.pending, idOf(s))
	delete(v.pending, preconditionsOf(s))
}

// replace drops what the attempts around s, and the preconditions of their
// calls, have written there: it is older than what s left.
func (v *values) replace(s *core.Scope, key string) {
	for around := s.Parent(); around != nil; around = around.Parent() {
		v.forget(idOf(around), key)
		v.forget(preconditionsOf(around), key)
	}
}

// forget drops what the attempt has written there.
func (v *values) forget(id attemptID, key string) {
	if written := v.pending[id]; written != nil {
		v.pending[id] = slices.DeleteFunc(written, func(w value) bool { return w.key == key })
	}
}

// set gives v to everyone.
func (v *values) set(to value) {
	if v.common == nil {
		v.common = make(map[string]value)
	}
	if to.seq >= v.common[to.key].seq { // parallel calls may be recalled in another order
		v.common[to.key] = to
	}
}

// commit gives v to everyone and records it. The lock is held.
func (r *run) commit(from record.Address, v value) {
	v.seq = uint64(r.len()) + 1
	r.values.set(v)
	r.keepValue(from, v, record.StageNone)
}

func (r *run) keepValue(from record.Address, v value, stage record.Stage) {
	r.keep(&record.Record{
		Time: now(), Address: from, Name: v.key, Kind: record.KindValue, Status: record.StatusRecorded, Stage: stage,
		Detail: &record.Detail{Output: v.encoded},
	})
}
