package jetstream

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/reprise-go/reprise/snapshot"
)

// The index has one message for each run; the run that changed last is at the end. The process that
// changes a run writes the run's message, with the stamp of the state that the message shows. An
// older state never replaces a newer one.
//
// The subject of the message contains the run's status and due time, so that the server can select
// runs. If the status changes, the run moves: its new message is stored before the old one is
// removed. The run is therefore never missing, but is in the index twice for a moment. If a process
// is killed in between, another process that lists the old message corrects the index. It
// recognizes the old message because the process named in it has ended, or because the status in
// the message differs from the status in its subject.

// An entry is a run's position in the index. The zero entry means that the index does not contain
// the run.
type entry struct {
	seq     uint64
	subject string
}

// unreadEntry stands for an entry that has not been read.
var unreadEntry = entry{seq: ^uint64(0)}

// freeChanged reports whether the free fields, which may change at any time, have
// changed.
func freeChanged(a, b *snapshot.Info) bool {
	return !reflect.DeepEqual(a.Metadata, b.Metadata) || a.Pinned != b.Pinned || !a.Expires.Equal(b.Expires)
}

// show updates the index to the current state of a run. If this fails, it does not return an error,
// since the run has already changed: the index is corrected later.
func (s *Store) show(ctx context.Context, h *head, was entry) (now entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.answerTimeout())
	defer cancel()
	now, _, err := s.putIndex(ctx, h, was)
	if errors.Is(err, errConflict) {
		_, err = s.reindex(ctx, h.info.RunID)
	}
	if err != nil {
		s.noteLagging(h.info.RunID)
		return unreadEntry
	}
	return now
}

// showNow is like show, but first reads the free fields again. If two processes change a run at the
// same time, the later one then shows both changes.
func (s *Store) showNow(ctx context.Context, h *head, was entry) entry {
	if err := s.readFree(ctx, h); err != nil {
		s.noteLagging(h.info.RunID)
		return unreadEntry
	}
	return s.show(ctx, h, was)
}

// noteLagging records that the index does not show the current state of a run, and causes the index
// to be corrected.
func (s *Store) noteLagging(runID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lagging[runID] = true
	if !s.mending && !s.closed {
		s.mending = true
		s.running.Go(s.mendLagging)
	}
}

// mendLagging corrects the index repeatedly until it shows all runs in their current state.
func (s *Store) mendLagging() {
	tick := time.NewTicker(s.options.renewEvery())
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

// putIndex puts a run into the index in place of the given entry, and reports whether this changed
// the index. If the entry has changed in the meantime, the error is errConflict.
func (s *Store) putIndex(ctx context.Context, h *head, was entry) (now entry, put bool, err error) {
	wasUnread := was == unreadEntry
	if wasUnread {
		var shown stamp
		if was, shown, err = s.indexed(ctx, h.info.RunID); err != nil {
			return entry{}, false, err
		}
		isShown := was.seq > 0 && shown == h.stamp()
		if shown.seq > h.stamp().seq { // the index shows a newer state, or a state whose message was lost
			if isShown, err = s.isStored(ctx, h.info.RunID, shown); err != nil {
				return entry{}, false, err
			}
		}
		if isShown {
			put, err = s.removeOld(ctx, h.info.RunID, was)
			return was, put, err
		}
	}
	msg, err := s.indexMessage(h)
	if err != nil {
		return entry{}, false, err
	}
	now = entry{subject: msg.Subject}
	moves := was.seq > 0 && was.subject != now.subject
	if moves && wasUnread && !h.isOpen() {
		// If this process is killed before it has removed the old message, no lease shows that to
		// other processes. So the new state is first stored in place of the old message: the status
		// in that message then differs from the status in its subject.
		msg.Subject = was.subject
		if was.seq, err = s.publishIndex(ctx, msg, h.info.RunID, was.seq); err != nil {
			return entry{}, false, err
		}
		msg.Subject = now.subject
		msg.Header.Set(headerID, nuid.Next())
	}
	if now.seq, err = s.publishIndex(ctx, msg, h.info.RunID, was.seq); err != nil {
		return entry{}, false, err
	}
	if moves {
		err = s.removeIndexed(ctx, was.seq)
	}
	return now, true, err
}

// indexMessage returns the index's message for a run.
func (s *Store) indexMessage(h *head) (*nats.Msg, error) {
	data, err := snapshot.AppendInfo(nil, &h.info)
	if err != nil {
		return nil, err
	}
	msg := nats.NewMsg(s.names.indexed(&h.info))
	msg.Data = data
	msg.Header.Set(headerID, nuid.Next())
	is := h.stamp()
	msg.Header.Set(headerVersion, strconv.FormatUint(is.seq, 10))
	msg.Header.Set(headerVersionID, is.id)
	if h.isOpen() {
		msg.Header.Set(headerSession, h.session)
	}
	return msg, nil
}

// publishIndex publishes the index's message for a run if the run's last message in the index, on any
// subject, still has the expected sequence.
func (s *Store) publishIndex(ctx context.Context, msg *nats.Msg, runID string, expected uint64) (uint64, error) {
	return s.publishAfter(ctx, s.names.index(), msg, expected, jetstream.WithExpectLastSequenceForSubject(expected, s.names.indexedOf(runID)))
}

// removeIndexed removes a message from the index if it still exists.
func (s *Store) removeIndexed(ctx context.Context, seq uint64) error {
	err := s.retry(ctx, s.api+"STREAM.MSG.DELETE.", func(ctx context.Context) error { return s.index.DeleteMsg(ctx, seq) })
	var api *jetstream.APIError
	if err == nil || errors.As(err, &api) && api.ErrorCode == codeNotFound {
		return nil
	}
	if _, gone := s.get(ctx, s.names.index(), query{Seq: seq}); errors.Is(gone, errNotFound) { // here, the server has no error code for a missing message
		return nil
	}
	return err
}

// removeOld removes all messages of a run from the index except the message of the given entry. It
// reports whether there were any other messages.
func (s *Store) removeOld(ctx context.Context, runID string, last entry) (bool, error) {
	m, err := s.get(ctx, s.names.index(), query{Next: s.names.indexedOf(runID), Seq: 1})
	if errors.Is(err, errNotFound) || err == nil && m.Seq >= last.seq {
		return false, nil
	} else if err != nil {
		return false, err
	}
	err = s.purge(ctx, s.index, s.names.indexedOf(runID), last.seq)
	return err == nil, err
}

// indexed returns a run's position in the index, and the stamp of the state that the index shows.
// Both are zero if the index does not contain the run.
func (s *Store) indexed(ctx context.Context, runID string) (is entry, shown stamp, err error) {
	m, err := s.get(ctx, s.names.index(), query{Last: s.names.indexedOf(runID)})
	if errors.Is(err, errNotFound) {
		return entry{}, stamp{}, nil
	} else if err != nil {
		return entry{}, stamp{}, err
	}
	shown, err = stampOf(m.Header)
	return entry{m.Seq, m.Subject}, shown, err
}

// reindex reads a run and updates the index. If the run does not exist, reindex removes it from the
// index. It reports whether the index changed.
func (s *Store) reindex(ctx context.Context, runID string) (changed bool, err error) {
	for {
		h, err := s.head(ctx, runID)
		if errors.Is(err, snapshot.ErrNotFound) {
			return s.hide(ctx, runID)
		} else if err != nil {
			return false, err
		}
		if _, changed, err = s.putIndex(ctx, h, unreadEntry); !errors.Is(err, errConflict) {
			return changed, err
		}
	}
}

// mend is like reindex, but if there is an error, it schedules another attempt.
func (s *Store) mend(ctx context.Context, runID string) {
	if _, err := s.reindex(ctx, runID); err != nil && !errors.Is(err, nats.ErrPermissionViolation) { // if this is not permitted, other processes have to correct the index
		s.noteLagging(runID)
	}
}

// hide removes a run that no longer exists from the index. If the run has been created again, it
// stays in the index.
func (s *Store) hide(ctx context.Context, runID string) (hidden bool, err error) {
	last, _, err := s.indexed(ctx, runID)
	if err != nil || last.seq == 0 {
		return false, err
	}
	if _, err := s.head(ctx, runID); !errors.Is(err, snapshot.ErrNotFound) {
		return false, err
	}
	err = s.purge(ctx, s.index, s.names.indexedOf(runID), last.seq+1)
	return err == nil, err
}

// reindexLagging corrects the index for those runs that the method show could not update.
func (s *Store) reindexLagging(ctx context.Context) {
	s.mu.Lock()
	all := s.lagging
	s.lagging = make(map[string]bool)
	s.mu.Unlock()
	for runID := range all {
		s.mend(ctx, runID)
	}
}
