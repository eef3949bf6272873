package storekit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/snapshot"
)

// Open implements snapshot.Store.
func (s *Store) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	if err := Check(ctx, runID); err != nil {
		return nil, err
	}
	for {
		changed := s.changes(runID)
		j, err := s.tryOpen(ctx, runID, &o)
		switch {
		case err == nil && j != nil:
			return j, nil
		case err == nil: // the run has changed meanwhile
			continue
		case !o.Wait || !errors.Is(err, snapshot.ErrLocked):
			return nil, err
		}
		if ended := s.wait(ctx, changed); ended != nil {
			return nil, fmt.Errorf("%w: %w", err, ended)
		}
	}
}

// tryOpen opens a run. If the run changes while it is read, tryOpen returns neither a journal nor an
// error.
func (s *Store) tryOpen(ctx context.Context, runID string, o *snapshot.OpenOptions) (j *openRun, err error) {
	before, err := s.find(ctx, runID)
	found := before
	switch {
	case errors.Is(err, snapshot.ErrNotFound) && o.Create:
		before = Head{}
		found = Head{Info: NewInfo(runID, o), UID: rand.Text()}
	case err != nil:
		return nil, err
	case before.Info.Open:
		return nil, &snapshot.LockedError{RunID: runID, Owner: before.Info.Owner}
	}
	restored, now, err := OpenedInfo(found.Info, o)
	if err != nil {
		return nil, err
	}
	opening, lease := rand.Text(), s.lease()
	defer s.noteOpening(opening)()
	isTaken := false // this Store has the run open, or may have it open
	defer func() {
		if isTaken && j == nil {
			s.giveBack(ctx, runID, opening)
		}
	}()
	if before.Opening != "" {
		isTaken = true
		if before, err = s.takeOver(ctx, before, opening); before.UID == "" || err != nil {
			return nil, err
		}
		found.Info.LastSeq = before.Info.LastSeq
		restored.LastSeq, now.LastSeq = found.Info.LastSeq, found.Info.LastSeq
	}
	run, err := s.load(ctx, found)
	if run == nil || err != nil {
		return nil, err
	}
	run.Info = restored
	after := Head{Info: now, UID: found.UID, Opening: opening}
	swapped, err := s.swap(ctx, before, &after, Batch{RunID: runID, UID: after.UID})
	if err != nil {
		isTaken = true
		return nil, fmt.Errorf("snapshot: open run %s: %w", runID, err)
	} else if !swapped {
		return nil, nil
	}
	if hasExpired(lease) { // it is not known which process has the run open
		isTaken = true
		return nil, fmt.Errorf("%w: run %s was opened after the process's lease had expired", snapshot.ErrUnavailable, runID)
	}
	return s.begin(run, after, lease), nil
}

// noteOpening marks a run as being opened until done is called.
func (s *Store) noteOpening(opening string) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openings[opening] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.openings, opening)
	}
}

// takeOver takes over a run that another process has left open, and returns the run's head. From
// then on, the other process cannot append records, even if it is alive, so the records that are
// read next are complete. If the run has changed meanwhile, takeOver returns the zero Head.
func (s *Store) takeOver(ctx context.Context, h Head, opening string) (Head, error) {
	taken := h
	taken.Opening = opening
	swapped, err := s.swap(ctx, h, &taken, Batch{})
	if err != nil || !swapped {
		return Head{}, err
	}
	return s.find(ctx, h.Info.RunID)
}

// giveBack closes a run after its opening has failed, because the opening may have been stored
// anyway. Otherwise, the run would stay locked for as long as this process lives. giveBack works
// even if ctx has ended.
func (s *Store) giveBack(ctx context.Context, runID, opening string) {
	ctx = context.WithoutCancel(ctx)
	for {
		taken, err := s.find(ctx, runID)
		if err != nil || taken.Opening != opening {
			return
		}
		left := taken
		left.Info, left.Opening = CrashedInfo(taken.Info), ""
		if swapped, err := s.swap(ctx, taken, &left, Batch{}); swapped || err != nil {
			return // if this fails, the run is free when the lease of the process expires
		}
	}
}
