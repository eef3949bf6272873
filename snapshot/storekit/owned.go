package storekit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// An openRun is a run that a Store has open. It is a Journal that writes to the Backend.
type openRun struct {
	*Journal
	store   *Store
	runID   string
	uid     string
	opening string
	lease   <-chan struct{} // closed when the process may have lost the run; nil if that cannot happen

	mu   sync.Mutex
	head Head // the head of the run when it was last read
}

// begin returns the journal for a run that has just been opened.
func (s *Store) begin(restored *snapshot.Run, h Head, lease <-chan struct{}) *openRun {
	o := &openRun{store: s, runID: h.Info.RunID, uid: h.UID, opening: h.Opening, lease: lease, head: h}
	o.Journal = NewJournal(restored, o, JournalOptions{AtOnce: s.options.Poll == 0})
	s.watchOpen(o)
	return o
}

// Append implements [snapshot.Journal]. If the process was suspended for longer than its lease,
// Append detects, before the process begins another call, that the run may be lost.
func (o *openRun) Append(records ...record.Record) error {
	o.store.lease() // checks the clock; see [Lease.Lost]
	if hasExpired(o.lease) {
		o.Lose()
	}
	return o.Journal.Append(records...)
}

// look examines the run's stored head. If anything other than the records has changed since the
// previous head, look notifies the journal.
func (o *openRun) look(h *Head) {
	o.mu.Lock()
	hasChanged := h.Version > o.head.Version
	if hasChanged {
		o.head = *h
	}
	o.mu.Unlock()
	if hasChanged {
		o.Ring()
	}
}

// Write implements [Writer].
func (o *openRun) Write(ctx context.Context, b Batch) error {
	b.RunID, b.UID, b.Opening = o.runID, o.uid, o.opening
	appended, err := Retry(ctx, func() (bool, error) { return o.store.backend.Append(ctx, b) })
	if err == nil && !appended { // an earlier try whose answer was lost may have appended the batch
		var h Head
		h, err = o.store.find(ctx, o.runID)
		appended = err == nil && h.UID == b.UID && h.Opening == b.Opening && h.Info.LastSeq == b.Last
	}
	switch {
	case appended:
		o.store.wake(o.runID)
		return nil
	case err == nil, errors.Is(err, snapshot.ErrNotFound):
		return FencedError(o.runID)
	}
	return fmt.Errorf("snapshot: run %s: append record %d: %w", o.runID, b.Prev+1, err)
}

// Finish implements [Writer].
func (o *openRun) Finish(ctx context.Context, end snapshot.End, rest Batch) error {
	rest.RunID, rest.UID, rest.Opening = o.runID, o.uid, o.opening
	o.mu.Lock()
	before := o.head
	o.mu.Unlock()
	before.Info.LastSeq = rest.Prev
	for {
		after := before
		after.Info, after.Opening = ClosedInfo(before.Info, end), ""
		if rest.Last > 0 {
			after.Info.LastSeq = rest.Last
		}
		swapped, err := o.store.swap(ctx, before, &after, rest)
		if swapped || err != nil {
			return err
		}
		before, err = o.store.find(ctx, o.runID)
		switch {
		case err != nil && !errors.Is(err, snapshot.ErrNotFound):
			return err
		case err != nil, before.UID != o.uid, before.Opening != o.opening, rest.Last > 0 && before.Info.LastSeq != rest.Prev:
			return FencedError(o.runID)
		}
	}
}

// Closed implements [Writer].
func (o *openRun) Closed(error) { o.store.unwatchOpen(o) }
