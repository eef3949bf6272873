package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/callsite"
	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Put stores v under key in the run to which ctx belongs. The value belongs to the attempt that
// writes it. That attempt and the calls inside it see the value at once; all other calls see it
// once the attempt's call completes. If the attempt fails, is abandoned or does not finish, the
// value is dropped. A value written by a precondition belongs to all attempts of its call, even
// after a restart, because preconditions do not run again. A value written outside all calls is
// visible to everyone at once.
//
// v is kept encoded, so changing it later has no effect. If v cannot be encoded, the error names
// the field. Outside a run, the error is [core.ErrNoRun]. With [PutShown], the value can be read
// with [Values] and on the dashboard.
func Put[T any](ctx context.Context, key string, v T, options ...PutOption) error {
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
	to := value{key: key, encoded: encoded}
	for _, option := range options {
		option(&to)
	}
	return h.run.put(h.scope, to)
}

// A PutOption configures [Put].
type PutOption func(*value)

// PutShown exposes the value outside the run as soon as it is visible to every call in the run. See
// [Values], and GET /api/runs/{run}/values in package streamer. A later value that is put under the
// same key without PutShown hides it.
func PutShown() PutOption { return func(v *value) { v.shown = true } }

// shownMessage marks the record of a value that is exposed.
const shownMessage = "shown"

// Values returns, by key, the values that a stored run exposes (see [PutShown]), as JSON. They are
// not redacted.
func Values(ctx context.Context, store snapshot.Store, runID string) (map[string]json.RawMessage, error) {
	if err := checkStore(store); err != nil {
		return nil, err
	}
	found, err := store.Load(ctx, runID)
	if err != nil {
		return nil, fmt.Errorf("state: values of run %s: %w", runID, err)
	}
	shown := make(map[string]json.RawMessage)
	for rec, err := range found.Records() {
		if err != nil {
			return nil, fmt.Errorf("state: values of run %s: %w", runID, err)
		}
		if rec.Kind != record.KindValue || rec.Stage == record.StagePrecondition {
			continue
		}
		delete(shown, rec.Name)
		if rec.Message() != shownMessage {
			continue
		}
		text, err := codec.AppendJSON(nil, rec.Encoded(), 0)
		if err != nil {
			return nil, fmt.Errorf("state: value %q of run %s: %w", rec.Name, runID, err)
		}
		shown[rec.Name] = text
	}
	return shown, nil
}

// Get returns the value under key that is visible in ctx (see [Put]), and whether there is one. If
// the value cannot be read as a T, the error names the key. Struct fields are matched by their json
// names. Fields that are missing in the value are zero. If the value has a field that T lacks, the
// run is stopped, as for a recorded output (see [core.DivergenceError]), even if the value was just
// written. To read only part of a value, read it as a map, or let the writer omit zero fields with
// omitempty.
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

// refuseValue stops the run because a value has fields that are missing in the type into which it
// is read. It returns nil if the run accepts such values.
func (r *run) refuseValue(s *engine.Scope, key string, lost []string) error {
	history := r.settings.History
	if history == nil {
		history = r
	}
	_, err := history.Differs(s, &core.DivergenceError{
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
	shown   bool
	seq     uint64 // number of its record, once it has one
}

// An attemptID identifies an attempt of a call, or the preconditions of a call.
type attemptID struct {
	call    record.Address
	attempt int
}

func idOf(s *engine.Scope) attemptID {
	if s.IsPreconditions() {
		return preconditionsOf(s)
	}
	return attemptID{s.Address(), s.Attempt()}
}

// preconditionsOf identifies the preconditions of the call of s. All attempts of the call share
// their values.
func preconditionsOf(s *engine.Scope) attemptID {
	return attemptID{s.Address(), callsite.PreconditionAttempt}
}

// values holds the run's common values and the values of running attempts.
type values struct {
	common  map[string]value
	pending map[attemptID][]value // in the order in which they were written
}

// attemptOf returns s if it is an attempt, and nil outside all calls.
func attemptOf(s *engine.Scope) *engine.Scope {
	if s == nil || s.Parent() == nil {
		return nil
	}
	return s
}

func (r *run) put(s *engine.Scope, v value) error {
	attempt := attemptOf(s)
	r.mu.Lock()
	switch {
	case r.life.closed:
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
	r.publishAndUnlock()
	return err
}

func (r *run) get(s *engine.Scope, key string) ([]byte, bool, error) {
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

// settleValues keeps or drops the values of the attempt s, which rec begins or ends. The
// preconditions' values are recorded before the started record of the first attempt, because
// preconditions do not run again when the call is resumed. An attempt's values become common if the
// call completes; otherwise they are dropped. The preconditions' values are kept as long as further
// attempts may follow. r.mu must be held.
func (r *run) settleValues(s *engine.Scope, rec *record.Record) {
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

// keepPreconditions records those values of a call's preconditions that are not recorded yet. They
// belong to the call alone until the call completes. They are then recorded again, because other
// calls see them only from then on.
func (r *run) keepPreconditions(s *engine.Scope, a record.Address) {
	written := r.values.pending[preconditionsOf(s)]
	for i := range written {
		if v := &written[i]; v.seq == 0 {
			v.seq = uint64(r.keeper.len()) + 1
			r.keepValue(a, *v, record.StagePrecondition)
		}
	}
}

// latest returns the value that the attempt last wrote under key.
func (v *values) latest(id attemptID, key string) ([]byte, bool) {
	written := v.pending[id]
	for i := len(written) - 1; i >= 0; i-- {
		if written[i].key == key {
			return written[i].encoded, true
		}
	}
	return nil, false
}

// drop removes the values of the attempt and of the preconditions of its call.
func (v *values) drop(s *engine.Scope) {
	delete(v.pending, idOf(s))
	delete(v.pending, preconditionsOf(s))
}

// replace removes the values under key that were written by the attempts around s or by the
// preconditions of their calls. These values are older than the one written by s.
func (v *values) replace(s *engine.Scope, key string) {
	for around := s.Parent(); around != nil; around = around.Parent() {
		v.forget(idOf(around), key)
		v.forget(preconditionsOf(around), key)
	}
}

// forget removes the attempt's values under key.
func (v *values) forget(id attemptID, key string) {
	if written := v.pending[id]; written != nil {
		v.pending[id] = slices.DeleteFunc(written, func(w value) bool { return w.key == key })
	}
}

// set makes a value common.
func (v *values) set(to value) {
	if v.common == nil {
		v.common = make(map[string]value)
	}
	if to.seq >= v.common[to.key].seq { // parallel calls may be recalled in a different order
		v.common[to.key] = to
	}
}

// commit makes v common and records it. r.mu must be held.
func (r *run) commit(from record.Address, v value) {
	v.seq = uint64(r.keeper.len()) + 1
	r.values.set(v)
	r.keepValue(from, v, record.StageNone)
}

func (r *run) keepValue(from record.Address, v value, stage record.Stage) {
	detail := &record.Detail{Output: v.encoded}
	if v.shown {
		detail.Message = shownMessage
	}
	r.keep(&record.Record{
		Time: now(), Address: from, Name: v.key, Kind: record.KindValue, Status: record.StatusRecorded, Stage: stage,
		Detail: detail,
	})
}
