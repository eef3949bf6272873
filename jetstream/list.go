package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// The last that changed is at the end of the index, which is read backwards in
// windows of its sequence.

// List implements [snapshot.Reader].
func (s *Store) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	if err := context.Cause(ctx); err != nil {
		return snapshot.Page{}, err
	}
	if err := f.Check(); err != nil {
		return snapshot.Page{}, err
	}
	s.reindexLagging(ctx)
	if f.IsSorted() {
		return s.pick(ctx, f)
	}
	page, err := s.latest(ctx, f)
	if err == nil && f.Count {
		f.Before, f.Limit = "", 1
		var counted snapshot.Page
		counted, err = s.pick(ctx, f)
		page.Counts = counted.Counts
	}
	return page, err
}

// pick reads the whole index.
func (s *Store) pick(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	p, err := storekit.NewPicker(f)
	if err != nil {
		return snapshot.Page{}, err
	}
	l := lister{store: s, add: func(info snapshot.Info, _ uint64) { p.Add(info) }, alive: make(map[string]bool)}
	before, err := s.before(ctx, "")
	if err == nil && before > 1 {
		err = l.look(ctx, 1, before-1)
	}
	return p.Page(), err
}

// latest returns a page with the last updated first, for which it reads the end of the
// index.
func (s *Store) latest(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	before, err := s.before(ctx, f.Before)
	if err != nil {
		return snapshot.Page{}, err
	}
	page := snapshot.Page{Runs: []snapshot.Info{}}
	l := lister{store: s, alive: make(map[string]bool)}
	l.add = func(info snapshot.Info, seq uint64) {
		if !f.Matches(&info) {
			return
		}
		page.Runs = append(page.Runs, info)
		if f.Limit > 0 && len(page.Runs) == f.Limit {
			page.Next, l.full = strconv.FormatUint(seq, 10), true
		}
	}
	for window := uint64(firstWindow); before > 1 && !l.full; window = min(2*window, lastWindow) {
		from := uint64(1)
		if before > window {
			from = before - window
		}
		if err := l.look(ctx, from, before-1); err != nil {
			return snapshot.Page{}, err
		}
		before = from
	}
	return page, nil
}

const (
	firstWindow = 128
	lastWindow  = 4096
)

// before is the sequence of the index before which a page begins.
func (s *Store) before(ctx context.Context, position string) (uint64, error) {
	if position != "" {
		seq, err := strconv.ParseUint(position, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: Before %.140q; want the Next of a page", snapshot.ErrFilter, position)
		}
		return seq, nil
	}
	last, err := s.get(ctx, s.names.index(), query{Last: s.names.indexed("*")})
	if errors.Is(err, errNone) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return last.Seq + 1, nil
}

// A lister makes one page.
type lister struct {
	store *Store
	add   func(info snapshot.Info, seq uint64)
	alive map[string]bool // sessions that were looked at
	full  bool
}

// look takes what the filter picks from a window of the index, the last first.
func (l *lister) look(ctx context.Context, from, to uint64) error {
	var window []*nats.Msg
	subject := l.store.names.indexed("*")
	for at := from; at <= to; {
		batch, err := l.store.readBatch(ctx, l.store.names.index(), subject, at)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			break
		}
		for _, msg := range batch {
			seq, _ := sequenceOf(msg)
			if at = seq + 1; seq <= to {
				window = append(window, msg)
			}
		}
	}
	for i := len(window) - 1; i >= 0; i-- {
		if err := l.take(ctx, window[i]); err != nil || l.full {
			return err
		}
	}
	return nil
}

func (l *lister) take(ctx context.Context, msg *nats.Msg) error {
	info, err := snapshot.DecodeInfo(msg.Data)
	if err != nil {
		return fmt.Errorf("snapshot: list: %w", err)
	}
	if session := msg.Header.Get(headerSession); session != "" {
		if info, err = l.openInfo(ctx, info, session); errors.Is(err, snapshot.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
	}
	seq, _ := sequenceOf(msg)
	l.add(info, seq)
	return nil
}

// openInfo is what is known of a run that is open by the index: one whose process
// has ended is looked at.
func (l *lister) openInfo(ctx context.Context, info snapshot.Info, session string) (snapshot.Info, error) {
	alive, known := l.alive[session]
	if !known {
		var err error
		if alive, err = l.store.isAlive(ctx, session); err != nil {
			return info, err
		}
		l.alive[session] = alive
	}
	if info.Open = alive; alive {
		return info, nil
	}
	return l.store.Info(ctx, info.RunID)
}
