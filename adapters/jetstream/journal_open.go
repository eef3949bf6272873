package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nuid"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// Open implements [snapshot.Store]. A run counts as open elsewhere while the process that opened it
// renews its lease. Once the lease has expired, another process can open the run, and the old process
// can no longer write to it.
func (s *Store) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	if err := storekit.Check(ctx, runID); err != nil {
		return nil, err
	}
	for {
		own, err := s.session(ctx)
		if err != nil {
			return nil, fmt.Errorf("snapshot: open run %s: %w", runID, err)
		}
		h, err := s.head(ctx, runID)
		if err == nil || o.Create && errors.Is(err, snapshot.ErrNotFound) {
			j, err := s.tryOpen(ctx, own, h, runID, &o)
			if errors.Is(err, errConflict) {
				continue
			}
			if !errors.Is(err, snapshot.ErrLocked) || !o.Wait {
				return j, err
			}
			if waited := s.awaitClosed(ctx, h); waited != nil {
				return nil, fmt.Errorf("%w: %w", err, waited)
			}
			continue
		}
		return nil, err
	}
}

// tryOpen returns errConflict if the run has changed since it was read. It first stores a message
// that opens the run. After that, the run's previous owner can no longer append anything, and
// everything before the message can be read.
func (s *Store) tryOpen(ctx context.Context, own *session, h *head, runID string, o *snapshot.OpenOptions) (snapshot.Journal, error) {
	if h.info.Open {
		return nil, &snapshot.LockedError{RunID: runID, Owner: h.info.Owner}
	}
	if h.kind == "" { // the run does not exist and is created
		h.born = nuid.Next()
		h.info = storekit.NewInfo(runID, o)
	}
	found := *h
	restored, now, err := storekit.OpenedInfo(h.info, o)
	if err != nil {
		return nil, err
	}
	m := &message{kind: kindOpened, generation: now.Generation, last: h.last, session: own.id, born: h.born}
	seq, err := s.append(ctx, runID, m, &now, h.seq)
	if errors.Is(err, errConflict) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("snapshot: open run %s: %w", runID, err)
	}
	m.seq = seq
	j := &journal{store: s, session: own, runID: runID, marker: *m, known: now, indexed: unreadEntry, at: seq}
	run, err := s.restore(ctx, &found, restored)
	if err != nil { // restore the state that the run had before
		end := snapshot.End{Status: restored.Status, Stop: restored.Stop, Due: restored.Due, Usage: restored.Usage, Summary: restored.Summary}
		closeErr := j.Finish(ctx, end, storekit.Batch{Prev: m.last})
		if closeErr != nil {
			own.leave(j)
		}
		return nil, errors.Join(fmt.Errorf("snapshot: open run %s: %w", runID, err), closeErr)
	}
	j.indexed = s.showNow(ctx, &head{message: *m, info: now}, unreadEntry)
	return j.begin(run), nil
}

// restore reads the records of a run whose state was h before it was opened.
func (s *Store) restore(ctx context.Context, h *head, restored snapshot.Info) (*snapshot.Run, error) {
	run, err := snapshot.NewRun(restored, nil)
	if err != nil || h.seq == 0 || h.kind == "" {
		return run, err
	}
	if h.kind == kindSettled && h.generation == 0 && len(h.records) > 0 { // the run was created with all of its records in this message
		run, _, err = run.Extend(h.records)
	} else {
		run, err = s.readRun(ctx, run, h.seq)
	}
	if err == nil && run.LastSeq != h.last {
		err = fmt.Errorf("%w: run %s: it has %d records, want %d", snapshot.ErrCorrupt, restored.RunID, run.LastSeq, h.last)
	}
	return run, err
}

// readRun reads the messages on a run's subject, up to and including the given sequence, and
// appends their records to the run.
func (s *Store) readRun(ctx context.Context, run *snapshot.Run, to uint64) (*snapshot.Run, error) {
	var parts [][]byte
	for m, err := range s.messages(ctx, run.RunID, 1, to) {
		if err != nil {
			return run, err
		}
		if m.kind == kindDeleted { // earlier messages belong to another run
			parts = nil
			continue
		}
		part, err := s.recordsOf(ctx, m)
		if err != nil {
			return run, fmt.Errorf("snapshot: run %s: %w", run.RunID, err)
		}
		if len(part) > 0 {
			parts = append(parts, part)
		}
	}
	extended, _, err := run.Extend(parts...)
	if err != nil {
		return run, fmt.Errorf("snapshot: run %s: %w", run.RunID, err)
	}
	return extended, nil
}

// messages yields the messages on a run's subject between the sequences from and to, both included.
// The sequence to must be that of a message on the subject.
func (s *Store) messages(ctx context.Context, runID string, from, to uint64) iter.Seq2[*message, error] {
	return func(yield func(*message, error) bool) {
		for msg, err := range s.read(ctx, s.names.records(), s.names.run(runID), from, to) {
			var m *message
			if err == nil {
				m, err = decode(msg)
			}
			if err != nil {
				yield(nil, fmt.Errorf("snapshot: run %s: %w", runID, err))
				return
			}
			if !yield(m, nil) {
				return
			}
		}
	}
}

// recordsOf returns the encoded records of a message.
func (s *Store) recordsOf(ctx context.Context, m *message) ([]byte, error) {
	if m.artifact == "" {
		return m.records, nil
	}
	return s.Get(ctx, m.artifact)
}

// Load implements [snapshot.Reader]. The result contains the records that this process has appended
// and those that other processes have synced.
func (s *Store) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	if err := storekit.Check(ctx, runID); err != nil {
		return nil, err
	}
	if err := s.flushOwn(ctx, runID); err != nil {
		return nil, err
	}
	run, _, err := s.load(ctx, runID)
	return run, err
}

// flushOwn waits until the server has stored everything that this process has appended to a run.
func (s *Store) flushOwn(ctx context.Context, runID string) error {
	if j := s.ownJournal(runID); j != nil {
		return j.Flush(ctx)
	}
	return nil
}

// load reads a run's records and its state at that time.
func (s *Store) load(ctx context.Context, runID string) (*snapshot.Run, *head, error) {
	for {
		h, err := s.head(ctx, runID)
		if err != nil {
			return nil, nil, err
		}
		run, err := s.restore(ctx, h, h.info)
		if err == nil {
			return run, h, nil
		}
		if now, headErr := s.head(ctx, runID); headErr != nil || now.born == h.born {
			return nil, nil, errors.Join(err, headErr)
		} // the run was deleted and created again in the meantime
	}
}

// ownJournal returns the journal of a run that this process has open, or nil.
func (s *Store) ownJournal(runID string) *journal {
	s.mu.Lock()
	own := s.current
	s.mu.Unlock()
	if own == nil {
		return nil
	}
	return own.journal(runID)
}

// consumerIdle is how long the server keeps a consumer after its client has disconnected.
const consumerIdle = 30 * time.Second

// awaitClosed waits until a run that was open may have been closed.
func (s *Store) awaitClosed(ctx context.Context, h *head) error {
	stream, err := s.streamInfo(ctx)
	if err != nil {
		return err
	}
	own, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	changed := make(chan struct{})
	watching.Go(func() {
		defer close(changed)
		for msg, err := range s.consume(own, stream.Created, []string{s.names.run(h.info.RunID)}, h.seq+1) {
			if err != nil || kind(msg.Header.Get(headerKind)) != kindAppended {
				return
			}
		}
	})
	alive := time.NewTimer(s.timeLeft(h.session)) // its process may have been killed
	defer alive.Stop()
	select {
	case <-changed:
	case <-alive.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
