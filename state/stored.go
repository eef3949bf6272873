package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// storeKeeper keeps the records of a run in a store.
type storeKeeper struct {
	runID      string
	generation uint64 // the number of this opening of the run
	store      snapshot.Store
	journal    snapshot.Journal
	mu         *sync.Mutex // the run's lock, which guards the fields below

	tail   tail
	held   bool  // nothing is written to the journal until there is something new
	broken error // why records can no longer be stored; nil if they can
}

func (*storeKeeper) isStored() bool { return true }

func (k *storeKeeper) add(rec record.Record) {
	k.held = k.held && k.tail.n-k.tail.written < maxHeld
	k.tail.append(rec)
	if rec.WillRetry {
		k.tail.append(briefRetryingRecord(&rec))
	}
}

// briefRetryingRecord returns the retrying record that follows rec, a failed record with WillRetry.
// The returned record has a short form of rec's error.
func briefRetryingRecord(rec *record.Record) record.Record {
	next := rec.Retrying()
	next.Seq++
	if recorded, ok := next.Err.(*record.Error); ok { //nolint:errorlint // made by recordError
		next.Err = recorded.Brief()
	}
	return next
}

func (k *storeKeeper) len() int               { return k.tail.n }
func (k *storeKeeper) at(i int) record.Record { return k.tail.after(i)[0] }
func (k *storeKeeper) forget(published int)   { k.tail.forget(published) }
func (k *storeKeeper) holds() bool            { return k.held }
func (k *storeKeeper) release()               { k.held = false }

func (k *storeKeeper) isLost(seq uint64) bool { return k.broken != nil && seq > uint64(k.tail.written) }

func (k *storeKeeper) write() error {
	if k.broken != nil || k.held || k.tail.written == k.tail.n {
		return k.broken
	}
	if err := k.journal.Append(k.tail.after(k.tail.written)...); err != nil {
		k.broken = fmt.Errorf("%w: %w", ErrStore, err)
		return k.broken
	}
	k.tail.written = k.tail.n
	return nil
}

func (k *storeKeeper) sync(seq uint64) error {
	err := k.journal.Sync(context.Background(), seq)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %w", ErrStore, err)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken = err
	return err
}

// lose stops the keeper from storing anything further, because another process may own the run by
// now.
func (k *storeKeeper) lose(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broken == nil {
		k.broken = err
	}
}

func (k *storeKeeper) read() func(context.Context) ([]record.Record, error) {
	written := k.tail.written
	rest := slices.Clone(k.tail.after(written))
	return func(ctx context.Context) ([]record.Record, error) {
		found, err := load(ctx, k.store, k.runID)
		if err == nil && len(found.Records) < written {
			err = fmt.Errorf("only %d of %d records are left", len(found.Records), written)
		}
		if err != nil {
			return rest, fmt.Errorf("state: read run %s back from its store: %w", k.runID, err)
		}
		return append(found.Records[:written:written], rest...), nil
	}
}

func (k *storeKeeper) close(end snapshot.End) error {
	var untold error
	if end.Status == snapshot.StatusCancelled {
		untold = tellCancelled(context.Background(), k.store, &k.journal.Restored().Info)
	}
	err := k.journal.Close(context.Background(), end)
	k.settle(end, err == nil)
	return errors.Join(err, untold)
}

// postCancel makes the cancel of the run durable before the run's end is recorded.
func (k *storeKeeper) postCancel(e *record.InterruptedError) error {
	m := snapshot.Message{Record: record.Record{Time: now(), Kind: record.KindRun, Status: record.StatusCancelled, Err: e}}
	if err := k.store.Post(context.Background(), k.runID, m); err != nil && !errors.Is(err, snapshot.ErrPosted) {
		return err
	}
	return nil
}

// settle handles cancel and interrupt messages after the run was closed, because they may have
// arrived too late for the run's inbox. isStored reports whether the end of the run was stored.
// After an error, the messages remain, and the next opening handles the cancel. An interrupt that
// caused the end is only removed, because the run may have been resumed since it was closed.
func (k *storeKeeper) settle(end snapshot.End, isStored bool) {
	isInterrupted := isStored && end.Status == snapshot.StatusInterrupted && end.Stop.Reason == record.InterruptUser
	ctx := context.Background()
	waiting, err := k.store.Messages(ctx, k.runID)
	if err != nil {
		return
	}
	for i := range waiting {
		switch m := &waiting[i]; {
		case m.IsCancel() && isStored && end.Status == snapshot.StatusCancelled:
			_ = k.store.Remove(ctx, k.runID, m.ID())
		case m.IsCancel() && isStored && end.Stop.Reason == record.InterruptCancel: // the next opening continues the compensations
		case m.IsCancel():
			_ = settleCancel(ctx, k.store, k.runID)
		case m.Generation != k.generation || m.Record.Interrupt() == nil:
		case isInterrupted:
			_ = k.store.Remove(ctx, k.runID, m.ID())
		default:
			_ = settleInterrupt(ctx, k.store, k.runID, m)
		}
	}
}

// tail is the part of a stored run's history that is in memory: the records that are not yet
// written or not yet published. All others are in the store. So neither the memory used nor the
// time needed to append a record grows with the run.
type tail struct {
	records []record.Record // the run's last records
	n       int             // the number of all records of the run
	written int             // the number of written records
}

// maxIdle is the capacity that a tail keeps while it is empty.
const maxIdle = 256

// append adds rec, which must have the next Seq.
func (t *tail) append(rec record.Record) {
	t.n++
	t.records = append(t.records, rec)
}

// after returns the records with a Seq greater than seq, all of which must still be in memory.
func (t *tail) after(seq int) []record.Record { return t.records[len(t.records)-(t.n-seq):] }

// forget drops the records that are both written and published. published is the number of
// published records.
func (t *tail) forget(published int) {
	waiting := t.after(min(t.written, published))
	switch {
	case len(waiting) == 0 && cap(t.records) > maxIdle:
		t.records = nil
	case len(waiting) <= len(t.records)/2: // not earlier, so that on average each record is moved only once
		n := copy(t.records, waiting)
		clear(t.records[n:])
		t.records = t.records[:n]
	}
}
