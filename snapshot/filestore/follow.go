package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"time"

	"github.com/reprise-go/reprise/internal/errkind"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Follow implements [snapshot.Reader].
func (s *Store) Follow(ctx context.Context, runID string, after snapshot.Cursor) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		if err := s.follow(ctx, runID, after, yield); !errors.Is(err, errStopped) {
			yield(record.Record{}, err)
		}
	}
}

func (s *Store) follow(ctx context.Context, runID string, after snapshot.Cursor, yield func(record.Record, error) bool) error {
	if err := s.check(ctx, runID); err != nil {
		return err
	}
	w := s.watcher()
	defer w.close()
	created, err := s.mustHave(ctx, runID, after)
	if err != nil {
		return err
	}
	w.add(s.run(runID))
	f := &following{store: s, runID: runID, created: created, last: after.Seq, generation: after.Generation}
	defer f.close()
	for {
		if err := f.advance(ctx, yield); err != nil {
			return err
		}
		if err := w.wait(ctx); err != nil {
			return err
		}
	}
}

// mustHave is ErrReset if the cursor is not in the history of the run. It returns
// when the run was created.
func (s *Store) mustHave(ctx context.Context, runID string, c snapshot.Cursor) (created time.Time, err error) {
	generation := c.Generation
	t, err := s.tail(ctx, runID, time.Time{}, max(c.Seq, 1)-1, func(rec record.Record) error {
		if rec.Seq == c.Seq {
			generation = rec.Generation
		}
		return errStopped
	})
	switch {
	case err != nil && !errors.Is(err, errStopped):
		return time.Time{}, err
	case err == nil && t.last < c.Seq:
		return time.Time{}, errkind.New(snapshot.ErrReset, "snapshot: run %s: the cursor is at record %d, and the run has %d", runID, c.Seq, t.last)
	case c.Seq > 0 && c.Generation > 0 && generation != c.Generation:
		return time.Time{}, errkind.New(snapshot.ErrReset, "snapshot: run %s: the cursor is at record %d of generation %d, and that record is of generation %d", runID, c.Seq, c.Generation, generation)
	}
	return t.created, nil
}

// following reads a run while it is written, by this process or another.
//
// It reads one journal after the other. A journal is created before its predecessor is
// sealed, and receives its first record afterwards. So once journal n+1 has a record,
// journal n is complete, and can be read to its end even if it was removed meanwhile, for
// it is still open here. If a journal is gone that was never open here, the whole run is
// read. In both cases each record that is yielded has the number after the one before.
type following struct {
	store *Store
	runID string
	last  uint64 // the number of the newest record that was yielded

	generation uint64    // it is of this one, or of an older one; 0 if that is not known
	created    time.Time // when the run was; zero until that is known

	file     openFile    // the journal that is read; nil if there is none
	number   uint64      // of the journal
	offset   int64       // up to where it was read
	snapshot fs.FileInfo // of a run without a journal, its snapshot when it was loaded
}

// skip passes over the records that are there, as info says.
func (f *following) skip(ctx context.Context, info *snapshot.Info) {
	f.last, f.generation = info.LastSeq, info.Generation
	if !info.Open {
		return
	}
	if t, err := f.store.tail(ctx, f.runID, f.created, math.MaxUint64, nil); err == nil {
		f.last, f.generation = t.last, max(f.generation, t.info.Generation)
	}
}

func (f *following) close() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}

// advance yields what is new.
func (f *following) advance(ctx context.Context, yield func(record.Record, error) bool) error {
	if f.file == nil {
		if f.isIdle() {
			return nil
		}
		if err := f.load(ctx, yield); err != nil {
			return err
		}
		if f.file == nil {
			return nil
		}
	}
	for {
		if err := f.drain(yield); err != nil {
			return err
		}
		next, err := f.next()
		if err != nil {
			return err
		}
		switch {
		case next == nil: // there is none, or it has no record yet
			return f.mustBeSame(ctx, yield)
		case f.number+1 == next.number:
			if err := f.drain(yield); err != nil { // the rest: it gets no more
				return err
			}
			f.close()
			f.file, f.number, f.offset = next.file, next.number, 0
		default:
			if next.file != nil {
				_ = next.file.Close()
			}
			f.close()
			if err := f.load(ctx, yield); err != nil {
				return err
			}
			if f.file == nil { // it was compacted meanwhile
				return nil
			}
		}
	}
}

// isIdle reports whether the run has no journal, and the snapshot that was
// read.
func (f *following) isIdle() bool {
	if f.snapshot == nil {
		return false
	}
	l, err := f.store.dir(f.runID).listing()
	if err != nil || len(l.journals) > 0 || len(l.snapshots) == 0 {
		return false
	}
	info, err := os.Lstat(f.store.run(f.runID, snapshotName(l.newest())))
	// Not only the file: another may have its number, once that is free.
	return err == nil && os.SameFile(info, f.snapshot) && info.ModTime().Equal(f.snapshot.ModTime())
}

// load yields what is new in the run as a whole, and begins to read the journal
// that is written to from the beginning: what was yielded is passed over.
func (f *following) load(ctx context.Context, yield func(record.Record, error) bool) error {
	l, err := f.store.dir(f.runID).listing()
	if err != nil {
		return fmt.Errorf("snapshot: follow run %s: %w", f.runID, err)
	}
	f.snapshot = nil
	if n := len(l.journals); n == 0 && len(l.snapshots) > 0 {
		f.snapshot, _ = os.Lstat(f.store.run(f.runID, snapshotName(l.newest())))
	} else if n > 0 {
		if err := f.open(l.journals); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("snapshot: follow run %s: %w", f.runID, err)
		}
	}
	t, err := f.store.tail(ctx, f.runID, f.created, max(f.last, 1)-1, func(rec record.Record) error {
		switch {
		case rec.Seq != f.last:
			return f.yield(rec, yield)
		case f.generation != 0 && rec.Generation > f.generation: // those after a repair are above all before
			return f.isGone()
		}
		return nil
	})
	if err != nil {
		return err // ErrNotFound if the one that is followed was deleted, and has a namesake
	}
	f.created = t.created
	if t.last < f.last {
		return f.isGone()
	}
	if f.file != nil && f.number == t.journal {
		f.offset = t.end
	}
	return nil
}

// isGone is the error for a history that the newest record is not in any more: a
// repair has cut it off.
func (f *following) isGone() error {
	return errkind.New(snapshot.ErrReset, "snapshot: run %s: record %d is not there any more", f.runID, f.last)
}

// open opens the journal that is written to. That is the newest, but not if it
// has no record yet: then the one before it may still get some.
func (f *following) open(journals []uint64) error {
	n := len(journals) - 1
	file, hasRecord, err := f.openJournal(journals[n])
	if err != nil {
		return err
	}
	if !hasRecord && n > 0 && journals[n-1] == journals[n]-1 {
		_ = file.Close()
		n--
		if file, _, err = f.openJournal(journals[n]); err != nil {
			return err
		}
	}
	f.file, f.number, f.offset = file, journals[n], 0
	return nil
}

// openJournal opens a journal, and reports whether it was appended to since it
// has its name. That of a namesake does not exist for those who follow this run.
func (f *following) openJournal(n uint64) (file openFile, hasRecord bool, err error) {
	file, size, err := openSized(f.store.disk, f.store.run(f.runID, journalName(n)))
	if err != nil {
		return nil, false, err
	}
	frames := 0
	for next, err := range framesFrom(file, 0, size) {
		if frames++; err == nil && frames == 1 && f.isOther(next) {
			err = fs.ErrNotExist
		}
		if err != nil {
			_ = file.Close()
			return nil, false, err
		}
		if frames == 2 {
			break
		}
	}
	return file, frames == 2, nil
}

// isOther reports whether a journal that begins with this frame is that of another run.
func (f *following) isOther(first *frame) bool {
	h, err := first.header()
	return err == nil && !f.created.IsZero() && !h.info.Created.Equal(f.created)
}

// nextJournal is an open journal.
type nextJournal struct {
	file   openFile
	number uint64
}

// next opens the journal after this one, if it has a record.
func (f *following) next() (*nextJournal, error) {
	l, err := f.store.dir(f.runID).listing()
	if err != nil {
		return nil, fmt.Errorf("snapshot: follow run %s: %w", f.runID, err)
	}
	for _, n := range l.journals {
		if n <= f.number {
			continue
		}
		file, hasRecord, err := f.openJournal(n)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &nextJournal{nil, n + 1}, nil // it was compacted: the run is read as a whole
		case err != nil:
			return nil, fmt.Errorf("snapshot: follow run %s: %w", f.runID, err)
		case !hasRecord:
			_ = file.Close()
			return nil, nil
		}
		return &nextJournal{file, n}, nil
	}
	return nil, nil
}

// mustBeSame checks that the journal is still that of its name: the one of a
// run that was deleted can be read as long as it is open.
func (f *following) mustBeSame(ctx context.Context, yield func(record.Record, error) bool) error {
	open, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("snapshot: follow run %s: %w", f.runID, err)
	}
	named, err := os.Lstat(f.store.run(f.runID, journalName(f.number)))
	if err == nil && os.SameFile(open, named) {
		return nil
	}
	f.close() // compacted, or deleted
	return f.load(ctx, yield)
}

// drain yields what was appended to the journal. What is no frame was not
// written yet, or not wholly.
func (f *following) drain(yield func(record.Record, error) bool) error {
	if f.file == nil {
		return nil
	}
	for {
		info, err := f.file.Stat()
		if err != nil {
			return fmt.Errorf("snapshot: follow run %s: %w", f.runID, err)
		}
		for next, err := range framesFrom(f.file, f.offset, info.Size()) {
			if err != nil {
				return fmt.Errorf("snapshot: follow run %s: %w", f.runID, err)
			}
			if next.kind == frameRecords {
				if err := f.records(next, yield); err != nil {
					return err
				}
			}
			f.offset += next.size
		}
		if more, err := f.lookBehind(info.Size()); err != nil || !more {
			return err
		}
	}
}

// lookBehind is for a place where the next frame belongs and none was. That is an error
// if a frame behind it says that the place was synced, unless the frame was written
// meanwhile: then it reports true.
func (f *following) lookBehind(size int64) (more bool, err error) {
	upTo, all := readable(f.file, size)
	p := part{name: journalName(f.number), end: f.offset, size: size, limit: upTo}
	if err := p.lookBehind(f.file); err != nil {
		return false, fmt.Errorf("snapshot: follow run %s: %w", f.runID, err)
	}
	if all && !p.damage {
		return false, nil
	}
	for _, err := range framesFrom(f.file, f.offset, size) {
		if err != nil {
			return false, fmt.Errorf("snapshot: follow run %s: %w", f.runID, err)
		}
		return true, nil
	}
	return false, advise(&snapshot.CorruptError{RunID: f.runID, File: p.name, Offset: p.end, LastSeq: f.last, Err: errNoFrame})
}

// records yields the records of a frame that are new.
func (f *following) records(next *frame, yield func(record.Record, error) bool) error {
	in := codec.NewReader(next.body)
	defer in.Release()
	for in.Len() > 0 {
		rec, err := snapshot.DecodeRecord(in.Skip())
		if err = errors.Join(in.Err(), err); err != nil {
			return fmt.Errorf("snapshot: follow run %s: %s, byte %d: %w", f.runID, journalName(f.number), next.offset, err)
		}
		if rec.Seq <= f.last {
			continue
		}
		rec.RunID = f.runID
		if err := f.yield(rec, yield); err != nil {
			return err
		}
	}
	return nil
}

// yield is the only place that yields: nothing is left out.
func (f *following) yield(rec record.Record, yield func(record.Record, error) bool) error {
	if rec.Seq != f.last+1 {
		return &snapshot.CorruptError{
			RunID: f.runID, File: journalName(f.number), Offset: f.offset, LastSeq: f.last,
			Err: fmt.Errorf("record %d follows record %d", rec.Seq, f.last),
		}
	}
	f.last, f.generation = rec.Seq, rec.Generation
	if !yield(rec, nil) {
		return errStopped
	}
	return nil
}
