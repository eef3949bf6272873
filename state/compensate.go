package state

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Compensable is an actor whose completed calls can be undone: an actors.Tool,
// LLM or Agent with a method Compensate that was called.
type Compensable interface {
	// Compensation is nil if there is none.
	Compensation() *core.Compensation
}

// WithCompensations makes the compensations of actors known to the run. A run
// that is resumed may have to undo calls that an earlier process made, without
// the program coming to them again, so a stored run must know every actor with
// a compensation that it calls: a call of one that is missing here suspends the
// run. [New], whose runs end with the process, needs none.
//
// The option panics for an actor without a compensation, and for two of one kind
// and name.
func WithCompensations(actors ...Compensable) Option {
	return func(c *config) {
		for i, actor := range actors {
			if actor == nil || actor.Compensation() == nil {
				c.must(fmt.Errorf("state: WithCompensations: actor %d has none; its method Compensate gives it one", i+1))
			}
			known := actor.Compensation()
			if c.settings.Compensations == nil {
				c.settings.Compensations = make(map[core.CompensationKey]*core.Compensation)
			}
			if other := c.settings.Compensations[known.Key()]; other != nil && other != known {
				c.must(fmt.Errorf("state: WithCompensations: there are two actors of kind %v named %q; allowed is one", known.Key().Kind, known.Key().Name))
			}
			c.settings.Compensations[known.Key()] = known
		}
	}
}

// Completed implements core.Run.
func (r *run) Completed() []core.Completed {
	if r.restored == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.restored.completed(r.rerunFailed)
}

// Values implements core.Run.
func (r *run) Values(ctx context.Context, a record.Address) (in, out []byte, err error) {
	t := r.restored.calls[a]
	began, err := r.restored.found.Record(t.first)
	if err != nil {
		return nil, nil, err
	}
	outcome, err := r.restored.found.Record(t.Last)
	if err != nil {
		return nil, nil, err
	}
	if d := outcome.Detail; d != nil && d.Artifact != "" && len(d.Output) == 0 {
		reader, ok := r.artifacts.(ArtifactReader)
		if !ok {
			return nil, nil, fmt.Errorf("state: %s: its output is artifact %s; open the run with the artifacts that have it (state.WithArtifacts)", a, d.Artifact)
		}
		if out, err = reader.Get(ctx, d.Artifact); err != nil {
			return nil, nil, fmt.Errorf("state: %s: its output: %w", a, err)
		}
	} else {
		out = outcome.Encoded()
	}
	if began.Detail == nil || len(began.Detail.Input) == 0 || len(out) == 0 {
		return nil, nil, fmt.Errorf("%w: %s has a compensation, and its input or output is not on record", snapshot.ErrCorrupt, a)
	}
	return began.Detail.Input, out, nil
}

// completed are the calls that completed and can be compensated, in the order in
// which they did. Where failed calls are tried again, none has decided anything.
func (r *restored) completed(rerunFailed bool) []core.Completed {
	var all []core.Completed
	for _, a := range r.compensable {
		t := r.calls[a]
		if t.Phase != record.PhaseSucceeded || t.kind == 0 {
			continue
		}
		rec, err := r.found.Record(t.Last)
		if err != nil {
			continue // what cannot be read stops the run when it is asked for
		}
		c := core.Completed{Address: a, Key: core.CompensationKey{Kind: t.kind, Name: rec.Name}}
		c.Nth, c.Found = r.compensation(a, rec.Name)
		if !rerunFailed {
			c.By = r.failedAround(a)
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(x, y core.Completed) int { return int(r.calls[x.Address].Last) - int(r.calls[y.Address].Last) })
	return slices.CompactFunc(all, func(x, y core.Completed) bool { return x.Address == y.Address })
}

// compensation is the latest compensation of the call, and what is recorded of
// it; one that was made before the call completed last is of no more use.
func (r *restored) compensation(a record.Address, name string) (nth int, found *record.Progress) {
	site := record.Site(a.Path(record.Compensations), record.Segment(name))
	for nth = 1; ; nth++ {
		t := r.calls[site.Address(nth)]
		if t == nil || t.Last == 0 {
			return nth, nil
		}
		if t.Last > r.calls[a].Last {
			return nth, r.progress(site.Address(nth), false)
		}
	}
}

// failedAround is the innermost call around the one at a that failed for good
// and has it compensated; zero for none.
func (r *restored) failedAround(a record.Address) record.Address {
	for scope := a.Scope(); scope != ""; scope = outer(scope) {
		around, err := record.ParseAddress(callOf(scope))
		if err != nil {
			continue
		}
		t := r.calls[around]
		if t == nil || t.Phase != record.PhaseFailed {
			continue
		}
		if t.kind != record.KindGroup && t.kind != record.KindBranch || around.Scope() == "" {
			return around
		}
	}
	return record.Address{}
}

// undone has a call made again that completed and was compensated since, which
// only happens where the calls around it are tried again. Its calls have the
// scope of another attempt. The lock is held.
func (r *run) undone(a record.Address, p *record.Progress) {
	if p == nil || p.Phase != record.PhaseSucceeded || len(r.restored.compensable) == 0 || r.validation != nil || r.strict {
		return
	}
	t := r.restored.calls[a]
	rec, err := r.restored.found.Record(t.Last)
	if err != nil || rec.Detail == nil || !rec.Detail.Compensable {
		return
	}
	if _, found := r.restored.compensation(a, rec.Name); found == nil {
		return
	}
	p.Phase, p.Attempt = record.PhaseWaiting, 0
	if isEntered(t.kind) {
		p.Attempt = t.Attempt + 1
	}
	p.Spent, p.Delay, p.Err = 0, 0, nil
}

// errUncompensated is a run for which a cancel waits, and that has calls to be
// compensated first.
var errUncompensated = errors.New("it is cancelled, and has calls to be compensated")

// isCompensated reports whether all that completed in a run was compensated, or
// has no compensation.
func isCompensated(found *snapshot.Run) (bool, error) {
	r, err := newRestored(found)
	if err != nil {
		return false, err
	}
	for _, c := range r.completed(false) {
		if c.Found == nil || !c.Found.HasOutcome() {
			return false, nil
		}
	}
	return true, nil
}

// compensate undoes what a run has completed that is cancelled. That it is
// cancelled is durable before: a process that ends meanwhile leaves the rest to
// the next opening.
func (r *run) compensate() {
	r.mu.Lock()
	e := r.interrupted
	cancelled := r.isCancelled() && r.root.MayCompensate()
	r.mu.Unlock()
	if !cancelled {
		return
	}
	if r.journal != nil {
		m := snapshot.Message{Record: record.Record{Time: now(), Kind: record.KindRun, Status: record.StatusCancelled, Err: e}}
		if err := r.stored.Post(context.Background(), r.settings.RunID, m); err != nil && !errors.Is(err, snapshot.ErrPosted) {
			r.uncompensated = &core.InterruptedError{Reason: record.InterruptStore, Cause: err}
			return
		}
	}
	r.uncompensated = r.root.Compensate(context.Background())
}

// endCancelled compensates what a run has completed that was opened after it was
// cancelled, and closes it. It returns the *[CancelledError], joined with what
// went wrong.
func (r *run) endCancelled() error {
	err := r.close()
	stop := stopOf(r.interrupted)
	cancelled := &CancelledError{RunID: r.settings.RunID, By: stop.By, Message: stop.Message}
	switch {
	case r.uncompensated != nil:
		return fmt.Errorf("%w, and not all of its calls are compensated yet: %w", cancelled, r.uncompensated)
	case err != nil:
		return errors.Join(cancelled, err)
	}
	return cancelled
}
