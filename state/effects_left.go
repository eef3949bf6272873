package state

import (
	"fmt"
	"log/slog"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// This file is about effects that no call of the program has taken over.

// leftBy returns the effects that remain from earlier attempts of the call that rec ends.
func (all *effects) leftBy(rec *record.Record) []*effect {
	if rec.Attempt == 0 || !rec.IsOutcome() || len(all.latest) == 0 {
		return nil
	}
	path := rec.Address.String()
	var left []*effect
	for e := range all.inAttempts(path, rec.Attempt) {
		if e.isLeft() && !e.reported {
			e.reported = true
			left = append(left, e)
		}
	}
	all.leftOver = append(all.leftOver, left...)
	return left
}

// leftOver returns the effects that no call has taken over: the effects of earlier attempts of
// calls that have ended and, once the run has ended, the effects that a fork inherits from its
// parents. r.mu must be held.
func (r *run) leftOver() (left []record.Effect) {
	for _, e := range r.effects.leftOver {
		if e.isLeft() {
			left = append(left, e.toRecord())
		}
	}
	if status := r.status(); status == snapshot.StatusCompleted || status == snapshot.StatusFailed {
		for _, e := range r.effects.inherited {
			if e.isLeft() {
				left = append(left, e.toRecord())
			}
		}
	}
	return left
}

// warnLeftOver records that effects were left over.
func (r *run) warnLeftOver(s *engine.Scope, rec *record.Record, left []*effect) {
	for _, e := range left {
		_ = r.Append(s, record.Record{ // the warning is lost if that attempt is over
			Time: now(), Address: rec.Address, Kind: record.KindLog, Status: record.StatusRecorded,
			Detail: &record.Detail{Severity: slog.LevelWarn, Message: leftOverMessage(e), Effect: e.Place()},
		})
	}
}

// warnInherited records a warning for each effect that a fork inherits from its parents and that is
// left over when the fork ends. r.mu must be held.
func (r *run) warnInherited() {
	if status := r.status(); status != snapshot.StatusCompleted && status != snapshot.StatusFailed || !r.rootCalls.begun {
		return
	}
	for _, e := range r.effects.inherited {
		if e.isLeft() {
			r.keep(&record.Record{
				Time: now(), Kind: record.KindLog, Status: record.StatusRecorded,
				Detail: &record.Detail{Severity: slog.LevelWarn, Message: leftOverMessage(e), Effect: e.Place()},
			})
		}
	}
}

func leftOverMessage(e *effect) string {
	what := "the effect"
	if !e.hasCompleted() {
		what = "the possible effect"
	}
	return fmt.Sprintf("%s of %s is left over: no call of the program has taken it over", what, &e.Effect)
}
