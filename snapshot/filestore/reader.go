package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// A reader reads the files of a run in the order in which they were written: the newest
// snapshot, and the journals that no other file covers. A snapshot covers the journals up
// to its number, and the header of a journal says which earlier journals it covers. A
// reader may read while this process or another writes the run. Each call of read
// continues where the previous one ended. A reader is for one goroutine.
//
// All code that reads a run uses a reader: a reading collects everything for Load and Open, and a
// stream yields the records after a cursor for Records, Follow and Watch.
//
// Journal n+1 is created before journal n is sealed, and gets frames after its header only once
// journal n is sealed. So when journal n+1 has such a frame, or journal n+2 exists, journal n is
// complete. The reader then reads the rest of journal n and continues with journal n+1. It keeps
// journal n open until then, in case the file is removed meanwhile. So a reader finds records in
// the order in which they were appended, without gaps.
type reader struct {
	dir     *runDir
	keep    bool      // the bodies of frames stay valid, and the caller checks whether the files have changed
	created time.Time // when the run was created; a file of another run is errChanged. The zero time matches any run

	hasBegun bool
	snapshot os.FileInfo    // the snapshot that was read; nil if there was none
	number   uint64         // the number in the name of the snapshot
	journal  *journalReader // the journal that was read last; nil if there is none
	left     []uint64       // the journals after the current one
}

// errChanged means that the files of a run have changed in a way that the reader cannot follow,
// such as a compaction. The run then has to be read from its beginning.
var errChanged = errors.New("snapshot: the files of the run have changed")

// A piece is what a reader finds next. It is valid until the next one is found.
type piece struct {
	kind   pieceKind
	file   string
	number uint64 // of the file

	snapshot openFile
	header   *header // of a journal
	frame    *frame  // after the header of a journal

	end    int64  // of the frames of a journal
	size   int64  // size of a snapshot, or of a journal at its end
	ending ending // of a journal
	err    error  // why a journal has no valid header
}

type pieceKind byte

const (
	pieceSnapshot pieceKind = iota
	pieceHeader
	pieceFrame
	pieceEnd // of a journal, or of the part of it that exists now
)

func (r *reader) close() {
	if r.journal != nil {
		r.journal.close()
	}
	*r = reader{dir: r.dir, keep: r.keep, created: r.created}
}

// read yields what is new in the files of l since the last call. Damage is yielded as the end of a
// journal. The error is that of yield, that of a file, or errChanged. After an error, the next call
// starts from the beginning.
func (r *reader) read(ctx context.Context, l listing, yield func(*piece) error) (err error) {
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	switch {
	case !r.hasBegun:
		err = r.begin(l, yield)
	case r.journal == nil:
		return r.checkSnapshot(l)
	default:
		err = r.follow(ctx, l, yield)
	}
	for done := false; err == nil && len(r.left) > 0; {
		if done, err = r.next(ctx, yield); done {
			return err
		}
	}
	switch {
	case err != nil:
		return err
	case r.journal != nil:
		return r.journal.yieldEnd(false, yield)
	case r.keep:
		return nil
	}
	return r.checkComplete()
}

// begin yields the snapshot, and determines the journals to read.
func (r *reader) begin(l listing, yield func(*piece) error) error {
	covers := uint64(0)
	if n := len(l.snapshots); n > 0 {
		covers = l.snapshots[n-1]
		if err := r.readSnapshot(covers, yield); err != nil {
			return err
		}
	}
	if len(l.journals) > 1 { // a single journal covers no other
		for _, n := range l.journals {
			j, err := r.open(n)
			if err != nil {
				return err
			}
			if j.head.covers < n { // a damaged header is reported when the journal is read
				covers = max(covers, j.head.covers)
			}
			j.close()
		}
	}
	r.left = above(l.journals, covers)
	if n := uint64(len(r.left)); n > 0 && !r.keep && r.left[n-1] != covers+n {
		return errChanged // see checkComplete
	}
	r.hasBegun = true
	return nil
}

// checkComplete checks that a run still has the snapshot that was read, and no journals. While a
// directory changes, a listing of it may contain neither the new file nor the old one that is then
// removed. If one of them was a journal, the numbers have a gap.
func (r *reader) checkComplete() error {
	l, err := r.dir.listing()
	if err != nil {
		return err
	}
	return r.checkSnapshot(l)
}

// above returns the sorted numbers that are above n.
func above(numbers []uint64, n uint64) []uint64 {
	i, _ := slices.BinarySearch(numbers, n+1)
	return numbers[i:]
}

func (r *reader) readSnapshot(number uint64, yield func(*piece) error) error {
	name := snapshotName(number)
	f, _, err := r.dir.disk.Open(r.dir.path(name))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if r.snapshot, err = f.Stat(); err != nil {
		return err
	}
	r.number = number
	return yield(&piece{kind: pieceSnapshot, file: name, number: number, snapshot: f, size: r.snapshot.Size()})
}

// next yields the journal after the current one, and reports whether there is nothing more to yield.
func (r *reader) next(ctx context.Context, yield func(*piece) error) (done bool, err error) {
	next, err := r.open(r.left[0])
	if err != nil {
		return false, err
	}
	switch {
	case r.journal == nil:
	case len(r.left) > 1 || next.hasFrames:
		if err = r.journal.yield(ctx, yield); err == nil {
			err = r.journal.yieldEnd(true, yield)
		}
	default: // the current one may not be complete; another call of next finds out
		defer next.close()
		r.left = nil
		if err = r.journal.yieldEnd(false, yield); err == nil {
			err = next.yield(ctx, yield)
		}
		if err == nil {
			err = next.yieldEnd(false, yield)
		}
		return true, err
	}
	if err != nil {
		next.close()
		return false, err
	}
	if r.journal != nil {
		r.journal.close()
	}
	r.journal, r.left = next, r.left[1:]
	return false, next.yield(ctx, yield)
}

// follow yields what was appended to the current journal, and finds the journals after it.
func (r *reader) follow(ctx context.Context, l listing, yield func(*piece) error) error {
	j := r.journal
	if err := j.yield(ctx, yield); err != nil {
		return err
	}
	r.left = above(l.journals, j.number)
	if len(r.left) > 0 {
		if r.left[0] != j.number+1 {
			return errChanged // a journal in between was compacted
		}
		return nil
	}
	// A journal that was compacted, or whose run was deleted, can still be read while it is open.
	// So check that the file still has its name.
	open, err := j.file.Stat()
	if err != nil {
		return err
	}
	named, err := os.Lstat(r.dir.path(j.name))
	if err != nil || !os.SameFile(open, named) {
		return errChanged
	}
	return nil
}

// checkSnapshot checks that a run without journals has the snapshot that was read.
func (r *reader) checkSnapshot(l listing) error {
	n := len(l.snapshots)
	if r.snapshot == nil || len(l.journals) > 0 || n == 0 || l.snapshots[n-1] != r.number {
		return errChanged
	}
	named, err := os.Lstat(r.dir.path(snapshotName(r.number)))
	// A new file may get the same inode number once that is free.
	if err != nil || !os.SameFile(named, r.snapshot) || !named.ModTime().Equal(r.snapshot.ModTime()) {
		return errChanged
	}
	return nil
}

// A journalReader reads one journal.
type journalReader struct {
	*frameReader
	file      openFile
	number    uint64
	head      header
	damage    error // why it has no valid header; nil if it has one
	hasFrames bool  // it has frames after its header
	hasBegun  bool  // the header was yielded
}

// open opens a journal and reads its header, which must be that of the run.
func (r *reader) open(number uint64) (*journalReader, error) {
	name := journalName(number)
	f, size, err := r.dir.disk.Open(r.dir.path(name))
	if err != nil {
		return nil, err
	}
	j := &journalReader{frameReader: newFrameReader(name, f, size), file: f, number: number}
	j.keep = r.keep
	err = j.readHeader(r.dir.runID)
	if err == nil && j.damage == nil && !r.created.IsZero() && !j.head.info.Created.Equal(r.created) {
		err = errChanged
	}
	if err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

// readHeader reads the header, and checks whether a frame follows it.
func (j *journalReader) readHeader(runID string) (err error) {
	var isDamaged bool
	var stranger *strangerError
	j.head, isDamaged, err = j.header(runID)
	switch {
	case err == nil:
	case !isDamaged, errors.As(err, &stranger):
		return err
	case errors.Is(err, snapshot.ErrFormat):
		return fmt.Errorf("snapshot: run %s: %s: %w", runID, j.name, err)
	default:
		j.damage = err
		return nil
	}
	end := j.end
	f, err := j.frameReader.next()
	j.hasFrames, j.end = f != nil, end
	return err
}

func (j *journalReader) close() { _ = j.file.Close() }

// yield yields the new frames of a journal. The first call yields its header, too.
func (j *journalReader) yield(ctx context.Context, yield func(*piece) error) error {
	if j.damage != nil {
		return nil
	}
	if j.hasBegun {
		info, err := j.file.Stat()
		if err != nil {
			return err
		}
		j.resize(info.Size())
	} else if err := yield(&piece{kind: pieceHeader, file: j.name, number: j.number, header: &j.head}); err != nil {
		return err
	}
	j.hasBegun = true
	p := piece{kind: pieceFrame, file: j.name, number: j.number}
	for f, err := range j.frames() {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		p.frame = f
		if err := yield(&p); err != nil {
			return err
		}
	}
	return nil
}

// yieldEnd yields the end of a journal. If the journal is complete, all of it was synced.
func (j *journalReader) yieldEnd(isComplete bool, yield func(*piece) error) error {
	e, err := j.ending()
	if err != nil {
		return err
	}
	if e == endTorn && isComplete {
		e = endDamaged
	}
	return yield(&piece{kind: pieceEnd, file: j.name, number: j.number, end: j.end, size: j.size, ending: e, err: j.damage})
}

// listing lists the files of a run; none if it does not exist.
func (d *runDir) listing() (listing, error) {
	entries, err := d.disk.ReadDir(d.path())
	if errors.Is(err, os.ErrNotExist) {
		return listing{}, nil
	} else if err != nil {
		return listing{}, err
	}
	return listingOf(entries), nil
}
