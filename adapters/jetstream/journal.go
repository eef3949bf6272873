package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// A journal is one run that this process has open. Append queues records, and one goroutine
// sends them, one message at a time: the sequence that the next message is compared with is in
// the acknowledgement of the previous one.
type journal struct {
	store   *Store
	session *session
	runID   string
	marker  message       // the message that opened the run
	known   snapshot.Info // the current info
	indexed entry         // its place in the index

	restored *snapshot.Run
	notify   chan struct{}
	work     chan struct{} // wakes the sender
	stop     chan struct{} // closed by Close: nothing more is queued
	done     chan struct{} // closed when the sender has ended

	at uint64 // the sequence of the last message of the run; owned by the sender, then by Close

	mu      sync.Mutex
	queue   []batch // not sent yet
	queued  uint64  // the number of the last record that was appended
	stored  uint64  // the number of the last record that the server has acknowledged
	changed chan struct{}
	err     error // the error that broke it
	closed  bool
	ended   chan struct{} // closed when Close has ended
	endErr  error         // the error that Close returned
}

// A batch contains records that were appended together, encoded.
type batch struct {
	records []byte
	last    uint64 // the number of the last of them
}

func newJournal(s *Store, own *session, m *message, now snapshot.Info) *journal {
	return &journal{
		store: s, session: own, runID: now.RunID, marker: *m, known: now, indexed: unread,
		notify: make(chan struct{}, 1), work: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		at: m.seq, changed: make(chan struct{}), ended: make(chan struct{}),
	}
}

// begin starts the sender.
func (j *journal) begin(restored *snapshot.Run) {
	j.restored = restored
	j.queued, j.stored = j.marker.last, j.marker.last
	j.session.add(j)
	if !j.store.run(j.send) {
		close(j.done)
	}
}

func (j *journal) Restored() *snapshot.Run { return j.restored }

func (j *journal) Notify() <-chan struct{} { return j.notify }

func (j *journal) Lost() <-chan struct{} { return j.session.lost() }

func (j *journal) ring() {
	select {
	case j.notify <- struct{}{}:
	default:
	}
}

// fail breaks the journal. j.mu must be held.
func (j *journal) fail(err error) error {
	if j.err == nil {
		j.err = err
		j.signal()
	}
	return j.err
}

// signal wakes the callers of Sync that wait. The lock is held.
func (j *journal) signal() {
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *journal) Append(records ...record.Record) error {
	over := j.session.isOver()
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.err != nil:
		return j.err
	case j.closed:
		return snapshot.ErrClosed
	case over:
		return j.fail(j.lease(snapshot.ErrLease))
	}
	if len(records) == 0 {
		return nil
	}
	b := batch{last: j.queued}
	for i := range records {
		r := &records[i]
		if b.last++; r.Seq != b.last {
			return j.fail(fmt.Errorf("snapshot: run %s: got record %d, want record %d", j.runID, r.Seq, b.last))
		}
		var err error
		if b.records, err = snapshot.AppendRecord(b.records, r); err != nil {
			return j.fail(fmt.Errorf("snapshot: run %s: %w", j.runID, err))
		}
	}
	j.queue, j.queued = append(j.queue, b), b.last
	select {
	case j.work <- struct{}{}:
	default:
	}
	return nil
}

func (j *journal) lease(kind error) error { return fmt.Errorf("%w: run %s", kind, j.runID) }

// send sends the queue until the journal is closed or broken.
func (j *journal) send() {
	defer close(j.done)
	for {
		select {
		case <-j.work:
		case <-j.stop:
			return
		case <-j.session.lost():
			j.lose()
			return
		}
		if err := j.sendQueued(j.session.ctx); err != nil {
			return
		}
	}
}

// lose breaks the journal of a process whose lease has expired.
func (j *journal) lose() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stored < j.queued {
		j.fail(j.lease(snapshot.ErrMaybeStored)) //nolint:errcheck // it returns what it keeps
	} else {
		j.fail(j.lease(snapshot.ErrLease)) //nolint:errcheck // it returns what it keeps
	}
}

// sendQueued sends the whole queue, message by message.
func (j *journal) sendQueued(ctx context.Context) error {
	for {
		m, taken := j.take(j.store.room())
		if taken == 0 {
			return nil
		}
		if err := j.sendOne(ctx, m, nil); err != nil {
			return err
		}
	}
}

// take takes records from the queue: as many as fit into one message, and at least one batch.
func (j *journal) take(room int) (m *message, taken int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	m = &message{kind: appended, generation: j.marker.generation, session: j.session.id, opening: j.marker.seq, last: j.stored}
	for taken < len(j.queue) && (taken == 0 || len(m.records)+len(j.queue[taken].records) <= room) {
		m.records = append(m.records, j.queue[taken].records...)
		m.last = j.queue[taken].last
		taken++
	}
	j.queue = j.queue[taken:]
	return m, taken
}

// sendOne appends one message to the run, and breaks the journal if that cannot
// be done.
func (j *journal) sendOne(ctx context.Context, m *message, info *snapshot.Info) error {
	if j.session.isOver() {
		j.lose()
		return j.broken()
	}
	seq, err := j.store.append(ctx, j.runID, m, info, j.at)
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case err == nil:
		j.at, j.stored = seq, m.last
		j.signal()
		return nil
	case errors.Is(err, errConflict):
		return j.fail(j.lease(snapshot.ErrFenced))
	case j.session.ctx.Err() != nil:
		return j.fail(fmt.Errorf("%w: %w", j.lease(snapshot.ErrMaybeStored), err))
	case context.Cause(ctx) != nil: // the context of Close has ended
		return err
	}
	return j.fail(fmt.Errorf("snapshot: run %s: %w", j.runID, err))
}

func (j *journal) broken() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

func (j *journal) Sync(ctx context.Context, seq uint64) error {
	for {
		j.mu.Lock()
		seq = min(seq, j.queued)
		err, stored, changed := j.err, j.stored, j.changed
		j.mu.Unlock()
		if err != nil || stored >= seq {
			return err
		}
		select {
		case <-changed:
		case <-j.ended: // nothing more is sent, unless Close has sent everything
			if j.endErr != nil {
				return j.endErr
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// flush returns when the server has everything that was appended.
func (j *journal) flush(ctx context.Context) error {
	j.mu.Lock()
	queued := j.queued
	j.mu.Unlock()
	return j.Sync(ctx, queued)
}

func (j *journal) Close(ctx context.Context, end snapshot.End) error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		<-j.ended
		return j.endErr
	}
	j.closed = true
	j.mu.Unlock()
	defer close(j.ended)
	defer func() {
		if j.endErr != nil {
			j.session.leave(j)
		}
		j.session.remove(j)
	}()
	close(j.stop)
	select {
	case <-j.done:
	case <-ctx.Done():
		j.endErr = fmt.Errorf("snapshot: close run %s: %w", j.runID, context.Cause(ctx))
		return j.endErr
	}
	j.endErr = j.finish(ctx, end)
	return j.endErr
}

// finish sends the rest, and the message that closes the run.
func (j *journal) finish(ctx context.Context, end snapshot.End) error {
	err := j.broken()
	if isLost(err) {
		return err
	}
	if err != nil {
		end = snapshot.End{Status: snapshot.StatusInterrupted, Stop: snapshot.Stop{Reason: record.InterruptStore}, Usage: end.Usage, Standing: end.Standing}
	}
	ctx, cancel := j.session.bound(ctx)
	defer cancel()
	if sendErr := j.sendLast(ctx, end); sendErr != nil {
		return cmpErr(err, sendErr)
	}
	return err
}

// cmpErr returns the first error that is not nil.
func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// closing is the room for the info in the message that closes a run.
const closing = 16 << 10

func (j *journal) sendLast(ctx context.Context, end snapshot.End) error {
	if err := j.sendUntil(ctx, j.store.room()-closing); err != nil {
		return err
	}
	m, _ := j.take(j.store.room())
	m.kind, m.session, m.opening, m.born = settled, "", 0, j.marker.born
	info := storekit.Closed(j.known, end)
	info.LastSeq = m.last
	if err := j.sendOne(ctx, m, &info); err != nil {
		return err
	}
	m.seq = j.at
	j.store.showNow(ctx, &head{message: *m, info: info}, j.indexed)
	return nil
}

// sendUntil sends records until the rest fits into one message.
func (j *journal) sendUntil(ctx context.Context, room int) error {
	for {
		j.mu.Lock()
		size := 0
		for i := range j.queue {
			size += len(j.queue[i].records)
		}
		j.mu.Unlock()
		if size <= room {
			return nil
		}
		m, _ := j.take(j.store.room())
		if err := j.sendOne(ctx, m, nil); err != nil {
			return err
		}
	}
}

func isLost(err error) bool {
	return errors.Is(err, snapshot.ErrFenced) || errors.Is(err, snapshot.ErrMaybeStored) || errors.Is(err, snapshot.ErrLease)
}
