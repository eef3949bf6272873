package state

import (
	"fmt"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// versionKey identifies a version, which applies to one attempt or one branch of a group.
type versionKey struct{ scope, name string }

// recordedVersion holds the contents of a version's last record.
type recordedVersion struct {
	version      int
	err          error // why the version cannot be read
	claimsBefore int   // number of claims before the version in its scope
	seq          uint64
	generation   uint64
}

// versions holds the recorded versions.
type versions map[versionKey]recordedVersion

func (v *versions) add(rec *record.Record) {
	was := recordedVersion{claimsBefore: rec.Ordinal, seq: rec.Seq, generation: rec.Generation}
	if err := record.Decode(rec.Encoded(), &was.version); err != nil {
		was.err = fmt.Errorf("state: record %d of version %q: %w", rec.Seq, rec.Name, err)
	}
	if *v == nil {
		*v = make(versions)
	}
	(*v)[versionKey{scopeOfRecord(rec), rec.Name}] = was
}

// scopeOfRecord returns the path of the attempt that a record comes from.
func scopeOfRecord(rec *record.Record) string {
	switch {
	case rec.Address.IsZero():
		return ""
	case rec.Stage == record.StagePrecondition:
		return rec.Address.String() + "@pre"
	}
	return scopePath(rec.Address, rec.Attempt)
}

// drop removes each version that a refused opening recorded, if a later opening has passed the same
// point without recording it.
func (v versions) drop(refused map[uint64]bool, claims ordinals) {
	for key, was := range v {
		s := claims[key.scope]
		if !refused[was.generation] || s == nil {
			continue
		}
		for i := was.claimsBefore; i < len(s.claims); i++ {
			if c := s.claims[i]; c != nil && c.generation > was.generation {
				delete(v, key)
				break
			}
		}
	}
}

// isRefused reports whether the opening with the given generation was refused because the program
// differed.
func (r *restoredRun) isRefused(generation uint64) bool { return r != nil && r.refused[generation] }

// Version implements engine.Run.
func (r *run) Version(s *engine.Scope, q engine.VersionQuestion) (int, error) {
	if err := q.Check(); err != nil {
		return 0, r.refuse(err)
	}
	key := versionKey{s.Path(), q.Name}
	r.mu.Lock()
	if s.Closed() || r.life.closed {
		r.mu.Unlock()
		return q.Highest, nil
	}
	was, known := r.version(s, q.Name)
	switch {
	case known && was.err != nil:
		r.mu.Unlock()
		return 0, r.refuse(was.err)
	case known && was.version > q.Highest:
		r.mu.Unlock()
		return 0, r.refuse(&core.DivergenceError{
			RunID: r.settings.RunID, How: "version", Address: s.Address(), Scope: key.scope,
			Recorded: fmt.Sprintf("%d of %q", was.version, q.Name), Asked: fmt.Sprintf("%d at most", q.Highest),
		})
	case known && !r.restored.isRefused(was.generation):
		r.mu.Unlock()
		return was.version, nil
	case known: // recorded by a refused opening: record the version again
	case r.hasPassed(s, key.scope, q.Claimed):
		was.version = 0
	default:
		was.version = q.Highest
	}
	err := r.recordVersion(s, key, q.Claimed, was.version)
	r.mu.Unlock() // published with the next record, because nothing is published while a call is being claimed
	if err != nil {
		return 0, r.stop(err)
	}
	return was.version, nil
}

// version returns the version on record for s. r.mu must be held.
func (r *run) version(s *engine.Scope, name string) (was recordedVersion, known bool) {
	was, known = r.versions[versionKey{s.Path(), name}]
	return was, known && was.seq > r.rerun.at(s)
}

// hasPassed reports whether the attempt had already passed this point, that is, whether the records
// contain later claims or the end of the attempt. r.mu must be held.
func (r *run) hasPassed(s *engine.Scope, scope string, claimed int) bool {
	if r.restored == nil {
		return false
	}
	if c := r.restored.ordinals[scope]; c != nil && claimed < c.numChecked() {
		return true
	}
	t := r.restored.calls[s.Address()]
	return t != nil && t.Phase == record.StateCompleted && int(t.Attempt) == s.Attempt() && !r.rerun.isDiscarded(s.Address())
}

// numChecked returns the number of claims that the program must repeat.
func (s *scopeClaims) numChecked() int {
	if s.unchecked > 0 {
		return min(s.unchecked-1, len(s.claims))
	}
	return len(s.claims)
}

// recordVersion records the version of a scope. r.mu must be held.
func (r *run) recordVersion(s *engine.Scope, key versionKey, claimed, version int) error {
	encoded, err := record.Encode(version)
	if err != nil {
		return err
	}
	rec := record.Record{
		Time: now(), Address: s.Address(), Name: key.name, Kind: record.KindVersion, Status: record.StatusRecorded,
		Attempt: s.Attempt(), Ordinal: claimed, Detail: &record.Detail{Output: encoded},
	}
	if s.IsPreconditions() {
		rec.Stage = record.StagePrecondition
	}
	r.keep(&rec)
	if r.versions == nil {
		r.versions = make(versions)
	}
	r.versions[key] = recordedVersion{version: version, claimsBefore: claimed, seq: uint64(r.keeper.len()), generation: r.generation}
	return r.write()
}

// refuse stops the run because the program cannot continue it, and returns the interrupt.
func (r *run) refuse(err error) *core.InterruptedError {
	e := &core.InterruptedError{Reason: record.InterruptDiverge, Cause: err}
	r.interrupt(e)
	return e
}
