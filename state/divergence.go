package state

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// Divergence says what becomes of a run whose program makes other calls than
// those that were recorded: another call in the place of one, another input, or
// an end before all of them.
type Divergence uint8

const (
	// DivergenceFail stops the run, before anything of the call that differs
	// runs: the run is interrupted, and the error is a core.InterruptedError
	// with a *core.DivergenceError in it. With the program of before, or a
	// mended one, the run goes on. It is the default.
	DivergenceFail Divergence = iota
	// DivergenceTrust lets the address decide: what was recorded there is used.
	// A warning is recorded, the [Report] has the call, and its recovered
	// record says "diverged" in its metadata.
	DivergenceTrust
	// DivergenceRerun makes the call again, and with it all that is called
	// later in its scope and in the scopes around it. Calls that came before
	// it stay restored, and so do those in other branches of a group, and those
	// that were prepared together and before it.
	// A call with a compensation that is made again is undone for both effects.
	DivergenceRerun
)

// WithDivergence sets what becomes of a run whose program differs from its
// records.
func WithDivergence(d Divergence) Option {
	return func(c *config) {
		if d > DivergenceRerun {
			c.must(fmt.Errorf("state: WithDivergence(%d): want DivergenceFail, DivergenceTrust or DivergenceRerun", d))
		}
		c.divergence = d
		c.isFor("WithDivergence", inOpen|inReplay)
	}
}

// rerun is what is called again although it was recorded. A call with another
// input is a fact of its own, the divergence: for what is claimed after it,
// in its scope and those around it, only newer records count. So it goes on
// also in a run that is stopped and resumed before all of it was made again.
type rerun struct {
	after map[*core.Scope]uint64      // the divergence that what is claimed now comes after, by scope
	since map[record.Address]uint64   // the same for calls and groups that were claimed
	anew  map[record.Address]struct{} // calls whose records do not count any more
}

// watchDivergence follows what is claimed, if that may be another call than the
// one that was recorded at its address.
func (r *run) watchDivergence() {
	if r.divergence != DivergenceRerun && !r.restored.diverged && !r.restored.unclaimed {
		return
	}
	r.rerun = rerun{make(map[*core.Scope]uint64), make(map[record.Address]uint64), make(map[record.Address]struct{})}
}

// claimed takes in that a call is claimed. The lock is held.
func (r *run) claimed(s *core.Scope, c record.Claim) {
	since, t := r.rerun.at(s), r.restored.calls[c.Address]
	if t != nil && t.diverged > since {
		since = t.diverged
		r.rerun.from(s, since)
	}
	if r.divergence == DivergenceRerun && t.isSince(since) && t.differs(c.Input) {
		since = r.diverge(c.Address, c.Input)
		r.rerun.from(s, since)
	}
	if t.isOther(c) {
		since = uint64(r.len())
	}
	if since > 0 {
		r.rerun.since[c.Address] = since
	}
	if t != nil && !t.isSince(since) {
		r.rerun.anew[c.Address] = struct{}{}
	}
	if r.journal != nil && r.tail.written < r.tail.n {
		_ = r.write() // a journal that is broken says so when the call begins
	}
}

// diverge records that the call has another input, and returns the number of
// that record. The lock is held.
func (r *run) diverge(a record.Address, input record.Hash) uint64 {
	r.restored.ordinals.after(a, r.restored.calls)
	r.report.Diverged = append(r.report.Diverged, a)
	r.keep(&record.Record{
		Time: now(), Address: a, Kind: record.KindLog, Status: record.StatusRecorded, Reason: record.ReasonDivergence,
		Detail: &record.Detail{
			Severity: slog.LevelWarn, InputHash: input,
			Message: "the input of the call differs from the recorded one: it is made again, and so is what is called after it",
		},
	})
	return uint64(r.len())
}

// mark has the record of a call that is recalled say that it has another input
// now, or another request.
func mark(rec *record.Record, as string) {
	detail := record.Detail{}
	if rec.Detail != nil {
		detail = *rec.Detail
	}
	detail.Metadata = maps.Clone(detail.Metadata)
	if detail.Metadata == nil {
		detail.Metadata = make(map[string]any)
	}
	detail.Metadata[as] = true
	rec.Detail = &detail
}

// key stands for the scope: calls at the root are numbered over all contexts.
func (*rerun) key(s *core.Scope) *core.Scope {
	if s.Parent() == nil {
		return nil
	}
	return s
}

// at is the divergence that a call comes after which is claimed in s now.
func (r *rerun) at(s *core.Scope) uint64 { return max(r.after[r.key(s)], r.within(s)) }

// within is the divergence that everything in s comes after: that of the call
// whose attempt it is.
func (r *rerun) within(s *core.Scope) uint64 {
	return r.since[s.Address()]
}

// from has everything that is claimed from now on, in s and the scopes around
// it, come after the divergence.
func (r *rerun) from(s *core.Scope, divergence uint64) {
	for ; s != nil; s = s.Parent() {
		r.after[r.key(s)] = max(r.after[r.key(s)], divergence)
	}
}

// isAnew reports whether the records of the call do not count any more.
func (r *rerun) isAnew(a record.Address) bool {
	_, anew := r.anew[a]
	return anew
}

// beginAnew has the record say that its call begins anew, and only once. The
// lock is held.
func (r *run) beginAnew(rec *record.Record) {
	if r.rerun.isAnew(rec.Address) {
		rec.Reason = record.ReasonDivergence
		delete(r.rerun.anew, rec.Address)
	}
}

// isSince reports whether the call was made after the divergence.
func (t *track) isSince(divergence uint64) bool {
	switch {
	case t == nil:
		return false
	case t.first > 0:
		return t.first > divergence
	}
	return t.Last > divergence
}

// isOther reports whether the claim is another call than the recorded one, which
// only an opening has made that was refused. It begins anew.
func (t *track) isOther(c record.Claim) bool {
	return t != nil && t.Last > 0 && !t.claimed && (t.kind != c.Kind || t.differs(c.Input))
}

// differs reports whether the call was recorded with another input.
func (t *track) differs(input record.Hash) bool {
	return !t.Input.IsZero() && !input.IsZero() && t.Input != input
}

// followDivergence takes in that the call has another input: what it did, and
// what is inside it, does not count any more.
func (r *restored) followDivergence(rec *record.Record) {
	t := r.track(rec.Address)
	r.beginAnew(rec, t)
	r.ordinals.after(rec.Address, r.calls)
	t.Input, t.diverged = rec.Detail.InputHash, rec.Seq
	r.diverged = true
}

// beginAnew forgets what the call did before the record, and the values that
// are inside it, but for those that its preconditions have just written.
func (r *restored) beginAnew(rec *record.Record, t *track) {
	if written := r.preconditions[rec.Address]; len(written) > 0 {
		i, _ := slices.BinarySearch(written, t.Last)
		r.preconditions[rec.Address] = written[i:]
	}
	r.anew.at(rec)
	*t = track{Progress: record.Progress{Starts: t.Starts}, diverged: t.diverged}
}
