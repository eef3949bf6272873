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
// snapshot, and then the journals that no other file covers. A snapshot covers the
// journals up to its number, and a journal's header specifies which earlier journals the
// journal covers. A reader may read while this or another process writes to the run. Each
// call to read continues where the previous one ended. A reader is not safe for concurrent
// use.
//
// All code that reads a run uses a reader. A reading collects everything for Load and Open, and a
// stream yields the records after a cursor for Records, Follow and Watch.
//
// Journal n+1 is created before journal n is sealed, but receives frames after its header only when
// journal n has been sealed. So if journal n+1 has such a frame, or journal n+2 exists, journal n is
// complete. The reader then reads the rest of journal n and continues with journal n+1. Until then
// it keeps journal n open, in case the file is removed meanwhile. A reader therefore reads the
// records in the order in which they were appended, without gaps.
type reader struct {
	dir     *runDir
	keep    bool      // the bodies of frames stay valid, and the caller checks whether the files have changed
	created time.Time // when the run was created; a file of another run causes errChanged. Zero matches any run

	hasBegun bool
	snapshot os.FileInfo    // the snapshot that was read; nil if there was none
	number   uint64         // the snapshot's number
	journal  *journalReader // the journal that was read last; nil if there is none
	left     []uint64       // the numbers of the journals after that one
}

// errChanged means that the files of a run have changed in a way that the reader cannot follow,
// such as a compaction. The run must then be read from its beginning.
var errChanged = errors.New("snapshot: the run's files have changed")

// A piece is a part of a run's files that a reader yields. It is valid until the next piece is
// yielded.
type piece struct {
	kind   pieceKind
	file   string
	number uint64 // number of the file

	snapshot openFile // for pieceSnapshot
	header   *header  // for pieceHeader
	frame    *frame   // for pieceFrame

	// The fields below are for pieceEnd; size is also for pieceSnapshot.
	end    int64  // where the frames of the journal end
	size   int64  // size of the file
	ending ending // what follows the frames
	err    error  // why the journal has no valid header; nil if it has one
}

type pieceKind byte

const (
	pieceSnapshot pieceKind = iota
	pieceHeader             // the header of a journal
	pieceFrame              // a frame after the header of a journal
	pieceEnd                // the end of a journal, or of the part of it that exists now
)

func (r *reader) close() {
	if r.journal != nil {
		r.journal.close()
	}
	*r = reader{dir: r.dir, keep: r.keep, created: r.created}
}

// read yields the pieces that were added to the files in l since the last call. It yields damage as
// the end of a journal. The error comes from yield or from reading a file, or is errChanged. After
// an error, the next call starts from the beginning.
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
	if len(l.journals) > 1 { // if there is only one journal, it covers no other
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

// checkComplete checks that a run still has the snapshot that was read, and no journals. If a
// directory changes while it is listed, the listing may contain neither the new file nor the old
// file that the new one replaces. If the newest file is missing, checkComplete detects this; if
// there is a gap between the numbers of the journals, begin does.
func (r *reader) checkComplete() error {
	l, err := r.dir.listing()
	if err != nil {
		return err
	}
	return r.checkSnapshot(l)
}

// above returns those of the sorted numbers that are above n.
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

// next yields the rest of the current journal and the journal after it. It reports whether there is
// nothing more to yield.
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
	default: // the current journal may not be complete, so the next call to read continues with it
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

// follow yields what was appended to the current journal, and determines the journals after it.
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
	// While the journal's file is open, it can be read even if the journal was compacted or its run
	// was deleted. So check that the file still has its name.
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
	// If the old file was removed, a new file may have the same inode number. So the times are
	// compared, too.
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
	damage    error // why the journal has no valid header; nil if it has one
	hasFrames bool  // the journal has frames after its header
	hasBegun  bool  // the header was yielded
}

// open opens a journal and reads its header, which must belong to the run.
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

// yield yields the journal's new frames. The first call also yields its header.
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

// yieldEnd yields the end of a journal. A complete journal was synced as a whole, so a torn end is
// damage.
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

// listing lists the files of a run. If the run does not exist, it lists none.
func (d *runDir) listing() (listing, error) {
	entries, err := d.disk.ReadDir(d.path())
	if errors.Is(err, os.ErrNotExist) {
		return listing{}, nil
	} else if err != nil {
		return listing{}, err
	}
	return listingOf(entries), nil
}
