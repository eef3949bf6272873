package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// A Schedule sets when runs of a program are started automatically. Exactly one of At, Every and
// Cron must be set.
//
// The ID of a run consists of the schedule's name and the instant at which the run is due, such as
// "report-20260105T090000Z". As long as that run is kept, there is therefore only one run for each
// instant, no matter how many processes have the schedule or how often they are started, and even
// if the clock is set back.
//
// Schedules follow the queue's clock. With JetStream or PostgreSQL, this is the server's clock,
// regardless of the workers' clocks. Otherwise it is this machine's clock, and jumps of more than a
// minute are reported; see [ErrClock].
type Schedule struct {
	Name string // the prefix of run IDs; required

	// At is the time of a single run. If it has passed when Serve begins, and CatchUp does not cover
	// it, the run is not started. This is reported unless the run already exists.
	At time.Time

	// Every is an interval, counted from From or, if From is zero, from the beginning of 1970 in
	// UTC: with an interval of one hour, a run starts at each full hour. Every must be at least a
	// second.
	Every time.Duration
	From  time.Time

	// Cron is an expression with five fields (minute, hour, day of month, month, day of week) or
	// six fields (with seconds first), or a name such as @daily. If Location has daylight saving
	// time, an instant in an hour that is skipped does not occur on that day. If an hour occurs
	// twice, an instant in that hour occurs only the first time, or both times if the expression's
	// hours are * or */n. Location defaults to UTC.
	Cron     string
	Location *time.Location

	// CatchUp is how long after an instant its run can still be started if no process was running
	// at that instant. Retention must keep runs for longer than CatchUp. Defaults to 0: missed
	// instants are skipped. Regardless of CatchUp, a run is still started if it is at most a minute
	// late because the process was suspended, its clock was set forward, or the store could not be
	// reached.
	CatchUp time.Duration

	Options StartOptions // how the runs are started; Options.At must be zero
}

func (s *Schedule) check() error {
	n := 0
	for _, set := range []bool{!s.At.IsZero(), s.Every != 0, s.Cron != ""} {
		if set {
			n++
		}
	}
	switch {
	case s.Name == "":
		return errors.New("the field Name is empty; want the beginning of the IDs of its runs, such as \"daily\"")
	case n != 1:
		return fmt.Errorf("want exactly one of At, Every and Cron, got %d", n)
	case s.Every != 0 && s.Every < time.Second:
		return fmt.Errorf("the field Every is %v; want a second or more", s.Every)
	case s.CatchUp < 0:
		return fmt.Errorf("the field CatchUp is %v; want 0 or more", s.CatchUp)
	case !s.Options.At.IsZero():
		return errors.New("the field Options.At is set; the schedule determines when its runs begin")
	case s.Cron != "" && !isCron(s.Cron):
		return fmt.Errorf("the field Cron is %q; want a cron expression, such as \"0 9 * * MON-FRI\" or \"@daily\"", s.Cron)
	case s.Cron != "" && !occurs(s.Cron):
		return fmt.Errorf("the field Cron is %q, which matches no date; want an expression for a day that exists", s.Cron)
	}
	return snapshot.CheckRunID(s.runID(time.Unix(0, 0)))
}

// next returns the first instant after t, or the zero Time if there is none.
func (s *Schedule) next(t time.Time) time.Time {
	switch {
	case !s.At.IsZero():
		if s.At.After(t) {
			return s.At
		}
		return time.Time{}
	case s.Every > 0:
		from := s.From
		if from.IsZero() {
			from = time.Unix(0, 0)
		}
		if t.Before(from) {
			return from
		}
		return from.Add(t.Sub(from).Truncate(s.Every) + s.Every)
	}
	location := s.Location
	if location == nil {
		location = time.UTC
	}
	return nextOfCron(s.Cron, location, t)
}

// runID returns the ID of the run that is due at an instant.
func (s *Schedule) runID(at time.Time) string {
	format := "20060102T150405Z"
	if at.Nanosecond() != 0 {
		format = "20060102T150405.000000000Z"
	}
	return s.Name + "-" + at.UTC().Format(format)
}

// scheduled is a schedule of a program.
type scheduled struct {
	Schedule
	program *program
	encoded encodedInput // the input
}

// Schedule sets up automatic starts of a program's runs, all with the same input, while the runner
// serves. It must be called before Serve. If the input does not fit, the error is [ErrInput].
func (r *Runner) Schedule(name string, input any, s Schedule) error {
	p, err := r.find(name, s.Options.Version)
	if err != nil {
		return err
	}
	encoded, err := p.encode(input)
	if err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("runner: schedule %q: %w", s.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.serving {
		return fmt.Errorf("runner: schedule %q: the runner is already serving", s.Name)
	}
	for _, other := range r.schedules {
		if other.Name == s.Name {
			return fmt.Errorf("runner: schedule %q already exists", s.Name)
		}
	}
	r.schedules = append(r.schedules, &scheduled{s, p, encoded})
	return nil
}

// Schedule is [Runner.Schedule] with a typed input.
func (p *Program[In, Out]) Schedule(in In, s Schedule) error {
	s.Options.Version = p.program.version
	return p.runner.Schedule(p.program.name, in, s)
}

// followSchedules starts the runs of all schedules until ctx ends.
func (r *Runner) followSchedules(ctx context.Context) {
	var following sync.WaitGroup
	for _, s := range r.schedules {
		following.Go(func() { r.follow(ctx, s) })
	}
	following.Wait()
}

// lookEvery is how often a schedule checks the clock, since timers do not follow adjustments of the
// clock.
const lookEvery = time.Minute

// follow starts the runs of one schedule.
func (r *Runner) follow(ctx context.Context, s *scheduled) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var p position
	for {
		now, err := r.queue.Now(ctx)
		at, wait := time.Time{}, offerAgainAfter
		if err == nil {
			begins := p.seen.IsZero()
			at, wait = p.due(&s.Schedule, now)
			if begins && at.IsZero() && p.next.IsZero() && !s.At.IsZero() {
				r.reportMissed(ctx, s)
			}
		} else if ctx.Err() == nil {
			r.observe(Notice{Type: NoticeTrouble, Program: s.program.name, Version: s.program.version, Err: fmt.Errorf("runner: schedule %q: read the clock of the queue: %w", s.Name, err)})
		}
		if !at.IsZero() {
			if r.startScheduled(ctx, s, at) {
				p.advance(&s.Schedule, at)
				continue
			}
			wait = offerAgainAfter
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// A position records how far a schedule has been followed. A new schedule has the zero position.
type position struct {
	next time.Time // the first instant that is not yet done; zero if there is none
	seen time.Time // the time at the last check
}

// advance marks all instants up to t as done.
func (p *position) advance(s *Schedule, t time.Time) { p.next = s.next(t) }

// due returns the instant whose run must be started now. If there is none, it returns the zero Time
// and how long to wait. Instants missed because the process was suspended or the clock was set
// forward are skipped, unless CatchUp covers them. If the clock was set back, instants repeat, but
// their runs have the same IDs and are not started twice.
func (p *position) due(s *Schedule, now time.Time) (at time.Time, wait time.Duration) {
	late := max(s.CatchUp, time.Minute)
	switch {
	case p.seen.IsZero():
		p.advance(s, now.Add(-s.CatchUp-1))
	case now.Before(p.seen):
		p.advance(s, now.Add(-1))
	case !p.next.IsZero() && now.Sub(p.next) > late:
		p.advance(s, now.Add(-late-1))
	}
	p.seen = now
	switch {
	case p.next.IsZero():
		return time.Time{}, lookEvery
	case p.next.After(now):
		return time.Time{}, min(p.next.Sub(now), lookEvery)
	}
	return p.next, 0
}

// reportMissed reports that a schedule's single instant has passed without a run.
func (r *Runner) reportMissed(ctx context.Context, s *scheduled) {
	if _, err := r.store.Info(ctx, s.runID(s.At)); !errors.Is(err, snapshot.ErrNotFound) {
		return // the run was started, or its state is unknown
	}
	r.observe(Notice{
		Type: NoticeTrouble, RunID: s.runID(s.At), Program: s.program.name, Version: s.program.version,
		Err: fmt.Errorf("runner: schedule %q: the time, %s, has passed, and there is no run for it; a larger CatchUp would start one", s.Name, s.At.Format(time.RFC3339)),
	})
}

// startScheduled starts the run for an instant and reports whether the instant is done. It is not
// done if the store cannot be reached.
func (r *Runner) startScheduled(ctx context.Context, s *scheduled, at time.Time) bool {
	_, _, err := r.startEncoded(ctx, s.program, s.runID(at), s.encoded, s.Options)
	if err == nil || errors.Is(err, ErrStarted) || ctx.Err() != nil { // ErrStarted: the run exists, with an earlier input of the schedule
		return ctx.Err() == nil
	}
	r.observe(Notice{Type: NoticeTrouble, RunID: s.runID(at), Program: s.program.name, Version: s.program.version, Err: err})
	return !snapshot.IsTemporary(err)
}
