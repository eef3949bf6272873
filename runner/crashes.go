package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// If a run ends its process, this interrupts all other runs of the process, so a crash does not
// show which run caused it. A run is a suspect if its last openings were all lost without recording
// an outcome. Suspects are continued one at a time. If a suspect ends the process again, no other
// suspect is open, so the counts of the others do not change. Therefore, a run reaches MaxRestarts
// only if it ends the process by itself.

// suspectAfter is the number of losses in a row that makes a run a suspect, unless MaxRestarts is
// smaller.
const suspectAfter = 2

// suspectsWait is how long a suspect waits for its turn before it is checked again. It is woken
// earlier if the previous suspect's turn ends.
const suspectsWait = time.Minute

// suspects are the runs that are continued one at a time. Runner.mu guards them.
type suspects struct {
	current *openRun // the suspect whose turn it is, or nil
	waiting []QueueEntry
}

// An outage is an opening of a run that this process survived without being able to close the run:
// the lease was lost, or the store could not be reached. In the store, the run looks as if its
// process had crashed.
type outage struct {
	generation uint64 // of the opening
	at         time.Time
}

// noteOutage remembers that this process survived an opening that it could not close. info is the
// run's info after that. If the info cannot be read, err is the reason.
func (r *Runner) noteOutage(o *openRun, info *snapshot.Info, err error) {
	const kept = 24 * time.Hour // if another process continues the run, the note is not taken
	if err == nil && (info.Generation != o.generation || !info.Open && info.Stop.Reason != record.InterruptCrash) {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.outages, func(_ string, out outage) bool { return now.Sub(out.at) > kept })
	r.outages[o.runID] = outage{o.generation, now}
}

// takeOutage reports whether this process survived the latest opening of a run that seems to have
// crashed. It also forgets the outage.
func (r *Runner) takeOutage(info *snapshot.Info) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	out, ok := r.outages[info.RunID]
	delete(r.outages, info.RunID)
	return ok && out.generation == info.Generation
}

// countCrash counts a crash of a run, and sets the run aside if there were too many crashes. It
// reports whether the run continues now. If the run is a suspect whose turn has not come, it waits,
// and its crash is not counted yet.
func (r *Runner) countCrash(ctx context.Context, o *openRun, info snapshot.Info) (bool, error) {
	run, err := r.store.Load(ctx, info.RunID)
	if err != nil {
		return false, err
	}
	last, err := lastOpening(run, info.Generation)
	if err != nil {
		return false, err
	}
	restarts := info.Restarts + 1
	if last.progressed {
		restarts = 1
	}
	looping := restarts > r.options.MaxRestarts
	if !looping && restarts >= min(suspectAfter, r.options.MaxRestarts) && !r.takeTurn(o) {
		return false, nil
	}
	_, err = r.store.Update(ctx, info.RunID, func(i *snapshot.Info) error {
		if i.Status != snapshot.StatusInterrupted || i.Restarts != info.Restarts || i.Generation != info.Generation {
			return errCounted
		}
		i.Restarts = restarts
		if looping {
			i.Due, i.Stop = time.Time{}, snapshot.Stop{Reason: record.InterruptCrashLoop, Message: last.explain(restarts)}
		}
		info = *i
		return nil
	})
	switch {
	case errors.Is(err, errCounted), errors.Is(err, snapshot.ErrLocked):
		return false, nil
	case err != nil:
		return false, err
	}
	r.observe(Notice{
		Type: NoticeCrashed, RunID: info.RunID, Program: info.Program, Version: info.Version,
		Status: info.Status, Stop: info.Stop, Restarts: restarts,
	})
	return !looping, nil
}

// isCrashLoop reports whether a run has been set aside because of crashes, until somebody resumes
// it.
func isCrashLoop(info *snapshot.Info) bool {
	return info.Status == snapshot.StatusInterrupted && info.Stop.Reason == record.InterruptCrashLoop
}

// lostOpening describes an opening of a run during which the process ended.
type lostOpening struct {
	progressed bool     // it recorded an outcome
	inProgress []string // the innermost calls that had begun but not ended
}

// lastOpening returns what happened in the opening with the given generation.
func lastOpening(run *snapshot.Run, generation uint64) (l lostOpening, err error) {
	seen := make(map[record.Address]bool)
	for seq := uint64(run.Len()); seq > 0; seq-- {
		rec, err := run.Record(seq)
		if err != nil {
			return l, err
		} else if rec.Generation != generation {
			break
		}
		l.progressed = l.progressed || rec.IsOutcome()
		if !rec.Kind.IsCall() || seen[rec.Address] {
			continue
		}
		seen[rec.Address] = true
		if address := rec.Address.String(); rec.Status == record.StatusStarted && !l.isAround(address) {
			l.inProgress = append(l.inProgress, address)
		}
	}
	slices.Reverse(l.inProgress)
	return l, nil
}

// isAround reports whether one of the calls in progress was made inside the call at the address.
func (l *lostOpening) isAround(address string) bool {
	return slices.ContainsFunc(l.inProgress, func(inside string) bool {
		rest, ok := strings.CutPrefix(inside, address)
		return ok && rest != "" && (rest[0] == '/' || rest[0] == '@')
	})
}

// explain returns a message that describes the crashes and names the calls that were in progress.
func (l *lostOpening) explain(restarts int) string {
	const most = 3
	calls := "no call"
	if n := len(l.inProgress); n > 0 {
		calls = strings.Join(l.inProgress[:min(n, most)], ", ")
		if n > most {
			calls += fmt.Sprintf(" and %d more", n-most)
		}
	}
	return fmt.Sprintf("the process ended %d times in a row without an outcome; in progress: %s", restarts, calls)
}

// takeTurn reports whether a suspect may continue now. Only one suspect at a time may do so. Any
// other suspect goes back to the queue, and is woken when its turn may have come.
func (r *Runner) takeTurn(o *openRun) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.suspects.current == nil {
		r.suspects.current = o
		r.suspects.waiting = slices.DeleteFunc(r.suspects.waiting, func(e QueueEntry) bool { return e.RunID == o.runID })
	}
	o.isBlocked = r.suspects.current != o
	return !o.isBlocked
}

// addWaiting notes that a suspect, which was put back into the queue, is waiting for its turn.
func (r *Runner) addWaiting(ctx context.Context, e QueueEntry) {
	r.mu.Lock()
	if !r.suspects.isWaiting(e.RunID) {
		r.suspects.waiting = append(r.suspects.waiting, e)
	}
	r.mu.Unlock()
	r.wakeSuspect(ctx)
}

func (s *suspects) isWaiting(runID string) bool {
	return slices.ContainsFunc(s.waiting, func(e QueueEntry) bool { return e.RunID == runID })
}

// endTurn ends the turn of a suspect that has recorded an outcome or was closed. It wakes the next
// suspect even if it was not the turn of o, since o may have been woken to take its turn.
func (r *Runner) endTurn(ctx context.Context, o *openRun) {
	r.mu.Lock()
	if r.suspects.current == o {
		r.suspects.current = nil
	}
	r.mu.Unlock()
	r.wakeSuspect(ctx)
}

// wakeSuspect wakes the suspect that has waited longest, unless another suspect has its turn.
func (r *Runner) wakeSuspect(ctx context.Context) {
	r.mu.Lock()
	if r.suspects.current != nil || len(r.suspects.waiting) == 0 || r.stopping {
		r.mu.Unlock()
		return
	}
	next := r.suspects.waiting[0]
	r.suspects.waiting = r.suspects.waiting[1:]
	r.mu.Unlock()
	if err := r.queue.Wake(ctx, next); err != nil && ctx.Err() == nil { // the suspect is checked again in any case
		r.observe(Notice{Type: NoticeTrouble, RunID: next.RunID, Program: next.Program.Name, Version: next.Program.Version, Err: err})
	}
}

// untilOutcome returns the option with which a suspect is opened. The option ends the suspect's
// turn at the first outcome.
func (r *Runner) untilOutcome(ctx context.Context, o *openRun) state.Option {
	return state.WithPublisher(publisher(func(rec record.Record) {
		if !rec.Replayed && rec.IsOutcome() {
			r.endTurn(ctx, o)
		}
	}))
}

// publisher is a function that implements [state.Publisher].
type publisher func(record.Record)

func (p publisher) Publish(rec record.Record) { p(rec) }
