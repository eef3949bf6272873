package jetstream

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/reprise-go/reprise/snapshot"
)

// The index has one message for each run; the run that changed last is at its end.
// The process that changes a run writes its message, with the stamp of the message of
// the run that it shows: an older one never replaces a newer one that is stored.

// unknown stands for the sequence of a message of the index that was not read.
const unknown = ^uint64(0)

// freeChanged reports whether that changed which may change at any time.
func freeChanged(a, b *snapshot.Info) bool {
	return !reflect.DeepEqual(a.Metadata, b.Metadata) || a.Pinned != b.Pinned || !a.Expires.Equal(b.Expires)
}

// show has the index show a run as it stands. The run has changed already: what
// goes wrong is mended later, so it is no error of the caller's.
func (s *Store) show(ctx context.Context, h *head, expected uint64) (seq uint64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.patience())
	defer cancel()
	seq, _, err := s.putIndex(ctx, h, expected)
	if errors.Is(err, errConflict) {
		_, err = s.reindex(ctx, h.info.RunID)
	}
	if err != nil {
		s.lag(h.info.RunID)
		return unknown
	}
	return seq
}

// showNow is show after what may change at any time was read anew, so that of two
// who change a run at once the later shows both changes.
func (s *Store) showNow(ctx context.Context, h *head, expected uint64) uint64 {
	if err := s.readFree(ctx, h); err != nil {
		s.lag(h.info.RunID)
		return unknown
	}
	return s.show(ctx, h, expected)
}

// lag keeps that the index does not show a run as it stands, and sees to it.
func (s *Store) lag(runID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lagging[runID] = true
	if !s.mending && !s.closed {
		s.mending = true
		s.running.Go(s.mendLater)
	}
}

// mendLater mends the index until it does not lag.
func (s *Store) mendLater() {
	tick := time.NewTicker(s.options.renewal())
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		s.reindexLagging(s.ctx)
		s.mu.Lock()
		s.mending = len(s.lagging) > 0
		done := !s.mending
		s.mu.Unlock()
		if done {
			return
		}
	}
}

// putIndex puts one run into the index, in the place of the message expected, and reports
// whether it was not there yet. It is errConflict if the message expected is not there.
func (s *Store) putIndex(ctx context.Context, h *head, expected uint64) (seq uint64, put bool, err error) {
	if expected == unknown {
		was, shown, err := s.indexed(ctx, h.info.RunID)
		if err != nil {
			return 0, false, err
		}
		isShown := was > 0 && shown == h.stamp()
		if shown.seq > h.stamp().seq { // it is newer, or the message was lost
			if isShown, err = s.isStored(ctx, h.info.RunID, shown); err != nil {
				return 0, false, err
			}
		}
		if isShown {
			return was, false, nil
		}
		expected = was
	}
	data, err := snapshot.AppendInfo(nil, &h.info)
	if err != nil {
		return 0, false, err
	}
	msg := nats.NewMsg(s.names.indexed(h.info.RunID))
	msg.Data = data
	msg.Header.Set(headerID, nuid.Next())
	is := h.stamp()
	msg.Header.Set(headerVersion, strconv.FormatUint(is.seq, 10))
	msg.Header.Set(headerVersionID, is.id)
	if h.isOpen() {
		msg.Header.Set(headerSession, h.session)
	}
	seq, err = s.publish(ctx, s.names.index(), msg, expected)
	return seq, err == nil, err
}

// indexed returns the sequence of the message of a run in the index, and the stamp of what
// it shows; zeros if there is none.
func (s *Store) indexed(ctx context.Context, runID string) (seq uint64, shown stamp, err error) {
	m, err := s.get(ctx, s.names.index(), query{Last: s.names.indexed(runID)})
	if errors.Is(err, errNone) {
		return 0, stamp{}, nil
	} else if err != nil {
		return 0, stamp{}, err
	}
	h, err := m.header()
	if err != nil {
		return 0, stamp{}, err
	}
	shown, err = stampOf(h)
	return m.Seq, shown, err
}

// reindex reads a run and makes the index show it, or no longer. It reports whether that
// changed the index.
func (s *Store) reindex(ctx context.Context, runID string) (changed bool, err error) {
	for {
		h, err := s.head(ctx, runID)
		if errors.Is(err, snapshot.ErrNotFound) {
			return s.hide(ctx, runID)
		} else if err != nil {
			return false, err
		}
		if _, changed, err = s.putIndex(ctx, h, unknown); !errors.Is(err, errConflict) {
			return changed, err
		}
	}
}

// mend is reindex where an error is mended later.
func (s *Store) mend(ctx context.Context, runID string) {
	if _, err := s.reindex(ctx, runID); err != nil {
		s.lag(runID)
	}
}

// hide removes a run from the index that is not there any more. One that was
// begun meanwhile stays.
func (s *Store) hide(ctx context.Context, runID string) (hidden bool, err error) {
	seq, _, err := s.indexed(ctx, runID)
	if err != nil || seq == 0 {
		return false, err
	}
	if _, err := s.head(ctx, runID); !errors.Is(err, snapshot.ErrNotFound) {
		return false, err
	}
	err = s.purge(ctx, s.index, s.names.indexed(runID), seq+1)
	return err == nil, err
}

// reindexLagging mends what show could not.
func (s *Store) reindexLagging(ctx context.Context) {
	s.mu.Lock()
	all := s.lagging
	s.lagging = make(map[string]bool)
	s.mu.Unlock()
	for runID := range all {
		s.mend(ctx, runID)
	}
}
