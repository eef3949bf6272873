package storekit

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reprise-go/reprise/internal/errkind"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// A Store implements on a [Backend] what is the same for all stores: the methods of
// [snapshot.Store] except those for artifacts. [New] makes one.
type Store struct {
	backend Backend
	options Options

	mu       sync.Mutex
	open     map[string]*journal      // by run, those of this Store
	waiting  map[string]chan struct{} // closed when the run has changed, or any run for ""
	attended *attendance              // of the runs in open; nil without any, and in memory
}

// New returns a store on a backend.
func New(b Backend, o Options) *Store {
	return &Store{backend: b, options: o, open: make(map[string]*journal), waiting: make(map[string]chan struct{})}
}

// Check makes the checks with which every method of a store begins. It returns the error of
// the run ID, or the cause of the end of ctx.
func Check(ctx context.Context, runID string) error {
	if err := snapshot.CheckRunID(runID); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// NotFound returns the error for a run that does not exist. It is snapshot.ErrNotFound.
func NotFound(runID string) error {
	return errkind.New(snapshot.ErrNotFound, "snapshot: no run %s", runID)
}

// head returns the head of a run as it is reported: a run that ended in a crash is
// interrupted.
func (s *Store) head(ctx context.Context, runID string) (Head, error) {
	if err := Check(ctx, runID); err != nil {
		return Head{}, err
	}
	s.flush(ctx, runID)
	h, err := s.find(ctx, runID)
	return h.reported(), err
}

// find is the head of a run as it is stored; snapshot.ErrNotFound if it does not exist.
func (s *Store) find(ctx context.Context, runID string) (Head, error) {
	heads, err := Again(ctx, func() ([]Head, error) { return s.backend.Find(ctx, runID) })
	switch {
	case err != nil:
		return Head{}, err
	case len(heads) == 0:
		return Head{}, NotFound(runID)
	}
	return heads[0], nil
}

// Reported returns the info of a run as a list has it: one that was left by a crash is
// interrupted.
func Reported(h Head) snapshot.Info { return h.reported().Info }

func (h Head) reported() Head {
	if h.Info.Status == snapshot.StatusRunning && !h.Info.Open {
		h.Info = Crashed(h.Info)
	}
	return h
}

// flush waits until the records that this process has appended are stored, if that is
// possible.
func (s *Store) flush(ctx context.Context, runID string) {
	s.mu.Lock()
	j := s.open[runID]
	s.mu.Unlock()
	if j != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		_ = j.flush(ctx) // the caller notices the end of ctx
	}
}

// wake wakes those who wait for a change of the run, which this Store has made.
func (s *Store) wake(runID string) {
	s.mu.Lock()
	s.signal("")
	s.signal(runID)
	s.mu.Unlock()
	if s.options.Tell != nil {
		s.options.Tell(runID)
	}
}

// signal wakes those who wait for the run; with an empty ID, those who wait for any. The
// lock is held.
func (s *Store) signal(runID string) {
	if waiting := s.waiting[runID]; waiting != nil {
		close(waiting)
		delete(s.waiting, runID)
	}
}

// Changed tells the Store that other processes may have changed runs, such as after a
// notification of the database: it looks at them at once. Without any it looks at all.
func (s *Store) Changed(runIDs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(runIDs) == 0 {
		runIDs = slices.AppendSeq(slices.Collect(maps.Keys(s.waiting)), maps.Keys(s.open))
	}
	s.signal("")
	for _, id := range runIDs {
		s.signal(id)
		if s.open[id] != nil && s.attended != nil {
			s.attended.look(id)
		}
	}
}

// changes returns a channel that is closed at the next change of the run; with an empty ID,
// of any run.
func (s *Store) changes(runID string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[runID] == nil {
		s.waiting[runID] = make(chan struct{})
	}
	return s.waiting[runID]
}

// wait returns after a change, after Options.Poll, or with the cause of the end of ctx.
func (s *Store) wait(ctx context.Context, changed <-chan struct{}) error {
	var poll <-chan time.Time
	if s.options.Poll > 0 {
		timer := time.NewTimer(s.options.Poll)
		defer timer.Stop()
		poll = timer.C
	}
	select {
	case <-changed:
	case <-poll:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// swap swaps a head, and repeats that if the answer was lost. It sets Version and Swaps of
// after.
func (s *Store) swap(ctx context.Context, before Head, after *Head, records Batch) (bool, error) {
	token := rand.Text()[:tokenLength]
	if after.UID != "" {
		after.Version = before.Version + 1
		after.Swaps = token + before.Swaps[:min(len(before.Swaps), swapsKept*tokenLength)]
	}
	isUnknown := false
	swapped, err := Again(ctx, func() (bool, error) {
		swapped, err := s.backend.Swap(ctx, before, *after, records)
		isUnknown = isUnknown || err != nil
		return swapped, err
	})
	if err == nil && !swapped && isUnknown {
		swapped, err = s.wasSwapped(ctx, &before, after, token)
	}
	if swapped {
		s.wake(cmp.Or(before.Info.RunID, after.Info.RunID))
	}
	return swapped, err
}

// tokenLength is that of a token of a swap, of which a head has the latest.
const tokenLength, swapsKept = 13, 16

// wasSwapped reports whether a swap happened whose answer was lost.
func (s *Store) wasSwapped(ctx context.Context, before, after *Head, token string) (bool, error) {
	now, err := s.find(ctx, cmp.Or(before.Info.RunID, after.Info.RunID))
	isGone := errors.Is(err, snapshot.ErrNotFound) || err == nil && now.UID != cmp.Or(before.UID, after.UID)
	switch {
	case isGone && after.UID == "":
		return true, nil // by us, or by another at the same time
	case isGone:
		return false, nil
	case err != nil:
		return false, err
	case after.UID == "":
		return false, nil
	case strings.Contains(now.Swaps, token):
		return true, nil
	case len(now.Swaps) >= swapsKept*tokenLength && now.Version > before.Version+swapsKept:
		return false, fmt.Errorf("%w: no answer came, and the run has changed too often since to tell what became of the change", snapshot.ErrUnavailable)
	}
	return false, nil
}

// tries is how often a statement that failed with ErrUnavailable is repeated. The pauses
// double, beginning with firstPause: together 8 seconds.
const (
	tries      = 14
	firstPause = time.Millisecond
)

// Again calls f until its error is not snapshot.ErrUnavailable, which passes by itself, for
// at most 8 seconds. A Store calls the methods of its Backend so.
func Again[T any](ctx context.Context, f func() (T, error)) (T, error) {
	for n, pause := 1, firstPause; ; n, pause = n+1, 2*pause {
		result, err := f()
		if !errors.Is(err, snapshot.ErrUnavailable) || n == tries {
			return result, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return result, errors.Join(err, context.Cause(ctx))
		}
	}
}

// Create implements snapshot.Store.
func (s *Store) Create(ctx context.Context, run *snapshot.Run) (snapshot.Info, error) {
	if err := Check(ctx, run.RunID); err != nil {
		return snapshot.Info{}, err
	}
	info, err := Created(run.Info)
	if err != nil {
		return snapshot.Info{}, err
	}
	after := Head{Info: info, UID: rand.Text()}
	after.Info.LastSeq = uint64(run.Len())
	all := Batch{RunID: info.RunID, UID: after.UID, Last: after.Info.LastSeq}
	for seq := range all.Last {
		all.Data = append(all.Data, run.Encoded(seq+1)...)
	}
	swapped, err := s.swap(ctx, Head{}, &after, all)
	switch {
	case err != nil:
		return snapshot.Info{}, fmt.Errorf("snapshot: create run %s: %w", info.RunID, err)
	case !swapped:
		return snapshot.Info{}, errkind.New(snapshot.ErrExists, "snapshot: run %s exists already", info.RunID)
	}
	return after.Info, nil
}

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
		case err == nil: // it has changed meanwhile
			continue
		case !o.Wait || !errors.Is(err, snapshot.ErrLocked):
			return nil, err
		}
		if ended := s.wait(ctx, changed); ended != nil {
			return nil, fmt.Errorf("%w: %w", err, ended)
		}
	}
}

// tryOpen returns no journal if the run changed while it was read.
func (s *Store) tryOpen(ctx context.Context, runID string, o *snapshot.OpenOptions) (j *journal, err error) {
	before, err := s.find(ctx, runID)
	found := before
	switch {
	case errors.Is(err, snapshot.ErrNotFound) && o.Create:
		before = Head{}
		found = Head{Info: Begun(runID, o), UID: rand.Text()}
	case err != nil:
		return nil, err
	case before.Info.Open:
		return nil, &snapshot.LockedError{RunID: runID, Owner: before.Info.Owner}
	}
	restored, now, err := Opened(found.Info, o)
	if err != nil {
		return nil, err
	}
	opening, lease := rand.Text(), s.lease()
	isTaken := false // or may be
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
	if isOver(lease) { // who has the run open is not known
		isTaken = true
		return nil, fmt.Errorf("%w: run %s was opened when the lease of the process was over", snapshot.ErrUnavailable, runID)
	}
	return s.begin(run, after, lease), nil
}

// takeOver gives a run that another process left open to this process, and returns its
// head. If the other process is alive, it can append nothing from now on, so the records
// that are read next are all of them. If the run changed meanwhile, takeOver returns the
// zero Head.
func (s *Store) takeOver(ctx context.Context, h Head, opening string) (Head, error) {
	taken := h
	taken.Opening = opening
	swapped, err := s.swap(ctx, h, &taken, Batch{})
	if err != nil || !swapped {
		return Head{}, err
	}
	return s.find(ctx, h.Info.RunID)
}

// giveBack closes a run whose opening failed although it may have been stored: otherwise
// the run would stay locked while this process lives. It does so even if ctx has ended.
func (s *Store) giveBack(ctx context.Context, runID, opening string) {
	ctx = context.WithoutCancel(ctx)
	for {
		taken, err := s.find(ctx, runID)
		if err != nil || taken.Opening != opening {
			return
		}
		left := taken
		left.Info, left.Opening = Crashed(taken.Info), ""
		if swapped, err := s.swap(ctx, taken, &left, Batch{}); swapped || err != nil {
			return // the lease of the process ends what could not be given back
		}
	}
}

// load reads the records of a head; nil if the run is gone.
func (s *Store) load(ctx context.Context, h Head) (*snapshot.Run, error) {
	run, err := snapshot.NewRun(h.Info, nil)
	if err != nil || h.Info.LastSeq == 0 {
		return run, err
	}
	batches, err := s.batches(ctx, &h, 0)
	if err != nil {
		return nil, err
	}
	var parts [][]byte
	last := uint64(0)
	for _, b := range batches {
		if last < h.Info.LastSeq { // the run may have continued meanwhile
			parts, last = append(parts, b.Data), b.Last
		}
	}
	if last < h.Info.LastSeq {
		return nil, nil
	}
	run, _, err = run.Extend(parts...)
	return run, err
}

func (s *Store) batches(ctx context.Context, h *Head, after uint64) ([]Batch, error) {
	return Again(ctx, func() ([]Batch, error) { return s.backend.Records(ctx, h.Info.RunID, h.UID, after) })
}

// Load implements snapshot.Reader.
func (s *Store) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	for {
		h, err := s.head(ctx, runID)
		if err != nil {
			return nil, err
		}
		run, err := s.load(ctx, h)
		if run == nil && err == nil {
			if now, headErr := s.find(ctx, runID); headErr == nil && now.UID == h.UID {
				err = &snapshot.CorruptError{RunID: runID, Err: fmt.Errorf("records up to %d are missing", h.Info.LastSeq)}
			} else {
				continue // it was deleted, and another run has its ID
			}
		}
		return run, err
	}
}

// Records implements snapshot.Reader.
func (s *Store) Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		h, err := s.head(ctx, runID)
		if err != nil {
			yield(record.Record{}, err)
			return
		}
		s.records(ctx, &h, after)(yield)
	}
}

// records yields the records of a head with numbers above after.
func (s *Store) records(ctx context.Context, h *Head, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		if after >= h.Info.LastSeq {
			return
		}
		batches, err := s.batches(ctx, h, after)
		if err != nil {
			yield(record.Record{}, err)
			return
		}
		for _, b := range batches {
			for len(b.Data) > 0 {
				var encoded []byte
				var seq uint64
				if encoded, seq, b.Data, err = snapshot.CutRecord(b.Data); err == nil && seq <= after {
					continue
				}
				var rec record.Record
				if err == nil {
					rec, err = snapshot.DecodeRecord(encoded)
				}
				if rec.RunID = h.Info.RunID; !yield(rec, err) || err != nil {
					return
				}
			}
		}
	}
}

// Info implements snapshot.Reader.
func (s *Store) Info(ctx context.Context, runID string) (snapshot.Info, error) {
	h, err := s.head(ctx, runID)
	return h.Info, err
}

// perPage is how many heads are read at a time for a list.
const perPage = 100

// List implements snapshot.Reader. It reads heads until the page is full; all of them for
// another order than the last updated first, and to count them.
func (s *Store) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	if err := context.Cause(ctx); err != nil {
		return snapshot.Page{}, err
	}
	if f.IsSorted() || f.Count {
		return s.pick(ctx, f)
	}
	if err := f.Check(); err != nil {
		return snapshot.Page{}, err
	}
	place, err := parsePlace(f.Before, &f)
	if err != nil {
		return snapshot.Page{}, err
	}
	page := snapshot.Page{Runs: []snapshot.Info{}, Next: f.Before}
	for {
		heads, err := Again(ctx, func() ([]Head, error) { return s.backend.List(ctx, f, place, perPage) })
		if err != nil {
			return snapshot.Page{}, err
		}
		for _, h := range heads {
			info := h.reported().Info
			if f.Matches(&info) {
				if f.Limit > 0 && len(page.Runs) == f.Limit {
					return page, nil
				}
				page.Runs = append(page.Runs, info)
			}
			place = placeOf(&h.Info)
			page.Next = place.text()
		}
		if len(heads) < perPage {
			page.Next = ""
			return page, nil
		}
	}
}

// pick reads all heads, and remembers those of the page.
func (s *Store) pick(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	p, err := NewPicker(f)
	if err != nil {
		return snapshot.Page{}, err
	}
	if f.Count { // by status
		f.Status = nil
	}
	for place := (Place{}); ; {
		heads, err := Again(ctx, func() ([]Head, error) { return s.backend.List(ctx, f, place, perPage) })
		if err != nil {
			return snapshot.Page{}, err
		}
		for i := range heads {
			p.Add(heads[i].reported().Info)
			place = placeOf(&heads[i].Info)
		}
		if len(heads) < perPage {
			return p.Page(), nil
		}
	}
}

// Update implements snapshot.Store.
func (s *Store) Update(ctx context.Context, runID string, change func(*snapshot.Info) error) (snapshot.Info, error) {
	for {
		before, err := s.head(ctx, runID)
		if err != nil {
			return snapshot.Info{}, err
		}
		after := before
		after.Info = before.Info.Clone()
		if err := change(&after.Info); err != nil {
			return snapshot.Info{}, err
		}
		if err := CheckUpdate(before.Info, after.Info); err != nil {
			return snapshot.Info{}, err
		}
		after.Info.Updated = Later(before.Info.Updated)
		if !before.Info.Open {
			after.Opening = "" // it was that of a process that has ended
		}
		swapped, err := s.swap(ctx, before, &after, Batch{})
		if err != nil {
			return snapshot.Info{}, fmt.Errorf("snapshot: update run %s: %w", runID, err)
		} else if swapped {
			return after.Info, nil
		}
	}
}

// Delete implements snapshot.Store.
func (s *Store) Delete(ctx context.Context, runID string) error {
	for {
		h, err := s.head(ctx, runID)
		if err != nil {
			return err
		} else if h.Info.Open {
			return &snapshot.LockedError{RunID: runID, Owner: h.Info.Owner}
		}
		swapped, err := s.swap(ctx, h, new(Head), Batch{})
		if err != nil {
			return fmt.Errorf("snapshot: delete run %s: %w", runID, err)
		} else if swapped {
			return nil
		}
	}
}
