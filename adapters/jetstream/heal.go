package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/snapshot"
)

// A server syncs each stream separately. After a power failure, the index may therefore be older or
// newer than the records: it shows runs that no longer exist, or lacks runs that do exist. The
// index is derived from the records and is corrected where the two disagree. This is done when the
// store is opened, after the server was restarted, when a stream turns out to have lost messages,
// and by [Store.Repair].
//
// A sequence number does not identify a message: after a loss, the server assigns the same number
// to another message. The entries of the index are therefore compared by a stamp.

// A stamp identifies a state of a run by the newest message from which that state is derived.
type stamp struct {
	seq uint64
	id  string // unique ID of the message
}

// A RepairReport counts what [Store.Repair] changed.
type RepairReport struct {
	Shown  int // runs that were missing from the list, or were shown in an old state
	Hidden int // runs that the list showed although they did not exist
	Queued int // jobs that no worker would have received; counted only if the store's queue was opened
}

// Repair compares the list of runs with their records, and corrects the list where the two
// disagree, as they may after a power failure of the server. The store does this automatically when
// it is opened and after its server was restarted. Runs may continue in the meantime. For each run,
// Repair reads one header and needs a hundred bytes of memory.
func (s *Store) Repair(ctx context.Context) (r RepairReport, err error) {
	defer func() { s.noteRepaired(r) }()
	stored, err := s.storedStamps(ctx)
	if err != nil {
		return r, fmt.Errorf("snapshot: repair: %w", err)
	}
	indexed, err := s.indexedStamps(ctx)
	if err != nil {
		return r, fmt.Errorf("snapshot: repair: %w", err)
	}
	reindex := func(id string, n *int) error {
		changed, err := s.reindex(ctx, id)
		if err != nil {
			return fmt.Errorf("snapshot: repair: %w", err)
		}
		if changed {
			*n++
		}
		return nil
	}
	for id, is := range stored {
		if shown, ok := indexed[id]; ok && is.isShown(shown) {
			continue
		}
		if err := reindex(id, &r.Shown); err != nil {
			return r, err
		}
	}
	for id := range indexed {
		if stored[id] != nil {
			continue
		}
		if err := reindex(id, &r.Hidden); err != nil {
			return r, err
		}
	}
	s.mu.Lock()
	queue := s.queue
	s.mu.Unlock()
	if queue != nil {
		if r.Queued, err = queue.repair(ctx); err != nil {
			return r, fmt.Errorf("snapshot: repair: %w", err)
		}
	}
	return r, nil
}

// RepairReport reports what has been repaired since the store was opened: by Open, in the
// background, and by [Store.Repair].
func (s *Store) RepairReport() RepairReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.repaired
}

// noteRepaired adds r to the report of what was repaired.
func (s *Store) noteRepaired(r RepairReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repaired.Shown += r.Shown
	s.repaired.Hidden += r.Hidden
	s.repaired.Queued += r.Queued
}

// storedStamp contains the stamps of the newest messages of a run.
type storedStamp struct {
	run, free stamp
	opening   uint64 // sequence at which the run was opened, if records were appended since then: records do not change the index
}

// isShown reports whether the index shows the current state of the run.
func (s *storedStamp) isShown(shown stamp) bool {
	newest := s.run
	if s.free.seq > newest.seq {
		newest = s.free
	}
	if s.opening > 0 && s.free.seq < s.opening {
		return shown.seq >= s.opening && shown.seq <= newest.seq
	}
	return shown == newest
}

// changed returns the sequence of the newest message that has changed the run's info.
func (s *storedStamp) changed() uint64 {
	return max(cmp.Or(s.opening, s.run.seq), s.free.seq)
}

// storedStamps returns the stamps of all existing runs, keyed by run ID.
func (s *Store) storedStamps(ctx context.Context) (map[string]*storedStamp, error) {
	all, free := make(map[string]*storedStamp), make(map[string]stamp)
	err := s.lastMessages(ctx, s.records, []string{s.names.all("r"), s.names.all("f")}, true, func(m *storedMessage) error {
		h := m.Header
		class, id := parse(m.Subject)
		is := stamp{m.Seq, h.Get(headerID)}
		if class == "f" {
			free[id] = is
			return nil
		}
		delete(all, id)
		switch kind(h.Get(headerKind)) {
		case kindDeleted:
		case kindAppended:
			numbers := headerReader{h: h}
			all[id] = &storedStamp{run: is, opening: numbers.uint(headerOpening)}
			if numbers.err != nil {
				return fmt.Errorf("%w: run %s: message %d: %w", snapshot.ErrCorrupt, id, m.Seq, numbers.err)
			}
		default:
			all[id] = &storedStamp{run: is}
		}
		return nil
	})
	for id, is := range free {
		if run := all[id]; run != nil {
			run.free = is
		}
	}
	return all, err
}

// indexedStamps returns the stamps in the index, keyed by run ID.
func (s *Store) indexedStamps(ctx context.Context) (map[string]stamp, error) {
	all := make(map[string]stamp)
	err := s.lastMessages(ctx, s.index, []string{s.names.indexedAs("*")}, true, func(m *storedMessage) error {
		id := indexedRun(m.Subject)
		is, err := stampOf(m.Header)
		if _, twice := all[id]; twice {
			is = stamp{} // the older message must be removed
		}
		all[id] = is
		return err
	})
	return all, err
}

// stampOf returns the stamp in the headers of a message in the index.
func stampOf(h nats.Header) (stamp, error) {
	numbers := headerReader{h: h}
	is := stamp{numbers.uint(headerVersion), h.Get(headerVersionID)}
	if numbers.err != nil {
		return is, fmt.Errorf("%w: a message in the index: %w", snapshot.ErrCorrupt, numbers.err)
	}
	return is, nil
}

// lastMessages calls f with the message that is now the last one on each subject, and perhaps with
// later messages. If headersOnly is set, it does not read the data. After a temporary error, it
// starts over.
func (s *Store) lastMessages(ctx context.Context, stream jetstream.Stream, subjects []string, headersOnly bool, f func(*storedMessage) error) error {
	return s.retryWithin(ctx, s.api+"CONSUMER.", scanLimit, scanLimit/4, func(ctx context.Context) error {
		consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
			FilterSubjects: subjects, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, AckPolicy: jetstream.AckNonePolicy,
			HeadersOnly: headersOnly, MemoryStorage: true, Replicas: 1, InactiveThreshold: consumerIdle,
		})
		if err != nil {
			return err
		}
		defer func() { _ = stream.DeleteConsumer(context.WithoutCancel(ctx), consumer.CachedInfo().Name) }() // if this fails, the server removes the consumer after a while
		for left := consumer.CachedInfo().NumPending; left > 0; {
			// If more messages are requested than exist, the server searches for them up to the end
			// of the stream.
			batch, err := consumer.FetchNoWait(int(min(left, readBatch)))
			if err != nil {
				return err
			}
			before := left
			for msg := range batch.Messages() {
				m, meta, err := readDelivered(msg)
				if err != nil {
					return err
				}
				if err := f(m); err != nil {
					return err
				}
				left = meta.NumPending
			}
			if err := cmp.Or(batch.Error(), ctx.Err()); err != nil {
				return err
			}
			if left == before { // the server has no more messages, or has not found them yet
				_ = pause(ctx, retryPause) // the loop then notices the end of ctx
			}
		}
		return nil
	})
}

// scanLimit limits how long it may take to read all headers.
const scanLimit = 2 * time.Minute

// isIntact reports whether the last records agree with the end of the index. The check is cheap. It
// detects whether one of the streams has lost its end, provided that nothing has been appended
// since.
func (s *Store) isIntact(ctx context.Context) (bool, error) {
	last, err := s.get(ctx, s.names.index(), query{Last: s.names.indexedAs("*")})
	if err == nil {
		is, err := stampOf(last.Header)
		if err != nil {
			return false, err
		}
		if stored, err := s.isStored(ctx, indexedRun(last.Subject), is); err != nil || !stored {
			return false, err
		}
	} else if !errors.Is(err, errNotFound) {
		return false, err
	}
	return s.isLastShown(ctx)
}

// isLastShown reports whether the index shows the current state of the run that changed last.
func (s *Store) isLastShown(ctx context.Context) (bool, error) {
	last, err := s.get(ctx, s.names.records(), query{Last: s.names.all("r")})
	if errors.Is(err, errNotFound) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	_, id := parse(last.Subject)
	h, err := s.head(ctx, id)
	if errors.Is(err, snapshot.ErrNotFound) {
		return true, nil // it was deleted
	} else if err != nil {
		return false, err
	}
	_, shown, err := s.indexed(ctx, id)
	if h.kind == kindAppended {
		return shown.seq >= h.opening, err
	}
	return shown == h.stamp(), err
}

// isStored reports whether the message identified by a stamp still exists.
func (s *Store) isStored(ctx context.Context, runID string, is stamp) (bool, error) {
	m, err := s.get(ctx, s.names.records(), query{Seq: is.seq})
	if errors.Is(err, errNotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return (m.Subject == s.names.run(runID) || m.Subject == s.names.free(runID)) && m.Header.Get(headerID) == is.id, nil
}

// healOpened is called when the store is opened. It repairs what an earlier power failure damaged.
func (s *Store) healOpened(ctx context.Context) error {
	intact, err := s.isIntact(ctx)
	if err == nil && !intact {
		if _, err = s.Repair(ctx); errors.Is(err, nats.ErrPermissionViolation) {
			return nil // this process is not allowed to write; a worker will repair the store
		}
	}
	return err
}

// healLoop runs until the store is closed. It repairs the store after its server was restarted and
// after a stream has lost messages.
func (s *Store) healLoop() {
	connected := s.conn.StatusChanged(nats.CONNECTED)
	defer s.conn.RemoveStatusListener(connected)
	for server := s.conn.ConnectedServerId(); ; {
		select {
		case <-connected:
			now := s.conn.ConnectedServerId()
			if now == server { // it is the same server, with the same streams
				continue
			}
			server = now
			if s.hasLost(s.ctx) {
				s.finishSession()
			}
		case <-s.damaged: // runs that this process has open may be lost
			s.finishSession()
		case <-s.ctx.Done():
			return
		}
		for _, err := s.Repair(s.ctx); err != nil && s.ctx.Err() == nil; _, err = s.Repair(s.ctx) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				break // this process is not allowed to write; a worker will repair the store
			}
			_ = pause(s.ctx, retryPause)
		}
	}
}

// lastWritten contains, for each server to which this process was connected, the last message that
// the process wrote there for any run. The message is kept until hasLost checks whether it still
// exists.
type lastWritten struct {
	mu sync.Mutex
	on map[string]stamp
}

func (w *lastWritten) add(is stamp, server string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.on == nil {
		w.on = make(map[string]stamp)
	}
	if is.seq > w.on[server].seq {
		w.on[server] = is
	}
}

// takeOthers removes and returns the messages that were written to servers other than the current
// one.
func (w *lastWritten) takeOthers(current string) (others []stamp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for server, is := range w.on {
		if server != current {
			others = append(others, is)
			delete(w.on, server)
		}
	}
	return others
}

// noteWritten notes that a run's message was stored. server is the server to which this process was
// connected before it sent the message. If the process is connected to another server now, healLoop
// may have run before this message was noted, so noteWritten checks the message as well.
func (s *Store) noteWritten(ctx context.Context, is stamp, server string) {
	s.written.add(is, server)
	if s.conn.ConnectedServerId() != server && s.hasLost(ctx) {
		s.noteDamage()
	}
}

// hasLost checks the last message that this process wrote before a server restarted. It reports
// whether that message no longer exists. If so, the server may also have lost other messages, and
// may still show a closed run as open in this process's session. If the server does not answer,
// hasLost returns true, since a new session does no harm.
func (s *Store) hasLost(ctx context.Context) bool {
	for _, is := range s.written.takeOthers(s.conn.ConnectedServerId()) {
		m, err := s.get(ctx, s.names.records(), query{Seq: is.seq})
		if err != nil || m.Header.Get(headerID) != is.id { // the message of a deleted run does not exist either
			return true
		}
	}
	return false
}

// noteDamage triggers a repair when it turns out that the stream of records has lost messages.
func (s *Store) noteDamage() {
	s.newest.Store(0)
	select {
	case s.damaged <- struct{}{}:
	default: // a repair is already pending
	}
}

// finishSession ends the session, so that its runs are opened again in their stored state.
func (s *Store) finishSession() {
	s.mu.Lock()
	own := s.current
	s.mu.Unlock()
	if own != nil {
		own.finish()
	}
}
