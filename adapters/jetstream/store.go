package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/reprise-go/reprise/internal/serverclock"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// A Store is a [snapshot.Store] on JetStream, for many processes on many machines. It is safe for
// concurrent use; make one with [Open].
type Store struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	api     string // the subject prefix for requests to the server
	options Options
	names   names
	records jetstream.Stream
	index   jetstream.Stream
	now     *serverclock.Clock

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup // the goroutines that Close waits for; they are started with mu held while the store is not closed

	mu        sync.Mutex
	closed    bool
	current   *session // this process's session; nil before it opens a run
	refused   error    // why the last session could not listen; nil after the error was returned
	sightings map[string]sighting
	lagging   map[string]bool   // runs whose current state the index does not show
	mending   bool              // a goroutine is correcting the index
	queue     *Queue            // nil if no queue was opened
	repaired  RepairReport      // what has been repaired since the store was opened
	looked    map[string]uint64 // for each run whose process has ended, the index message that was last corrected

	damaged chan struct{} // holds a value if a stream may have lost messages
	written lastWritten
	newest  atomic.Uint64 // the sequence of the newest message known to be stored in the stream of records
}

var _ snapshot.Store = (*Store)(nil)

// Close ends this process's session. The process loses the runs that it has open, and other processes
// can continue them at once. Close returns when all of the store's goroutines have ended. It leaves
// the connection open. Close may be called twice.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.running.Wait()
	return nil
}

// run runs f in a goroutine that Close waits for. If the store is closed, run does nothing and
// returns false.
func (s *Store) run(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running.Go(f)
	}
	return !s.closed
}

// A head is the state of a run.
type head struct {
	message               // the last message
	info    snapshot.Info // what is known about the run
	free    stamp         // the stamp of the free fields, which may change at any time; zero if only the info contains them
}

// stamp returns the info's stamp. A stamp with a higher sequence is newer.
func (h *head) stamp() stamp {
	if h.free.seq > h.seq {
		return h.free
	}
	return stamp{h.seq, h.id}
}

// head reads a run's state. If the run does not exist, the error is snapshot.ErrNotFound, and the
// returned head contains only the sequence of the message that deleted the run, or 0 if there is
// none.
func (s *Store) head(ctx context.Context, runID string) (*head, error) {
	if err := storekit.Check(ctx, runID); err != nil {
		return nil, err
	}
	for range headAttempts {
		h, err := s.tryHead(ctx, runID)
		if !errors.Is(err, errNotFound) {
			return h, err
		}
		if err := pause(ctx, retryPause); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: run %s: the message that opened it is missing in stream %s", snapshot.ErrCorrupt, runID, s.names.records())
}

// headAttempts is how often head reads a run that changes meanwhile. After that, the stream is
// damaged.
const headAttempts = 50

// tryHead makes one attempt to read a run's state. It returns errNotFound if the run changed during
// the attempt.
func (s *Store) tryHead(ctx context.Context, runID string) (*head, error) {
	subject := s.names.run(runID)
	last, err := s.message(ctx, query{Last: subject})
	switch {
	case errors.Is(err, errNotFound):
		return &head{}, storekit.NotFoundError(runID)
	case err != nil:
		return nil, fmt.Errorf("snapshot: run %s: %w", runID, err)
	case last.kind == kindDeleted:
		return &head{message: message{seq: last.seq}}, storekit.NotFoundError(runID)
	}
	h := &head{message: *last}
	if last.kind == kindAppended {
		opening, err := s.message(ctx, query{Seq: last.opening})
		if err != nil {
			return nil, err
		}
		h.born, h.message.info = opening.born, opening.info
	}
	if h.info, err = snapshot.DecodeInfo(h.message.info); err != nil {
		return nil, fmt.Errorf("snapshot: run %s: %w", runID, err)
	}
	h.info.LastSeq = h.last
	if err := s.readFree(ctx, h); err != nil {
		return nil, err
	}
	if !h.isOpen() {
		return h, nil
	}
	if h.info.Open, err = s.isAlive(ctx, h.session); err != nil {
		return nil, err
	} else if h.info.Open = h.info.Open && !s.hasLeft(h); !h.info.Open {
		h.info = storekit.CrashedInfo(h.info)
	}
	return h, nil
}

// hasLeft reports whether this process was the last to open the run but could not close it.
func (s *Store) hasLeft(h *head) bool {
	s.mu.Lock()
	own := s.current
	s.mu.Unlock()
	opening := h.seq
	if h.kind == kindAppended {
		opening = h.opening
	}
	return own != nil && own.id == h.session && own.hasLeft(h.info.RunID, opening)
}

// message reads one message on a run's subject.
func (s *Store) message(ctx context.Context, q query) (*message, error) {
	m, err := s.get(ctx, s.names.records(), q)
	if err != nil {
		return nil, err
	}
	return decode(m)
}

// readFree reads the fields of a run that may change at any time, even while another process has
// the run open.
func (s *Store) readFree(ctx context.Context, h *head) error {
	m, err := s.get(ctx, s.names.records(), query{Last: s.names.free(h.info.RunID)})
	if errors.Is(err, errNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	h.free = stamp{m.Seq, m.Header.Get(headerID)}
	if m.Header.Get(headerBorn) != h.born {
		return nil // the fields belong to a deleted run
	}
	free, err := snapshot.DecodeInfo(m.Data)
	if err != nil {
		return fmt.Errorf("snapshot: run %s: %w", h.info.RunID, err)
	}
	setFree(&h.info, &free)
	return nil
}

// setFree sets the fields that may change at any time.
func setFree(info, free *snapshot.Info) {
	info.Metadata, info.Pinned, info.Expires = free.Metadata.Clone(), free.Pinned, free.Expires
	if free.Updated.After(info.Updated) {
		info.Updated = free.Updated
	}
}

// Info implements [snapshot.Reader].
func (s *Store) Info(ctx context.Context, runID string) (snapshot.Info, error) {
	h, err := s.head(ctx, runID)
	if err != nil {
		return snapshot.Info{}, err
	}
	return h.info, nil
}

// Create implements [snapshot.Store].
func (s *Store) Create(ctx context.Context, run *snapshot.Run) (snapshot.Info, error) {
	if err := storekit.Check(ctx, run.RunID); err != nil {
		return snapshot.Info{}, err
	}
	info, err := storekit.CreatedInfo(run.Info)
	if err != nil {
		return snapshot.Info{}, err
	}
	info.LastSeq = uint64(run.Len())
	m := &message{kind: kindSettled, generation: info.Generation, last: info.LastSeq, born: nuid.Next()}
	for seq := range info.LastSeq {
		m.records = append(m.records, run.Encoded(seq+1)...)
	}
	for {
		found, err := s.head(ctx, info.RunID)
		if err == nil {
			s.mend(ctx, info.RunID) // in case the process that created the run was killed before it wrote the index
			return snapshot.Info{}, fmt.Errorf("%w: run %s", snapshot.ErrExists, info.RunID)
		} else if !errors.Is(err, snapshot.ErrNotFound) {
			return snapshot.Info{}, err
		}
		seq, err := s.append(ctx, info.RunID, m, &info, found.seq)
		if errors.Is(err, errConflict) {
			continue
		} else if err != nil {
			return snapshot.Info{}, fmt.Errorf("snapshot: create run %s: %w", info.RunID, err)
		}
		m.seq = seq
		s.show(ctx, &head{message: *m, info: info}, entry{})
		return info, nil
	}
}

// append appends a message to a run if the run's last message has the expected sequence. Otherwise,
// the error is errConflict.
func (s *Store) append(ctx context.Context, runID string, m *message, info *snapshot.Info, expected uint64) (seq uint64, err error) {
	m.id = nuid.Next()
	if info != nil {
		if m.info, err = snapshot.AppendInfo(nil, info); err != nil {
			return 0, err
		}
	}
	if len(m.info)+len(m.records) > s.maxPayload() && len(m.records) > 0 {
		if m.artifact, err = s.Put(ctx, m.records); err != nil {
			return 0, err
		}
		m.records = nil
	}
	server := s.conn.ConnectedServerId()
	if seq, err = s.publish(ctx, s.names.records(), m.encode(s.names.run(runID)), expected); err == nil {
		s.noteWritten(ctx, stamp{seq, m.id}, server)
	}
	return seq, err
}

// maxPayload returns the maximum size of a message's payload.
func (s *Store) maxPayload() int { return int(s.conn.MaxPayload()) - headerRoom }

// Update implements [snapshot.Store].
func (s *Store) Update(ctx context.Context, runID string, change func(*snapshot.Info) error) (snapshot.Info, error) {
	for {
		h, err := s.head(ctx, runID)
		if err != nil {
			return snapshot.Info{}, err
		}
		now, err := s.update(ctx, h, change)
		if !errors.Is(err, errConflict) {
			return now, err
		}
	}
}

// update returns errConflict if the run has changed since it was read. In this case, nothing is
// stored.
func (s *Store) update(ctx context.Context, h *head, change func(*snapshot.Info) error) (snapshot.Info, error) {
	before := h.info
	after, err := storekit.UpdatedInfo(before, change)
	if err != nil {
		return snapshot.Info{}, err
	}
	owned, free := storekit.OwnerFieldsDiffer(&before, &after), freeChanged(&before, &after)
	if !owned && !free {
		return before, nil
	}
	if owned {
		m := &message{kind: kindSettled, generation: h.generation, last: h.last, born: h.born}
		seq, err := s.append(ctx, after.RunID, m, &after, h.seq)
		if errors.Is(err, errConflict) {
			return snapshot.Info{}, err
		} else if err != nil {
			return snapshot.Info{}, fmt.Errorf("snapshot: update run %s: %w", after.RunID, err)
		}
		m.seq = seq
		h.message = *m
	}
	h.info = after
	if free {
		if err := s.putFree(ctx, h, before, change, owned); err != nil {
			return snapshot.Info{}, err
		}
	}
	s.show(ctx, h, unreadEntry)
	return h.info, nil
}

// putFree stores the fields that may change at any time. If another process has changed them first,
// putFree returns errConflict, unless settled is true: in that case, the other fields have already
// been stored, so putFree applies change to the free fields again and retries.
func (s *Store) putFree(ctx context.Context, h *head, before snapshot.Info, change func(*snapshot.Info) error, settled bool) error {
	for {
		data, err := snapshot.AppendInfo(nil, &h.info)
		if err != nil {
			return err
		}
		msg := nats.NewMsg(s.names.free(h.info.RunID))
		msg.Data = data
		msg.Header.Set(headerID, nuid.Next())
		msg.Header.Set(headerBorn, h.born)
		msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
		seq, err := s.publish(ctx, s.names.records(), msg, h.free.seq)
		if err == nil {
			h.free = stamp{seq, msg.Header.Get(headerID)}
			return nil
		} else if !errors.Is(err, errConflict) || !settled {
			return err
		}
		now := head{message: h.message, info: before}
		if err := s.readFree(ctx, &now); err != nil {
			return err
		}
		after, err := storekit.UpdatedInfo(now.info, change)
		if err != nil {
			return err
		}
		setFree(&h.info, &after)
		h.free = now.free
	}
}

// Delete implements [snapshot.Store].
func (s *Store) Delete(ctx context.Context, runID string) error {
	for {
		h, err := s.head(ctx, runID)
		if err != nil {
			return err
		}
		if h.info.Open {
			return &snapshot.LockedError{RunID: runID, Owner: h.info.Owner}
		}
		m := &message{kind: kindDeleted, generation: h.generation, last: h.last, born: h.born}
		seq, err := s.append(ctx, runID, m, &h.info, h.seq)
		if errors.Is(err, errConflict) {
			continue
		} else if err != nil {
			return fmt.Errorf("snapshot: delete run %s: %w", runID, err)
		}
		if err := s.clear(ctx, runID, seq); err != nil {
			return fmt.Errorf("snapshot: run %s is deleted, but some of its data is left: %w", runID, err)
		}
		return nil
	}
}

// clear removes a deleted run's data, up to the message with sequence seq. Later messages belong to
// another run.
func (s *Store) clear(ctx context.Context, runID string, seq uint64) error {
	var all error
	for _, subject := range []string{s.names.run(runID), s.names.free(runID), s.names.inbox(runID)} {
		all = errors.Join(all, s.purge(ctx, s.records, subject, seq))
	}
	_, err := s.hide(ctx, runID)
	return errors.Join(all, err)
}
