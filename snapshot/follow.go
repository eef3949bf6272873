package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"time"

	"github.com/reprise-go/reprise/core"
)

// A Follower is a store whose runs can be read while others write them, also
// from other processes. FileStore is one.
type Follower interface {
	// Follow yields the records of a run whose numbers are above after: those
	// there are, and then each that is appended. It ends with an error: that of
	// ctx, ErrNotFound when the run is not there or was deleted, ErrCorrupt.
	Follow(ctx context.Context, runID string, after uint64) iter.Seq2[core.Record, error]

	// WatchRuns calls changed at once, and whenever List may return something
	// else than before, until ctx ends, and returns its error. It calls it too
	// often rather than too seldom, and one call at a time.
	WatchRuns(ctx context.Context, changed func()) error
}

// WatchRuns implements [Follower]. That a run was begun or deleted the
// operating system tells at once; whatever else may be different is asked for
// every two seconds, see WithInboxCheck.
func (s *FileStore) WatchRuns(ctx context.Context, changed func()) error {
	return s.whenever(ctx, s.path("runs"), func() error {
		changed()
		return nil
	})
}

// whenever calls f at once, when something changes in the directory, and now
// and then, until ctx ends or f fails.
func (s *FileStore) whenever(ctx context.Context, dir string, f func() error) error {
	told := s.notices.add(dir)
	defer func() { s.notices.drop(dir, told) }()
	ticker := time.NewTicker(s.lookEvery)
	defer ticker.Stop()
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
		select {
		case <-told:
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// Follow implements [Follower].
func (s *FileStore) Follow(ctx context.Context, runID string, after uint64) iter.Seq2[core.Record, error] {
	return func(yield func(core.Record, error) bool) {
		if err := CheckRunID(runID); err != nil {
			yield(core.Record{}, err)
			return
		}
		f := &following{store: s, runID: runID, last: after}
		defer f.close()
		err := s.mustBeThere(runID)
		if err == nil {
			err = s.whenever(ctx, s.run(runID), func() error { return f.advance(ctx, yield) })
		}
		if !errors.Is(err, errEnough) {
			yield(core.Record{}, err)
		}
	}
}

// following is a run that is read while it is written.
type following struct {
	store *FileStore
	runID string
	last  uint64 // the number of the newest record that was yielded

	created time.Time // when the run was; zero until it was loaded

	file   *os.File // the newest journal there was; nil before the first
	number uint64   // of the journal
	offset int64    // of pending
	rest   []byte   // what was read of it and is no whole frame yet
}

// errEnough is that whoever ranges over the records has stopped.
var errEnough = errors.New("snapshot: enough")

func (f *following) close() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}

// advance yields what is new.
func (f *following) advance(ctx context.Context, yield func(core.Record, error) bool) error {
	for {
		numbers, err := f.store.journals(f.runID)
		if err != nil {
			return fmt.Errorf("snapshot: follow run %s: %w", f.runID, err)
		}
		if len(numbers) == 0 {
			return f.load(ctx, yield) // it was never opened for writing, or it was deleted
		}
		newest := numbers[len(numbers)-1]
		// What there is of the journal before first: it gets no more once the
		// next is there.
		if f.file != nil {
			if err := f.drain(yield); err != nil {
				return err
			}
		}
		if f.number == newest && f.file != nil {
			return f.mustBeSame()
		}
		if err := f.open(ctx, newest, yield); errors.Is(err, fs.ErrNotExist) {
			continue // a compaction came between
		} else if err != nil {
			return err
		}
	}
}

// mustBeSame checks that the journal is still that of its name: the one of a
// run that was deleted can be read as long as it is open.
func (f *following) mustBeSame() error {
	open, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("snapshot: follow run %s: %w", f.runID, err)
	}
	named, err := os.Stat(f.store.run(f.runID, fmt.Sprintf(journalName, f.number)))
	if err == nil && !os.SameFile(open, named) {
		return noRun(f.runID)
	}
	return nil // also if it is gone: the next look finds what is there instead
}

// open goes over to another journal. What was written to those before it and
// not read is in the run as a whole.
func (f *following) open(ctx context.Context, number uint64, yield func(core.Record, error) bool) error {
	next := f.file != nil && number == f.number+1
	f.close()
	file, err := os.Open(f.store.run(f.runID, fmt.Sprintf(journalName, number)))
	if err != nil {
		return err
	}
	f.file, f.number, f.offset, f.rest = file, number, 0, nil
	if next {
		return nil
	}
	return f.load(ctx, yield)
}

// load yields what is new in the run as a whole.
func (f *following) load(ctx context.Context, yield func(core.Record, error) bool) error {
	found, err := f.store.Load(ctx, f.runID)
	if err != nil {
		return err
	}
	if !f.created.IsZero() && !found.Created.Equal(f.created) {
		return noRun(f.runID) // the one that is followed was deleted, and has a namesake
	}
	f.created = found.Created
	return f.yield(found.Records, yield)
}

// drain yields what was appended to the journal.
func (f *following) drain(yield func(core.Record, error) bool) error {
	size, err := f.file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("snapshot: follow run %s: %w", f.runID, err)
	}
	have := f.offset + int64(len(f.rest))
	data, err := io.ReadAll(io.NewSectionReader(f.file, have, max(0, size-have)))
	if err != nil {
		return fmt.Errorf("snapshot: follow run %s: %w", f.runID, err)
	}
	data = append(f.rest, data...)
	at := 0
	for {
		next, ok := frameAt(data, f.offset, at)
		if !ok {
			break
		}
		at += int(next.size())
		if next.kind != frameRecords {
			continue
		}
		next.file = fmt.Sprintf(journalName, f.number)
		records, err := next.records(nil, f.runID)
		if err != nil {
			return fmt.Errorf("snapshot: follow run %s: %w", f.runID, err)
		}
		if err := f.yield(records, yield); err != nil {
			return err
		}
	}
	if _, damaged := findFrame(data, f.offset, at+1); damaged {
		return &CorruptError{RunID: f.runID, File: fmt.Sprintf(journalName, f.number), Offset: f.offset + int64(at), LastSeq: f.last, Err: errNoFrame}
	}
	f.rest = append([]byte(nil), data[at:]...)
	f.offset += int64(at)
	return nil
}

func (f *following) yield(records []core.Record, yield func(core.Record, error) bool) error {
	for i := range records {
		if records[i].Seq <= f.last {
			continue
		}
		f.last = records[i].Seq
		if !yield(records[i], nil) {
			return errEnough
		}
	}
	return nil
}
