package storekit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// A journal is a run that this Store has open. Append queues records, and a goroutine
// stores them, one batch at a time, until the queue is empty.
type journal struct {
	store    *Store
	runID    string
	uid      string
	opening  string
	restored *snapshot.Run
	notify   chan struct{}
	lost     chan struct{}   // closed when the journal may no longer own the run; nil in memory
	lease    <-chan struct{} // closed when the process may have lost the run; nil if that cannot happen
	version  uint64          // of the run, as it was last looked at
	wait     sync.WaitGroup

	mu      sync.Mutex
	queue   []byte // encoded, not stored yet
	queued  uint64 // the number of the last record that was appended
	stored  uint64 // of the last that is stored
	storing bool
	changed chan struct{} // closed when storing, stored or err changes; nil if nobody waits
	err     error         // what broke it
	closed  bool
	ended   chan struct{} // closed when Close has ended
	endErr  error         // of Close
}

// begin returns the journal of a run that was opened.
func (s *Store) begin(restored *snapshot.Run, h Head, lease <-chan struct{}) *journal {
	j := &journal{
		store: s, runID: h.Info.RunID, uid: h.UID, opening: h.Opening, lease: lease, version: h.Version, restored: restored,
		notify: make(chan struct{}, 1), ended: make(chan struct{}),
		queued: restored.LastSeq, stored: restored.LastSeq,
	}
	if s.options.Poll > 0 {
		j.lost = make(chan struct{})
	}
	s.attend(j)
	return j
}

// lose breaks the journal of a process that may have lost its runs.
func (j *journal) lose() {
	j.mu.Lock()
	defer j.mu.Unlock()
	kind := snapshot.ErrLease
	if j.stored < j.queued {
		kind = snapshot.ErrUnknown
	}
	j.fail(fmt.Errorf("%w: run %s", kind, j.runID)) //nolint:errcheck // it returns what it keeps
}

func (j *journal) fence() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.fail(j.fenced()) //nolint:errcheck // it returns what it keeps
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
	return errors.Is(err, snapshot.ErrFenced) || errors.Is(err, snapshot.ErrUnknown) || errors.Is(err, snapshot.ErrLease)
}

// signal wakes those who wait. The lock is held.
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
	if j.store.options.Poll == 0 {
		j.storeAll()
		return j.err
	}
	j.wait.Go(func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.storeAll()
	})
	return nil
}

// storeAll stores until the queue is empty, even if something else has broken the journal.
// The lock is held, and released meanwhile.
func (j *journal) storeAll() {
	for j.stored < j.queued && j.storeQueued() {
	}
	j.storing = false
	j.signal()
}

// storeQueued stores the queue as one batch, and reports whether it succeeded. The lock is
// held, and released meanwhile.
func (j *journal) storeQueued() bool {
	b := Batch{RunID: j.runID, UID: j.uid, Opening: j.opening, Prev: j.stored, Last: j.queued, Data: j.queue}
	j.queue = nil
	j.mu.Unlock()
	err := j.append(b)
	if err == nil {
		j.store.wake(j.runID)
	}
	j.mu.Lock()
	if err != nil {
		j.fail(err) //nolint:errcheck // it returns what it keeps
		return false
	}
	j.stored = b.Last
	j.signal()
	return true
}

// append appends a batch. It belongs to no caller, so it has no context of one.
func (j *journal) append(b Batch) error {
	ctx := context.Background()
	appended, err := Again(ctx, func() (bool, error) { return j.store.backend.Append(ctx, b) })
	if err == nil && !appended { // an earlier try, whose answer was lost, may have appended it
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
	for {
		switch {
		case j.err != nil:
			return j.err
		case j.stored >= min(seq, j.queued):
			return nil
		}
		if err := j.await(ctx); err != nil {
			return err
		}
	}
}

// await waits for the next signal, or for ctx. The lock is held, and released meanwhile.
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

// flush returns when the appended records are stored, as far as possible, or with the cause
// of the end of ctx. The lock is held, and released meanwhile.
func (j *journal) flush(ctx context.Context) error {
	for upTo := j.queued; j.storing && j.stored < upTo; {
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
	j.closed = true
	err := j.flush(ctx)
	broken := j.err
	j.mu.Unlock()
	if err == nil {
		err = j.close(ctx, end, broken)
	}
	if err != nil && broken == nil {
		err = fmt.Errorf("snapshot: close run %s: %w", j.runID, err)
	}
	j.store.attendNoMore(j)
	j.wait.Wait()
	j.endErr = err
	close(j.ended)
	return err
}

// close closes the run as end says, or as interrupted if the journal is broken.
func (j *journal) close(ctx context.Context, end snapshot.End, broken error) error {
	if isLost(broken) {
		return broken
	}
	if broken != nil {
		end = snapshot.End{Status: snapshot.StatusInterrupted, Stop: snapshot.Stop{Reason: record.InterruptStore}, Usage: end.Usage, Standing: end.Standing}
	}
	for {
		before, err := j.store.find(ctx, j.runID)
		switch {
		case err != nil && !errors.Is(err, snapshot.ErrNotFound):
			return errors.Join(broken, err)
		case err != nil, before.UID != j.uid, before.Opening != j.opening:
			return j.fenced()
		}
		after := before
		after.Info, after.Opening = Closed(before.Info, end), ""
		swapped, err := j.store.swap(ctx, before, after, Batch{})
		if err != nil {
			return errors.Join(broken, err)
		} else if swapped {
			return broken
		}
	}
}
