package filestore

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"math"
	"time"

	"github.com/reprise-go/reprise/internal/errkind"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// Records implements [snapshot.Reader]. From the snapshot, it reads only the blocks that contain the
// requested records. It reads the journals from their beginning, without keeping earlier records in
// memory.
func (s *Store) Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		d, err := s.checkedDir(ctx, runID)
		if err == nil {
			in := d.stream(time.Time{}, snapshot.Cursor{Seq: after}, yield)
			defer in.close()
			err = in.advance(ctx)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(record.Record{}, err)
		}
	}
}

// Follow implements [snapshot.Reader].
func (s *Store) Follow(ctx context.Context, runID string, after snapshot.Cursor) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		if err := s.follow(ctx, runID, after, yield); !errors.Is(err, errStopped) {
			yield(record.Record{}, err)
		}
	}
}

func (s *Store) follow(ctx context.Context, runID string, after snapshot.Cursor, yield func(record.Record, error) bool) error {
	d, err := s.checkedDir(ctx, runID)
	if err != nil {
		return err
	}
	if errors.Is(checkDir(d.path()), fs.ErrNotExist) {
		return storekit.NotFoundError(runID)
	}
	w := s.watcher()
	defer w.close()
	w.add(d.path()) // before reading, so that no change is missed in between
	in := d.stream(time.Time{}, after, yield)
	in.needsCursor = true
	defer in.close()
	for {
		if err := in.advance(ctx); err != nil {
			return err
		}
		if err := w.wait(ctx); err != nil {
			return err
		}
	}
}

// end returns a run's info from the journals, with LastSeq set to the number of the last record. If
// created is not zero and the run was created at another time, the error is ErrNotFound.
func (d *runDir) end(ctx context.Context, created time.Time) (snapshot.Info, error) {
	in := d.stream(created, snapshot.Cursor{Seq: math.MaxUint64}, nil)
	defer in.close()
	err := in.advance(ctx)
	in.info.LastSeq = in.last
	return in.info, err
}

// skip moves the cursor to the last record that exists now. If the run is open, skip determines
// that record from the files; otherwise, it uses info.
func (s *stream) skip(ctx context.Context, info *snapshot.Info) {
	generation := info.Generation
	if s.cursor.Seq = math.MaxUint64; info.Open && s.advance(ctx) == nil {
		generation = max(generation, s.info.Generation)
	} else {
		s.close()
		s.last = info.LastSeq
	}
	s.cursor, s.needsCursor, s.mayBeOlder = snapshot.Cursor{Generation: generation, Seq: s.last}, true, true
}

// A stream yields the records of a run that follow a cursor. Each call to advance yields the new
// records. A stream is not safe for concurrent use.
//
// If the files change in a way that the reader cannot follow, the stream reads the run again from
// its beginning, but does not yield any record twice. If the files are in a state that no writer
// leaves behind, the stream calls Load, which reports what is wrong.
type stream struct {
	dir     *runDir
	created time.Time // when the run was created; zero until that is known
	yield   func(record.Record, error) bool

	cursor      snapshot.Cursor // the last record yielded
	needsCursor bool            // the run must contain the record at the cursor
	mayBeOlder  bool            // the record at the cursor may have a lower generation than the cursor

	reader     reader
	hasBegun   bool          // the records that existed at the beginning have been read
	isVerified bool          // Load has succeeded, although the meta file cannot be trusted
	info       snapshot.Info // the info from the files read so far
	carried    uint64        // the journal being read was created with the records up to this number
	last       uint64        // number of the last record read
	stopped    error         // why the stream stopped: errStopped, the context's cause, or an error about the cursor

	known, generation uint64 // the files must contain the records and generations up to these numbers
}

func (d *runDir) stream(created time.Time, after snapshot.Cursor, yield func(record.Record, error) bool) *stream {
	return &stream{dir: d, created: created, cursor: after, yield: yield}
}

// close releases the files. The next advance reads from the beginning again.
func (s *stream) close() {
	s.reader.close()
	s.hasBegun = false
}

// attempts is how many times advance tries to read the files before it loads the run as a whole.
const attempts = 3

// advance yields the new records.
func (s *stream) advance(ctx context.Context) error {
	s.stopped = nil
	for range attempts {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		err := s.read(ctx)
		if err == nil {
			return nil
		}
		s.close()
		if s.stopped != nil {
			return s.stopped
		}
	}
	return s.load(ctx)
}

// errUnclear means that the files of a run are changing, or are in a state that no writer leaves
// behind.
var errUnclear = errors.New("snapshot: the run must be read as a whole")

func (s *stream) read(ctx context.Context) error {
	isFirst := !s.hasBegun
	if isFirst {
		if err := s.begin(); err != nil {
			return err
		}
	}
	l, err := s.dir.listing()
	if err != nil {
		return err
	}
	if err := s.reader.read(ctx, l, s.add); err != nil {
		if ctx.Err() != nil {
			s.stopped = context.Cause(ctx)
		}
		return err
	}
	if s.last < s.known || s.info.Generation < s.generation || s.info.RunID == "" {
		return errUnclear
	}
	s.hasBegun = true
	if isFirst {
		return s.checkHasCursor()
	}
	return nil
}

// begin prepares to read the run from its beginning. It reads the meta file, which states which
// records must be in the other files.
func (s *stream) begin() error {
	m, err := s.dir.readMeta()
	switch {
	case err != nil:
		return err
	case m.isWhole && s.isOther(m.info.Created):
		s.stopped = storekit.NotFoundError(s.dir.runID)
		return s.stopped
	case m.isWhole:
		s.created, s.known, s.generation = m.info.Created, m.info.LastSeq, m.info.Generation
	case !s.isVerified:
		return errUnclear
	}
	s.reader = reader{dir: s.dir, created: s.created}
	s.info, s.last, s.carried = snapshot.Info{}, 0, 0
	return nil
}

// isOther reports whether a run that was created at the given time is a different run from the one
// that the stream reads.
func (s *stream) isOther(created time.Time) bool {
	return !s.created.IsZero() && !created.Equal(s.created)
}

// load reads the whole run and yields the new records.
func (s *stream) load(ctx context.Context) error {
	run, err := s.dir.store.Load(ctx, s.dir.runID)
	switch {
	case err != nil:
		return err
	case s.isOther(run.Created):
		return storekit.NotFoundError(s.dir.runID)
	}
	s.created, s.info, s.last, s.isVerified = run.Created, run.Info, run.LastSeq, true
	for rec, err := range run.RecordsAfter(s.firstSeq() - 1) {
		if err == nil {
			err = s.take(rec)
		}
		if err != nil {
			return err
		}
	}
	return s.checkHasCursor()
}

// add yields the new records in a piece of a file.
func (s *stream) add(p *piece) error {
	switch p.kind {
	case pieceSnapshot:
		return s.addSnapshot(p)
	case pieceHeader:
		s.carried = p.header.carried
		s.info = laterInfo(s.info, p.header.info)
		return nil
	case pieceFrame:
		return s.addFrame(p.frame)
	}
	if p.err != nil || p.ending == endDamaged || s.last < s.carried {
		return errUnclear
	}
	return nil
}

func (s *stream) addSnapshot(p *piece) error {
	d, err := openDocument(p.snapshot, p.size)
	if err != nil {
		return err
	}
	if d.info.RunID != s.dir.runID || s.isOther(d.info.Created) {
		return errUnclear
	}
	s.info, s.last = d.info, d.info.LastSeq
	for rec, err := range d.recordsAfter(s.firstSeq() - 1) {
		if err == nil {
			err = s.take(rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) addFrame(f *frame) error {
	switch f.kind {
	case frameRecords:
		return s.addRecords(f.body)
	case frameInfo:
		info, err := snapshot.DecodeInfo(f.body)
		if err != nil {
			return errUnclear
		}
		s.info = info
		return nil
	}
	return errUnclear
}

// addRecords yields the new records in a frame.
func (s *stream) addRecords(body []byte) error {
	for len(body) > 0 {
		encoded, seq, rest, err := snapshot.CutRecord(body)
		if err != nil || seq > s.last+1 {
			return errUnclear
		}
		if body = rest; seq <= s.last {
			continue
		}
		if s.last = seq; seq < s.firstSeq() {
			continue
		}
		rec, err := snapshot.DecodeRecord(encoded)
		if err != nil {
			return errUnclear
		}
		rec.RunID = s.dir.runID
		if err := s.take(rec); err != nil {
			return err
		}
	}
	return nil
}

// firstSeq returns the number of the first record to decode. This is the record at the cursor if
// that record must be checked, or else the one after it.
func (s *stream) firstSeq() uint64 {
	if s.needsCursor && s.cursor.Seq > 0 || s.cursor.Seq == math.MaxUint64 {
		return s.cursor.Seq
	}
	return s.cursor.Seq + 1
}

// take yields a record or, if it is the one at the cursor, checks it. Because all decoded records
// pass through take, it detects every gap.
func (s *stream) take(rec record.Record) error {
	c := &s.cursor
	switch {
	case rec.Seq == c.Seq:
		s.stopped = s.checkCursor(&rec)
	case rec.Seq != c.Seq+1:
		return errUnclear
	default:
		*c, s.needsCursor, s.mayBeOlder = snapshot.Cursor{Generation: rec.Generation, Seq: rec.Seq}, true, false
		if !s.yield(rec, nil) {
			s.stopped = errStopped
		}
	}
	return s.stopped
}

// checkCursor returns ErrReset if rec, the record at the cursor, is not the record that the caller
// saw there. Records appended after a repair have a higher generation than all records before it.
func (s *stream) checkCursor(rec *record.Record) error {
	isOlder := s.mayBeOlder && rec.Generation < s.cursor.Generation
	if s.cursor.Generation > 0 && rec.Generation != s.cursor.Generation && !isOlder {
		return errkind.New(snapshot.ErrReset, "snapshot: run %s: the cursor is at record %d of generation %d, but that record has generation %d",
			s.dir.runID, s.cursor.Seq, s.cursor.Generation, rec.Generation)
	}
	return nil
}

// checkHasCursor returns ErrReset if the cursor is beyond the last record of the run.
func (s *stream) checkHasCursor() error {
	if s.needsCursor && s.last < s.cursor.Seq {
		s.stopped = errkind.New(snapshot.ErrReset, "snapshot: run %s: the cursor is at record %d, but the run has %d records", s.dir.runID, s.cursor.Seq, s.last)
	}
	return s.stopped
}
