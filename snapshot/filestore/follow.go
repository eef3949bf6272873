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

// Records implements [snapshot.Reader]. In the snapshot it reads only the blocks that hold the
// records. It reads the journals from their beginning, without keeping the records up to the
// cursor.
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

// end returns what the journals say about a run, with the number of its last record. The error is
// ErrNotFound if the run was not created at that time; the zero time matches any run.
func (d *runDir) end(ctx context.Context, created time.Time) (snapshot.Info, error) {
	in := d.stream(created, snapshot.Cursor{Seq: math.MaxUint64}, nil)
	defer in.close()
	err := in.advance(ctx)
	in.info.LastSeq = in.last
	return in.info, err
}

// skip moves the cursor to the last record that exists now, according to info and the files.
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

// A stream yields the records of one run after a cursor. Each call of advance yields what
// is new. It is for one goroutine.
//
// If the files change so that the reader cannot follow, the run is read again from its beginning,
// but no record is yielded twice. If the files are in a state that no writer leaves, Load finds out
// what is wrong.
type stream struct {
	dir     *runDir
	created time.Time // when the run was created; zero until that is known
	yield   func(record.Record, error) bool

	cursor      snapshot.Cursor // the last record that was yielded
	needsCursor bool            // the run must have the record of the cursor
	mayBeOlder  bool            // the record of the cursor may be of an older generation than the cursor

	reader     reader
	hasBegun   bool          // the records that existed at the beginning were read
	isVerified bool          // Load has found nothing wrong with a run whose meta file cannot be trusted
	info       snapshot.Info // what the files say
	carried    uint64        // the journal that is being read was created with the records up to this number
	last       uint64        // the number of the last record that was read
	stopped    error         // the error of yield, of the context, or about the cursor

	known, generation uint64 // this record and this generation must be in the files
}

func (d *runDir) stream(created time.Time, after snapshot.Cursor, yield func(record.Record, error) bool) *stream {
	return &stream{dir: d, created: created, cursor: after, yield: yield}
}

// close releases the files. The next advance reads from the beginning again.
func (s *stream) close() {
	s.reader.close()
	s.hasBegun = false
}

// attempts is how often a run whose files change is read before Load reads it as a whole.
const attempts = 3

// advance yields the records that are new.
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

// errUnclear means that the files of a run are in a state that no writer leaves, or are changing.
var errUnclear = errors.New("snapshot: the run has to be read as a whole")

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

// begin reads the meta file first: it tells what has to be in the other files.
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

// isOther reports whether a run that was created at that time is not the one that the stream reads.
func (s *stream) isOther(created time.Time) bool {
	return !s.created.IsZero() && !created.Equal(s.created)
}

// load reads the run as a whole.
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

// add takes the records of a piece.
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

// addRecords takes the new records of a frame.
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

// firstSeq returns the number of the first record to read. That is the record of the cursor itself,
// if it has to be checked.
func (s *stream) firstSeq() uint64 {
	if s.needsCursor && s.cursor.Seq > 0 || s.cursor.Seq == math.MaxUint64 {
		return s.cursor.Seq
	}
	return s.cursor.Seq + 1
}

// take yields a record, or checks the one at the cursor. Every record comes here, so no gap is missed.
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

// checkCursor returns ErrReset if the run has another record at the cursor. Records after a repair
// are of a generation above all earlier generations.
func (s *stream) checkCursor(rec *record.Record) error {
	isOlder := s.mayBeOlder && rec.Generation < s.cursor.Generation
	if s.cursor.Generation > 0 && rec.Generation != s.cursor.Generation && !isOlder {
		return errkind.New(snapshot.ErrReset, "snapshot: run %s: the cursor is at record %d of generation %d, and that record is of generation %d",
			s.dir.runID, s.cursor.Seq, s.cursor.Generation, rec.Generation)
	}
	return nil
}

// checkHasCursor returns ErrReset if the run has fewer records than the cursor.
func (s *stream) checkHasCursor() error {
	if s.needsCursor && s.last < s.cursor.Seq {
		s.stopped = errkind.New(snapshot.ErrReset, "snapshot: run %s: the cursor is at record %d, and the run has %d", s.dir.runID, s.cursor.Seq, s.last)
	}
	return s.stopped
}
