package jetstream

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/reprise-go/reprise/snapshot"
)

// The index has one message for each run; the run that changed last is at its end.
// The process that changes a run writes its message, with the sequence of the
// message of the run that it shows: an older one never replaces a newer one.

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
	seq, err := s.putIndex(ctx, h, expected)
	if errors.Is(err, errConflict) {
		err = s.reindex(ctx, h.info.RunID)
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

// putIndex puts one run into the index, in the place of the message expected. It is
// errConflict if that is not there.
func (s *Store) putIndex(ctx context.Context, h *head, expected uint64) (uint64, error) {
	if expected == unknown {
		was, version, err := s.indexed(ctx, h.info.RunID)
		if err != nil {
			return 0, err
		} else if version >= h.version() {
			return was, nil
		}
		expected = was
	}
	data, err := snapshot.AppendInfo(nil, &h.info)
	if err != nil {
		return 0, err
	}
	msg := nats.NewMsg(s.names.indexed(h.info.RunID))
	msg.Data = data
	msg.Header.Set(headerID, nuid.Next())
	msg.Header.Set(headerVersion, strconv.FormatUint(h.version(), 10))
	if h.isOpen() {
		msg.Header.Set(headerSession, h.session)
	}
	return s.publish(ctx, s.names.index(), msg, expected)
}

// indexed returns the sequence of the message of a run in the index, and the
// version of what it shows; zeros if there is none.
func (s *Store) indexed(ctx context.Context, runID string) (seq, version uint64, err error) {
	m, err := s.get(ctx, s.names.index(), query{Last: s.names.indexed(runID)})
	if errors.Is(err, errNone) {
		return 0, 0, nil
	} else if err != nil {
		return 0, 0, err
	}
	h, err := m.header()
	if err != nil {
		return 0, 0, err
	}
	numbers := reader{h: h}
	version = numbers.uint(headerVersion)
	if numbers.err != nil {
		return 0, 0, fmt.Errorf("%w: the index of run %s: %w", snapshot.ErrCorrupt, runID, numbers.err)
	}
	return m.Seq, version, nil
}

// reindex reads a run and has the index show it, or no longer.
func (s *Store) reindex(ctx context.Context, runID string) error {
	for {
		h, err := s.head(ctx, runID)
		if errors.Is(err, snapshot.ErrNotFound) {
			return s.hide(ctx, runID)
		} else if err != nil {
			return err
		}
		if _, err = s.putIndex(ctx, h, unknown); !errors.Is(err, errConflict) {
			return err
		}
	}
}

// mend is reindex where an error is mended later.
func (s *Store) mend(ctx context.Context, runID string) {
	if err := s.reindex(ctx, runID); err != nil {
		s.lag(runID)
	}
}

// hide removes a run from the index that is not there any more. One that was
// begun meanwhile stays.
func (s *Store) hide(ctx context.Context, runID string) error {
	seq, _, err := s.indexed(ctx, runID)
	if err != nil || seq == 0 {
		return err
	}
	if _, err := s.head(ctx, runID); !errors.Is(err, snapshot.ErrNotFound) {
		return err
	}
	return s.purge(ctx, s.index, s.names.indexed(runID), seq+1)
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
