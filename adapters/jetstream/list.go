package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// The most recently changed run is at the end of the index, so the index is read backwards, one
// range of sequence numbers at a time.

// List implements [snapshot.Reader]. The server selects runs by status and, with f.DueBy, also by
// due time; the rest of the filter is applied here. In a cluster, any server may answer. If that
// server lags behind, a page selected by status may show the previous state of a run that has just
// changed.
func (s *Store) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	if err := context.Cause(ctx); err != nil {
		return snapshot.Page{}, err
	}
	if err := f.Check(); err != nil {
		return snapshot.Page{}, err
	}
	s.reindexLagging(ctx)
	switch {
	case f.IsSorted():
		return s.pick(ctx, f)
	case !f.DueBy.IsZero() && f.Limit == 0 && f.After == "" && !f.Count:
		return s.due(ctx, f)
	}
	page, err := s.latest(ctx, f)
	if err == nil && f.Count {
		page.Counts, err = s.count(ctx, f)
	}
	return page, err
}

// count returns, for each status, how many runs the filter would select if its Status were ignored.
// If the filter selects all runs, the server counts all of them except those that are queued or
// running.
func (s *Store) count(ctx context.Context, f snapshot.Filter) (map[snapshot.Status]int, error) {
	f.After, f.Limit = "", 1
	if !f.CountsAll() {
		page, err := s.pick(ctx, f)
		return page.Counts, err
	}
	page, err := s.pickFrom(ctx, f, []string{s.names.indexedAs(activeStatus)})
	if err != nil {
		return nil, err
	}
	for _, status := range inactiveStatuses {
		n, err := s.countOn(ctx, s.names.index(), s.names.indexedAs(string(status)))
		if err != nil {
			return nil, err
		} else if n > 0 {
			page.Counts[status] += n
		}
	}
	return page.Counts, nil
}

// indexSubjects returns the subjects in the index for runs with the given statuses, or for all runs
// if statuses is empty.
func (n names) indexSubjects(statuses []snapshot.Status) []string {
	if len(statuses) == 0 {
		return []string{n.indexedAs("*")}
	}
	if slices.Contains(statuses, snapshot.StatusInterrupted) { // a run whose process has ended is stored as running
		statuses = append(slices.Clone(statuses), snapshot.StatusRunning)
	}
	var all []string
	for _, status := range statuses {
		if subject := n.indexedAs(indexedAs(status)); !slices.Contains(all, subject) {
			all = append(all, subject)
		}
	}
	return all
}

// dueSubjects returns the subjects in the index for runs that have a status in the filter and wait
// neither for an answer nor for a later time.
func (n names) dueSubjects(f *snapshot.Filter) []string {
	var all []string
	for _, subject := range n.indexSubjects(f.Status) {
		switch status := statusIn(subject); status {
		case string(snapshot.StatusPaused): // until it is due
		case "*":
			return []string{subject}
		default:
			all = append(all, "rpi."+n.store+"."+status+"."+noHour+".*")
		}
	}
	for _, hours := range hoursUntil(f.DueBy) {
		all = append(all, "rpi."+n.store+".*."+hours+".*")
	}
	return all
}

// pick reads the index entries of all runs with a status in the filter.
func (s *Store) pick(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	statuses := f.Status
	if f.Count {
		statuses = nil
	}
	return s.pickFrom(ctx, f, s.names.indexSubjects(statuses))
}

// pickFrom reads everything on the given subjects of the index.
func (s *Store) pickFrom(ctx context.Context, f snapshot.Filter, subjects []string) (snapshot.Page, error) {
	p, err := storekit.NewPicker(f)
	if err != nil {
		return snapshot.Page{}, err
	}
	end, err := s.before(ctx, "")
	if err != nil {
		return snapshot.Page{}, err
	}
	l := newLister(s)
	read := func(from, to uint64) error {
		for _, subject := range subjects {
			for m, err := range s.readThere(ctx, s.names.index(), subject, from, to) {
				if err != nil {
					return err
				}
				is, err := l.look(ctx, m)
				if err != nil {
					return err
				} else if is != nil && (from == 1 || !l.seen[is.info.RunID]) {
					l.seen[is.info.RunID] = true
					p.Add(is.info)
				}
			}
		}
		return nil
	}
	if err := read(1, end); err != nil {
		return snapshot.Page{}, err
	}
	if err := s.eachMove(ctx, end, func(from, before uint64) (bool, error) { return true, read(from, before) }); err != nil {
		return snapshot.Page{}, err
	}
	page := p.Page()
	page.Runs = withoutDuplicates(page.Runs)
	return page, nil
}

// withoutDuplicates removes the older of two infos for a run that is moving within the index.
func withoutDuplicates(runs []snapshot.Info) []snapshot.Info {
	newest := make(map[string]*snapshot.Info, len(runs))
	for i := range runs {
		if is := newest[runs[i].RunID]; is == nil || runs[i].Updated.After(is.Updated) {
			newest[runs[i].RunID] = &runs[i]
		}
	}
	if len(newest) == len(runs) {
		return runs
	}
	kept := make([]snapshot.Info, 0, len(newest))
	for i := range runs {
		if newest[runs[i].RunID] == &runs[i] {
			kept = append(kept, runs[i])
		}
	}
	return kept
}

// due lists the runs that are due and the runs that have messages waiting for them.
func (s *Store) due(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	found, err := s.find(ctx, s.names.dueSubjects(&f))
	if err != nil {
		return snapshot.Page{}, err
	}
	waiting := make(map[string]bool)
	err = s.lastMessages(ctx, s.records, []string{s.names.all("m")}, true, func(m *storedMessage) error {
		if m.Header.Get(headerBorn) != "" { // otherwise the message was removed
			_, id := parse(m.Subject)
			waiting[id] = true
		}
		return nil
	})
	for id := range waiting {
		if _, ok := found[id]; ok || err != nil {
			continue
		}
		var info snapshot.Info
		if info, err = s.Info(ctx, id); err == nil {
			found[id] = foundRun{info: info}
		} else if errors.Is(err, snapshot.ErrNotFound) {
			err = nil
		}
	}
	if err != nil {
		return snapshot.Page{}, err
	}
	all := make([]snapshot.Info, 0, len(found))
	for _, is := range found {
		all = append(all, is.info)
	}
	return storekit.Page(f, all)
}

// A foundRun is a run in the index.
type foundRun struct {
	info  snapshot.Info
	seq   uint64 // sequence of the message in the index
	shown stamp  // the stamp of the state that the index shows
}

// find reads everything on the given subjects of the index.
func (s *Store) find(ctx context.Context, subjects []string) (map[string]foundRun, error) {
	found := make(map[string]foundRun)
	l := newLister(s)
	err := s.lastMessages(ctx, s.index, subjects, false, func(m *storedMessage) error {
		is, err := l.look(ctx, m)
		if err == nil && is != nil && found[is.info.RunID].seq < m.Seq {
			found[is.info.RunID] = *is
		}
		return err
	})
	return found, err
}

const (
	firstWindow = 128
	lastWindow  = 4096
)

// latest returns a page of runs, the most recently updated first.
func (s *Store) latest(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	before, err := s.before(ctx, f.After)
	if err != nil {
		return snapshot.Page{}, err
	}
	l, found := newLister(s), []foundRun(nil)
	read := func(first, before uint64) (more bool, err error) {
		return s.eachBetween(ctx, l, &f, first, before, func(is *foundRun) bool {
			found = append(found, *is)
			return f.Limit == 0 || len(found) < f.Limit
		})
	}
	more, err := read(1, before)
	if err == nil && more && f.After == "" {
		err = s.eachMove(ctx, before, read)
	}
	if err != nil {
		return snapshot.Page{}, err
	}
	// Runs that changed while the index was read were found last.
	slices.SortFunc(found, func(a, b foundRun) int { return cmp.Compare(b.seq, a.seq) })
	page := snapshot.Page{Runs: make([]snapshot.Info, len(found))}
	for i := range found {
		page.Runs[i] = found[i].info
	}
	if f.Limit > 0 && len(found) == f.Limit {
		page.Next = strconv.FormatUint(found[len(found)-1].seq, 10)
	}
	return page, nil
}

// eachLatest calls f with each run, the most recently updated first, until f returns false. A run
// that changes while the index is read may be missing.
func (s *Store) eachLatest(ctx context.Context, f func(*foundRun) bool) error {
	before, err := s.before(ctx, "")
	if err != nil {
		return err
	}
	_, err = s.eachBetween(ctx, newLister(s), &snapshot.Filter{}, 1, before, f)
	return err
}

// maxMoves is how often a reader of the index looks for runs that have moved.
const maxMoves = 5

// eachMove calls read with each part of the index that was added at end or later, until nothing is
// added or read returns false. A run that changes moves to the end of the index. If it does so
// while the index is read, a reader may have been too late for its old place, and too early for the
// new one.
func (s *Store) eachMove(ctx context.Context, end uint64, read func(first, before uint64) (more bool, err error)) error {
	for range maxMoves {
		first := max(end, 1)
		var err error
		if end, err = s.before(ctx, ""); err != nil || end <= first {
			return err
		}
		if more, err := read(first, end); err != nil || !more {
			return err
		}
	}
	return nil
}

// eachBetween calls f with each run that the filter selects in a part of the index, from its end
// on, until f returns false. Runs that l has already seen are left out. The index is read in
// windows. As long as windows contain few selected runs, eachBetween makes them larger.
func (s *Store) eachBetween(ctx context.Context, l *lister, filter *snapshot.Filter, first, before uint64, f func(*foundRun) bool) (more bool, err error) {
	subjects := s.names.indexSubjects(filter.Status)
	for window := uint64(firstWindow); before > first; {
		from := first
		if before > first+window {
			from = before - window
		}
		messages, err := s.window(ctx, subjects, from, before-1)
		if errors.Is(err, errTooMany) {
			window = max(window/8, firstWindow)
			continue
		} else if err != nil {
			return false, err
		}
		for _, m := range messages {
			is, err := l.look(ctx, m)
			if err != nil {
				return false, err
			}
			if is == nil || l.seen[is.info.RunID] || !filter.Matches(&is.info) {
				continue
			}
			l.seen[is.info.RunID] = true
			if !f(is) {
				return false, nil
			}
		}
		before = from
		if window = 2 * window; len(messages) < firstWindow/4 {
			window *= 8
		} else {
			window = min(window, lastWindow)
		}
	}
	return true, nil
}

// before returns the sequence in the index before which a page is read.
func (s *Store) before(ctx context.Context, position string) (uint64, error) {
	if position != "" {
		seq, err := strconv.ParseUint(position, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: After %.140q; want the Next of a page", snapshot.ErrFilter, position)
		}
		return seq, nil
	}
	last, err := s.get(ctx, s.names.index(), query{Last: s.names.indexedAs("*")})
	if errors.Is(err, errNotFound) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return last.Seq + 1, nil
}

// errTooMany means that a window contains too many messages to keep in memory.
var errTooMany = errors.New("jetstream: too many messages")

// window reads a window of the index and returns its messages, the last one first. If all statuses
// are wanted, the window's last message shows whether the replica that answered has the whole
// window.
func (s *Store) window(ctx context.Context, subjects []string, from, to uint64) (window []*storedMessage, err error) {
	for _, subject := range subjects {
		read := s.readThere
		if subject == s.names.indexedAs("*") {
			read = s.read
		}
		for m, err := range read(ctx, s.names.index(), subject, from, to) {
			if err != nil {
				return nil, err
			}
			if window = append(window, m); len(window) > 4*lastWindow && to-from > firstWindow {
				return nil, errTooMany
			}
		}
	}
	slices.SortFunc(window, func(a, b *storedMessage) int { return cmp.Compare(b.Seq, a.Seq) })
	return window, nil
}

// A lister reads messages in the index.
type lister struct {
	store *Store
	alive map[string]bool // sessions that have already been checked
	seen  map[string]bool // IDs of the runs that have already been listed
}

func newLister(s *Store) *lister {
	return &lister{store: s, alive: make(map[string]bool), seen: make(map[string]bool)}
}

// look returns the run that a message in the index shows, or nil if the run no longer exists. If the
// message is outdated, the index is corrected.
func (l *lister) look(ctx context.Context, m *storedMessage) (*foundRun, error) {
	info, err := snapshot.DecodeInfo(m.Data)
	if err != nil {
		return nil, fmt.Errorf("snapshot: list: %w", err)
	}
	if statusIn(m.Subject) != indexedAs(info.Status) {
		l.store.noteLagging(info.RunID)
	}
	shown, err := stampOf(m.Header)
	if err != nil {
		return nil, err
	}
	is := &foundRun{info, m.Seq, shown}
	session := m.Header.Get(headerSession)
	if session == "" {
		return is, nil
	}
	alive, known := l.alive[session]
	if !known {
		if alive, err = l.store.isAlive(ctx, session); err != nil {
			return nil, err
		}
		l.alive[session] = alive
	}
	if is.info.Open = alive; alive {
		return is, nil
	}
	return l.lookAgain(ctx, is)
}

// lookAgain reads a run whose process has ended.
func (l *lister) lookAgain(ctx context.Context, is *foundRun) (*foundRun, error) {
	runID := is.info.RunID
	if l.store.isFirstLook(runID, is.seq) {
		l.store.noteLagging(runID)
	}
	info, err := l.store.Info(ctx, runID)
	if errors.Is(err, snapshot.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	is.info = info
	return is, nil
}

// isFirstLook is called when the process that wrote a message in the index has ended. It returns
// true the first time it is called for the message with sequence seq.
func (s *Store) isFirstLook(runID string, seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looked[runID] == seq {
		return false
	}
	if len(s.looked) >= maxLooked {
		clear(s.looked)
	}
	s.looked[runID] = seq
	return true
}

// maxLooked limits the number of runs for which isFirstLook remembers a
// message.
const maxLooked = 10_000
