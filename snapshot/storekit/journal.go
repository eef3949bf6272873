package storekit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// A journal is a run that this Store has open. Append queues records. They are stored one batch at
// a time: by a caller that waits for them, by a goroutine, or a moment later if no caller waits.
// Close stores what is still queued together with the end of the run.
type journal struct {
	store    *Store
	runID    string
	uid      string
	opening  string
	restored *snapshot.Run
	notify   chan struct{}
	lost     chan struct{}   // closed when the journal may no longer own the run; nil in memory
	lease    <-chan struct{} // closed when the process may have lost the run; nil if that cannot happen
	wait     sync.WaitGroup

	mu      sync.Mutex
	head    Head          // the head of the run when it was last read
	queue   []byte        // encoded records that are not stored yet
	queued  uint64        // the number of the last record that was appended
	stored  uint64        // the number of the last record that is stored
	wanted  uint64        // number of the last record that a caller waits for
	storing bool          // the queue is being stored, or linger will store it
	linger  *time.Timer   // stores the queue later, unless a caller waits for it earlier; nil if it is not set
	changed chan struct{} // closed when storing, stored or err changes; nil if no goroutine waits
	err     error         // the error that broke the journal
	closed  bool
	closing bool          // Close stores the queue
	ended   chan struct{} // closed when Close has ended
	endErr  error         // the error of Close
}

// begin returns the journal of a run that has just been opened.
func (s *Store) begin(restored *snapshot.Run, h Head, lease <-chan struct{}) *journal {
	j := &journal{
		store: s, runID: h.Info.RunID, uid: h.UID, opening: h.Opening, lease: lease, head: h, restored: restored,
		notify: make(chan struct{}, 1), ended: make(chan struct{}),
		queued: restored.LastSeq, stored: restored.LastSeq,
	}
	if s.options.Poll > 0 {
		j.lost = make(chan struct{})
	}
	s.attend(j)
	return j
}

// lose breaks the journal because the process may have lost its runs.
func (j *journal) lose() {
	j.mu.Lock()
	defer j.mu.Unlock()
	kind := snapshot.ErrLease
	if j.stored < j.queued {
		kind = snapshot.ErrMaybeStored
	}
	j.fail(fmt.Errorf("%w: run %s", kind, j.runID)) //nolint:errcheck // it returns the error that it stores
}

func (j *journal) fence() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.fail(j.fenced()) //nolint:errcheck // it returns the error that it stores
	}
}

func (j *journal) fenced() error { return fmt.Errorf("%w: run %s", snapshot.ErrFenced, j.runID) }

// fail breaks the journal. The lock is held.
func (j *journal) fail(err error) error {
	if j.err != nil {
		return j.err
	}
	j.err = err
	j.signal()
	if isLost(err) && j.lost != nil {
		close(j.lost)
	}
	return err
}

// isLost reports whether err says that the journal may no longer own the run.
func isLost(err error) bool {
	return errors.Is(err, snapshot.ErrFenced) || errors.Is(err, snapshot.ErrMaybeStored) || errors.Is(err, snapshot.ErrLease)
}

// signal wakes the waiters. The lock is held.
func (j *journal) signal() {
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

func (j *journal) ring() {
	select {
	case j.notify <- struct{}{}:
	default:
	}
}

func (j *journal) Restored() *snapshot.Run { return j.restored }

func (j *journal) Notify() <-chan struct{} { return j.notify }

func (j *journal) Lost() <-chan struct{} { return j.lost }

func (j *journal) Append(records ...record.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.err != nil:
		return j.err
	case j.closed:
		return snapshot.ErrClosed
	case len(records) == 0:
		return nil
	}
	queue, last := j.queue, j.queued
	for i := range records {
		r := &records[i]
		if last++; r.Seq != last {
			return j.fail(fmt.Errorf("snapshot: run %s: got record %d, want record %d", j.runID, r.Seq, last))
		}
		var err error
		if queue, err = snapshot.AppendRecord(queue, r); err != nil {
			return j.fail(fmt.Errorf("snapshot: run %s: %w", j.runID, err))
		}
	}
	j.queue, j.queued = queue, last
	if j.storing {
		return nil
	}
	j.storing = true
	j.wait.Add(1)
	if j.store.options.Poll > 0 {
		j.linger = time.AfterFunc(lingers, j.storeLater)
		return nil
	}
	j.wanted = j.queued
	j.storeWanted(everything)
	return j.err
}

// lingers is how long records that no caller waits for are held back, so that the beginning of a
// short call is stored together with its outcome.
const lingers = 5 * time.Millisecond

// storeLater stores the records that no caller has waited for.
func (j *journal) storeLater() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.linger = nil
	j.wanted = max(j.wanted, j.queued)
	j.storeWanted(everything)
}

// everything means no limit on the number of batches or statements.
const everything = math.MaxInt

// storeWanted stores batches while the queue contains records that a caller waits for. After that
// many batches it lets another goroutine continue. Records that no caller waits for are left to
// linger. It continues even if something else has broken the journal. The lock is held, but is
// released while a batch is stored.
func (j *journal) storeWanted(most int) {
	for n := 0; j.stored < min(j.wanted, j.queued) && !j.closing; n++ {
		if n == most {
			go j.storeMore()
			return
		}
		j.yield()
		if !j.storeQueued() {
			break
		}
	}
	if j.stored < j.queued && !j.closing {
		j.linger = time.AfterFunc(lingers, j.storeLater)
		return
	}
	j.stopStoring()
}

func (j *journal) storeMore() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.storeWanted(everything)
}

// yield lets other goroutines append: those whose outcomes were just stored, and those that run at
// the same time. The lock is held, but is released for them.
func (j *journal) yield() {
	for before := uint64(0); j.store.options.Poll > 0 && before < j.queued; {
		before = j.queued
		j.mu.Unlock()
		runtime.Gosched()
		j.mu.Lock()
	}
}

// stopStoring notes that no goroutine stores the queue. The lock is held.
func (j *journal) stopStoring() {
	j.storing = false
	j.signal()
	j.wait.Done()
}

// claim reports whether the caller has to store the queue now, because no other goroutine does. The
// lock is held.
func (j *journal) claim() bool {
	claimed := j.linger != nil && j.linger.Stop()
	if claimed {
		j.linger = nil
	}
	return claimed
}

// want stores the records up to seq, for which the caller waits, or lets another goroutine store
// them. A caller whose context never ends stores them itself, which saves two switches between
// goroutines. The lock is held, but is released while records are stored.
func (j *journal) want(ctx context.Context, seq uint64) {
	j.wanted = max(j.wanted, seq)
	switch {
	case j.stored >= seq, !j.claim():
	case ctx.Done() == nil:
		j.storeWanted(1)
	default:
		go j.storeMore()
	}
}

// storeQueued stores the queue as one batch, and reports whether it succeeded. The lock is
// held, but is released while the batch is stored.
func (j *journal) storeQueued() bool {
	b := j.batch()
	j.queue = nil
	j.mu.Unlock()
	err := j.append(b)
	if err == nil {
		j.store.wake(j.runID)
	}
	j.mu.Lock()
	if err != nil {
		j.queue, j.queued = nil, j.stored // later records cannot be stored without these
		j.fail(err)                       //nolint:errcheck // it returns the error that it stores
		return false
	}
	j.stored = b.Last
	j.signal()
	return true
}

// batch returns the queued records; if there are none, its Last is 0. The lock is held.
func (j *journal) batch() Batch {
	b := Batch{RunID: j.runID, UID: j.uid, Opening: j.opening, Prev: j.stored}
	if j.queued > j.stored {
		b.Last, b.Data = j.queued, j.queue
	}
	return b
}

// append stores a batch. It does that for all callers of Sync at once, so it does not use the
// context of any of them.
func (j *journal) append(b Batch) error {
	ctx := context.Background()
	appended, err := Again(ctx, func() (bool, error) { return j.store.backend.Append(ctx, b) })
	if err == nil && !appended { // an earlier attempt, whose answer was lost, may have appended it
		var h Head
		h, err = j.store.find(ctx, j.runID)
		appended = err == nil && h.UID == b.UID && h.Opening == b.Opening && h.Info.LastSeq == b.Last
	}
	switch {
	case appended:
		return nil
	case err == nil, errors.Is(err, snapshot.ErrNotFound):
		return j.fenced()
	}
	return fmt.Errorf("snapshot: run %s: append record %d: %w", j.runID, b.Prev+1, err)
}

func (j *journal) Sync(ctx context.Context, seq uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.want(ctx, min(seq, j.queued))
	}
	for j.err == nil && j.stored < min(seq, j.queued) {
		if err := j.await(ctx); err != nil {
			return err
		}
	}
	return j.err
}

// await waits for the next signal, or for ctx. The lock is held, but is released during the wait.
func (j *journal) await(ctx context.Context) error {
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	changed := j.changed
	j.mu.Unlock()
	defer j.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// flush returns when the appended records are stored, or with the cause of the end of ctx. If the
// journal is broken, it returns without an error. The lock is held, but is
// released during the wait.
func (j *journal) flush(ctx context.Context) error {
	upTo := j.queued
	j.want(ctx, upTo)
	for j.storing && j.stored < upTo {
		if err := j.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) Close(ctx context.Context, end snapshot.End) error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		<-j.ended
		return j.endErr
	}
	j.closed, j.closing = true, true
	if j.claim() {
		j.stopStoring()
	}
	var err error
	for j.storing && err == nil {
		err = j.await(ctx)
	}
	j.closing = err == nil
	broken, rest := j.err, j.batch()
	j.mu.Unlock()
	if err == nil {
		err = j.close(ctx, end, broken, rest)
	}
	if err != nil && broken == nil {
		err = fmt.Errorf("snapshot: close run %s: %w", j.runID, err)
	}
	j.store.stopAttending(j)
	j.wait.Wait()
	j.endErr = err
	close(j.ended)
	return err
}

// close closes the run with the given end and stores the rest of its records, or closes it as
// interrupted if the journal is broken.
func (j *journal) close(ctx context.Context, end snapshot.End, broken error, rest Batch) error {
	if isLost(broken) {
		return broken
	}
	j.mu.Lock()
	before := j.head
	j.mu.Unlock()
	before.Info.LastSeq = rest.Prev
	for {
		if broken != nil {
			end = snapshot.End{Status: snapshot.StatusInterrupted, Stop: snapshot.Stop{Reason: record.InterruptStore}, Usage: end.Usage, Standing: end.Standing}
		}
		after := before
		after.Info, after.Opening = Closed(before.Info, end), ""
		if rest.Last > 0 {
			after.Info.LastSeq = rest.Last
		}
		swapped, err := j.store.swap(ctx, before, &after, rest)
		switch {
		case swapped:
			j.closedAt(rest.Last)
			return broken
		case err != nil && (rest.Last == 0 || errors.Is(err, snapshot.ErrUnavailable) || ctx.Err() != nil):
			return errors.Join(broken, err)
		case err != nil: // the records cannot be stored
			broken, rest = j.breakBy(err), Batch{}
		}
		before, err = j.store.find(ctx, j.runID)
		switch {
		case err != nil && !errors.Is(err, snapshot.ErrNotFound):
			return errors.Join(broken, err)
		case err != nil, before.UID != j.uid, before.Opening != j.opening, rest.Last > 0 && before.Info.LastSeq != rest.Prev:
			return j.fenced()
		}
	}
}

// breakBy breaks the journal with err, unless it is broken already, and returns the error that
// broke it.
func (j *journal) breakBy(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.fail(err)
}

// closedAt notes that Close has stored the records up to seq.
func (j *journal) closedAt(seq uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stored = max(j.stored, seq)
	j.signal()
}
