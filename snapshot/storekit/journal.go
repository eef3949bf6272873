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

// A Writer stores the records that are appended to a [Journal]. A Journal calls one method at a time.
type Writer interface {
	// Write stores records durably, all together, directly after the record b.Prev. Only Prev, Last
	// and Data are set in b. The error is snapshot.ErrFenced if another process has opened the run
	// meanwhile, and snapshot.ErrLease or snapshot.ErrMaybeStored if the process may no longer own
	// the run. Any error breaks the journal. The context ends when Close gives up.
	Write(ctx context.Context, b Batch) error

	// Finish stores the end of the run together with the remaining records. If there are none,
	// rest.Last is 0. If Finish fails because the records cannot be stored, it is called again
	// without them. Its errors are like those of Write.
	Finish(ctx context.Context, end snapshot.End, rest Batch) error

	// Closed is called once, at the end of Close, with the error that Close returns.
	Closed(err error)
}

// JournalOptions configures a [Journal].
type JournalOptions struct {
	// AtOnce makes Append store records before it returns. It is for a Writer that keeps records in
	// the memory of this process, so that the run cannot be lost.
	AtOnce bool

	// MaxBatchBytes is the maximum size of a batch's records in bytes. A batch with the records of a
	// single call to Append may be larger. Zero means no limit.
	MaxBatchBytes int
}

// A Journal implements [snapshot.Journal] on top of a [Writer]. Append queues records, which are
// stored one batch at a time. If a caller waits for records, they are stored at once, by that
// caller or by a goroutine; otherwise, they are stored a moment later. Close stores the records
// that are still queued together with the end of the run. [NewJournal] returns a Journal.
type Journal struct {
	writer   Writer
	options  JournalOptions
	restored *snapshot.Run
	notify   chan struct{}
	lost     chan struct{} // closed when the journal may no longer own the run; nil if that cannot happen
	wait     sync.WaitGroup
	ctx      context.Context // passed to Write
	giveUp   context.CancelFunc

	mu      sync.Mutex
	queue   []byte        // encoded records that are not stored yet
	cuts    []cut         // where the queue may be cut
	queued  uint64        // number of the last record that was appended
	stored  uint64        // number of the last record that is stored
	wanted  uint64        // number of the last record that a caller waits for
	storing bool          // a goroutine is storing the queue, or linger is set
	linger  *time.Timer   // stores the queue later, unless a caller waits for it earlier; nil if it is not set
	changed chan struct{} // closed when storing, stored or err changes; nil if no goroutine waits
	err     error         // the error that broke the journal
	closed  bool
	closing bool          // Close is storing the queue
	ended   chan struct{} // closed when Close has ended
	endErr  error         // the error that Close returned
}

// A cut is where the records of one call to Append end in the queue.
type cut struct {
	last uint64 // the number of the last record
	size int    // the size of the queue up to the cut
}

// NewJournal returns the journal for a run that has just been opened.
func NewJournal(restored *snapshot.Run, w Writer, o JournalOptions) *Journal {
	j := &Journal{
		writer: w, options: o, restored: restored, notify: make(chan struct{}, 1), ended: make(chan struct{}),
		queued: restored.LastSeq, stored: restored.LastSeq,
	}
	j.ctx, j.giveUp = context.WithCancel(context.Background())
	if !o.AtOnce {
		j.lost = make(chan struct{})
	}
	return j
}

// Lose breaks the journal. Call it when the process may have lost the run. The journal's error is
// snapshot.ErrMaybeStored if there are records that are not known to be stored, and otherwise
// snapshot.ErrLease. After Close, Lose does nothing.
func (j *Journal) Lose() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.hasEnded() {
		return
	}
	kind := snapshot.ErrLease
	if j.stored < j.queued {
		kind = snapshot.ErrMaybeStored
	}
	j.failLocked(fmt.Errorf("%w: run %s", kind, j.restored.RunID)) //nolint:errcheck // failLocked returns the error that it stores
}

// Fence breaks the journal with snapshot.ErrFenced. Call it when another process has opened the run.
// During and after Close, Fence does nothing.
func (j *Journal) Fence() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.failLocked(FencedError(j.restored.RunID)) //nolint:errcheck // failLocked returns the error that it stores
	}
}

// FencedError returns the error for a journal if another process has opened its run. The error
// matches [snapshot.ErrFenced].
func FencedError(runID string) error { return fmt.Errorf("%w: run %s", snapshot.ErrFenced, runID) }

// failLocked breaks the journal with err, unless the journal is already broken. It returns the error
// that broke the journal. The caller holds the lock.
func (j *Journal) failLocked(err error) error {
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

// isLost reports whether err means that the journal may no longer own the run.
func isLost(err error) bool {
	return errors.Is(err, snapshot.ErrFenced) || errors.Is(err, snapshot.ErrMaybeStored) || errors.Is(err, snapshot.ErrLease)
}

// signal wakes the goroutines that wait in await. The caller holds the lock.
func (j *Journal) signal() {
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

// Ring causes the channel of Notify to receive a value.
func (j *Journal) Ring() {
	select {
	case j.notify <- struct{}{}:
	default:
	}
}

// Restored implements snapshot.Journal.
func (j *Journal) Restored() *snapshot.Run { return j.restored }

// Notify implements snapshot.Journal.
func (j *Journal) Notify() <-chan struct{} { return j.notify }

// Lost implements snapshot.Journal.
func (j *Journal) Lost() <-chan struct{} { return j.lost }

// Append implements snapshot.Journal.
func (j *Journal) Append(records ...record.Record) error {
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
			return j.failLocked(fmt.Errorf("snapshot: run %s: got record %d, want record %d", j.restored.RunID, r.Seq, last))
		}
		var err error
		if queue, err = snapshot.AppendRecord(queue, r); err != nil {
			return j.failLocked(fmt.Errorf("snapshot: run %s: %w", j.restored.RunID, err))
		}
	}
	j.queue, j.queued, j.cuts = queue, last, append(j.cuts, cut{last, len(queue)})
	if j.storing {
		return nil
	}
	j.storing = true
	j.wait.Add(1)
	if !j.options.AtOnce {
		j.linger = time.AfterFunc(lingerTime, j.storeLater)
		return nil
	}
	j.wanted = j.queued
	j.storeWanted(noLimit)
	return j.err
}

// lingerTime is how long records stay in the queue if no caller waits for them. In this way, the
// beginning of a short call is stored together with its outcome.
const lingerTime = 5 * time.Millisecond

// storeLater stores the queue. The timer linger calls it.
func (j *Journal) storeLater() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.linger = nil
	j.wanted = max(j.wanted, j.queued)
	j.storeWanted(noLimit)
}

// noLimit means no limit on the number of batches or statements.
const noLimit = math.MaxInt

// storeWanted stores batches while the queue contains records that a caller waits for. After limit
// batches, another goroutine continues. If records remain that no caller waits for, storeWanted sets
// linger. It continues even if something else has broken the journal. The caller holds the lock,
// which storeWanted releases while a batch is stored.
func (j *Journal) storeWanted(limit int) {
	for n := 0; j.stored < min(j.wanted, j.queued) && !j.closing; n++ {
		if n == limit {
			go j.storeMore()
			return
		}
		j.yield()
		if !j.storeQueued() {
			break
		}
	}
	if j.stored < j.queued && !j.closing {
		j.linger = time.AfterFunc(lingerTime, j.storeLater)
		return
	}
	j.stopStoring()
}

func (j *Journal) storeMore() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.storeWanted(noLimit)
}

// yield first lets other goroutines append records, for example those whose records were just
// stored. The caller holds the lock, which yield releases meanwhile.
func (j *Journal) yield() {
	for before := uint64(0); !j.options.AtOnce && before < j.queued; {
		before = j.queued
		j.mu.Unlock()
		runtime.Gosched()
		j.mu.Lock()
	}
}

// stopStoring must be called when a goroutine stops storing the queue. The caller holds the lock.
func (j *Journal) stopStoring() {
	j.storing = false
	j.signal()
	j.wait.Done()
}

// claim stops linger. If it reports true, linger was set, no other goroutine is storing the queue,
// and the caller must store the queue. The caller holds the lock.
func (j *Journal) claim() bool {
	claimed := j.linger != nil && j.linger.Stop()
	if claimed {
		j.linger = nil
	}
	return claimed
}

// storeUpTo causes the records up to seq to be stored, for a caller that waits for them. If the
// caller's context cannot end, storeUpTo stores them itself, which saves two switches between
// goroutines; otherwise another goroutine stores them. The caller holds the lock, which storeUpTo
// releases while records are stored.
func (j *Journal) storeUpTo(ctx context.Context, seq uint64) {
	j.wanted = max(j.wanted, seq)
	switch {
	case j.stored >= seq, !j.claim():
	case ctx.Done() == nil:
		j.storeWanted(1)
	default:
		go j.storeMore()
	}
}

// storeQueued stores the next batch in the queue, and reports whether it succeeded. The caller holds
// the lock, which storeQueued releases while the batch is stored.
func (j *Journal) storeQueued() bool {
	n := len(j.cuts)
	for n > 1 && j.options.MaxBatchBytes > 0 && j.cuts[n-1].size > j.options.MaxBatchBytes {
		n--
	}
	b := j.batch(n)
	j.remove(n)
	j.mu.Unlock()
	err := j.writer.Write(j.ctx, b)
	j.mu.Lock()
	if err != nil {
		j.remove(len(j.cuts)) // later records cannot be stored without these
		j.queued = j.stored
		j.failLocked(err) //nolint:errcheck // failLocked returns the error that it stores
		return false
	}
	j.stored = b.Last
	j.signal()
	return true
}

// isTooMuch reports whether the queue is too large for one batch. The caller holds the lock.
func (j *Journal) isTooMuch() bool {
	return j.options.MaxBatchBytes > 0 && len(j.queue) > j.options.MaxBatchBytes && len(j.cuts) > 1
}

// batch returns the records of the first n cuts in the queue. If there are none, the batch's Last is
// 0. The caller holds the lock.
func (j *Journal) batch(n int) Batch {
	b := Batch{Prev: j.stored}
	if n > 0 {
		b.Last, b.Data = j.cuts[n-1].last, j.queue[:j.cuts[n-1].size:j.cuts[n-1].size]
	}
	return b
}

// remove removes the records of the first n cuts from the queue. The caller holds the lock.
func (j *Journal) remove(n int) {
	if n == len(j.cuts) {
		j.queue, j.cuts = nil, j.cuts[:0]
		return
	}
	size := j.cuts[n-1].size
	j.queue, j.cuts = j.queue[size:], j.cuts[n:]
	for i := range j.cuts {
		j.cuts[i].size -= size
	}
}

// Sync implements snapshot.Journal.
func (j *Journal) Sync(ctx context.Context, seq uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.storeUpTo(ctx, min(seq, j.queued))
	}
	for j.err == nil && j.stored < min(seq, j.queued) {
		if j.hasEnded() {
			return j.endErr
		}
		if err := j.await(ctx); err != nil {
			return err
		}
	}
	return j.err
}

// hasEnded reports whether Close has ended. The caller holds the lock.
func (j *Journal) hasEnded() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// await waits until the next signal, or until ctx ends. The caller holds the lock, which await
// releases while it waits.
func (j *Journal) await(ctx context.Context) error {
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

// Flush waits until the records that were appended so far are stored. If ctx ends first, it returns
// the cause of ctx. If the journal is broken, it returns nil.
func (j *Journal) Flush(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	upTo := j.queued
	j.storeUpTo(ctx, upTo)
	for j.storing && j.stored < upTo {
		if err := j.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close implements snapshot.Journal.
func (j *Journal) Close(ctx context.Context, end snapshot.End) error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		<-j.ended
		return j.endErr
	}
	j.closed, j.closing = true, true
	defer context.AfterFunc(ctx, j.giveUp)()
	if j.claim() {
		j.stopStoring()
	}
	var err error
	for j.storing && err == nil {
		err = j.await(ctx)
	}
	for err == nil && j.err == nil && j.isTooMuch() {
		j.storeQueued()
	}
	j.closing = err == nil
	broken, rest := j.err, j.batch(len(j.cuts))
	j.mu.Unlock()
	if err == nil {
		err = j.finish(ctx, end, broken, rest)
	}
	if err != nil && broken == nil {
		err = fmt.Errorf("snapshot: close run %s: %w", j.restored.RunID, err)
	}
	j.writer.Closed(err)
	j.wait.Wait()
	j.giveUp()
	j.mu.Lock()
	j.endErr = err
	close(j.ended)
	j.signal()
	j.mu.Unlock()
	return err
}

// finish closes the run with the given end and stores the remaining records. If the journal is
// broken, it closes the run as interrupted.
func (j *Journal) finish(ctx context.Context, end snapshot.End, broken error, rest Batch) error {
	if isLost(broken) {
		return broken
	}
	if broken != nil {
		end = interruptedEnd(end)
	}
	err := j.writer.Finish(ctx, end, rest)
	if err != nil && rest.Last > 0 && !isLost(err) && !errors.Is(err, snapshot.ErrUnavailable) && ctx.Err() == nil { // the records cannot be stored
		broken, rest.Last, rest.Data = j.fail(err), 0, nil
		err = j.writer.Finish(ctx, interruptedEnd(end), rest)
	}
	switch {
	case err == nil:
		j.noteClosed(rest.Last)
		return broken
	case isLost(err):
		return err
	}
	return errors.Join(broken, err)
}

// interruptedEnd returns the end for a run if not all of its records could be stored.
func interruptedEnd(end snapshot.End) snapshot.End {
	return snapshot.End{Status: snapshot.StatusInterrupted, Stop: snapshot.Stop{Reason: record.InterruptStore}, Usage: end.Usage, Summary: end.Summary}
}

// fail is like failLocked, for a caller that does not hold the lock.
func (j *Journal) fail(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failLocked(err)
}

// noteClosed updates j.stored after Close has stored the records up to seq.
func (j *Journal) noteClosed(seq uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stored = max(j.stored, seq)
	j.signal()
}
