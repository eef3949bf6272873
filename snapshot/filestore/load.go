package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// TornTail is the end of a journal that was being written when its process or
// the power ended. It was cut off. No Sync had returned for what was in it.
type TornTail struct {
	File   string // in the directory of the run
	Offset int64  // where it began
	Size   int64
}

// Error says what was cut off.
func (e *TornTail) Error() string {
	return fmt.Sprintf("snapshot: %d unfinished bytes at the end of %s, from byte %d, were cut off", e.Size, e.File, e.Offset)
}

// strangerError is a file of another run. It is ErrCorrupt, and nothing that a
// repair could help with.
type strangerError struct{ runID, file, of string }

func (e *strangerError) Error() string {
	return fmt.Sprintf("snapshot: run %s: %s is of run %s: put it where that run is, or delete this one", e.runID, e.file, e.of)
}

func (e *strangerError) Unwrap() error { return snapshot.ErrCorrupt }

// Load implements [snapshot.Reader]. A run that ended in a crash is interrupted. The result
// does not contain the unfinished end of a journal.
func (s *Store) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	run, _, err := s.load(ctx, runID)
	return run, err
}

// Verify is like [Store.Load], and also returns the end of a journal that a crash left
// unfinished and that the next Open will cut off; nil if there is none. If the run is open,
// that may be a record that is being written.
func (s *Store) Verify(ctx context.Context, runID string) (*snapshot.Run, *TornTail, error) {
	return s.load(ctx, runID)
}

func (s *Store) load(ctx context.Context, runID string) (*snapshot.Run, *TornTail, error) {
	if err := s.check(ctx, runID); err != nil {
		return nil, nil, err
	}
	r, err := s.dir(runID).read(ctx)
	switch {
	case err != nil:
		return nil, nil, err
	case r.damage != nil:
		return nil, nil, advise(r.damage)
	case !r.found:
		return nil, nil, noRun(runID)
	}
	r.run.Open = r.held
	if !r.held && r.run.Status == snapshot.StatusRunning { // nor was it open before its files were read
		r.run.Info = storekit.Crashed(r.run.Info)
	}
	return r.run, r.torn, nil
}

// advise adds to the error of a damaged run what to do about it.
func advise(err error) error {
	var damage *snapshot.CorruptError
	if errors.As(err, &damage) {
		return fmt.Errorf("%w; the records before it are whole, and (*filestore.Store).Repair keeps them", err)
	}
	return err
}

// A reading is what the files of a run hold, all of them together.
type reading struct {
	found    bool                   // a run at all
	run      *snapshot.Run          // the records before the first damage, and the latest that is known
	recorded snapshot.Info          // what is known without the meta file
	torn     *TornTail              // the end of the last journal
	damage   *snapshot.CorruptError // the first there is
	damaged  []string               // the files that are, and those after it that have records
	files    []string               // all that were read
	ends     []journalEnd           // of the journals that were read

	unchecked bool // the checksums of the snapshot are gone, so its records are not known to be right

	listing listing

	held bool // somebody had the run open when its files had been read

	meta metaFile

	cut bool // there is only what a crash has left of Create

	last *journalEnd // where the next generation begins; nil if it begins another journal

	compacted    uint64 // the number of the last record in the snapshot
	snapshotSize int64

	// Of the journal that is being read.
	carried uint64
	bodies  [][]byte // frames of records that were not added yet
	offsets []int64
}

// A journalEnd is where the frames of a journal end.
type journalEnd struct {
	name   string
	number uint64
	end    int64
	size   int64 // of the file
}

// rereads bounds how often a run is read anew because its files change: a
// compaction takes longer each time.
const rereads = 100

// read reads the files of a run; there need not be any. Damage is in the
// reading, not in the error.
//
// It reads the meta file, and checks whether the run is open, before it reads the others
// and after. A run that is closed, opened or replaced meanwhile is read again: the records
// of one instant never come with the Info of another. The others must have the records
// that the meta file knew before.
func (d *runDir) read(ctx context.Context) (*reading, error) {
	before, err := d.meta()
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		wasHeld, err := isHeld(d.path(lockName))
		if err != nil {
			return nil, fmt.Errorf("snapshot: run %s: %w", d.runID, unavailable(err))
		}
		l, err := d.listing()
		if err != nil {
			return nil, fmt.Errorf("snapshot: read run %s: %w", d.runID, unavailable(err))
		}
		r, err := d.collect(ctx, l)
		// A compaction makes the new file before it removes the old ones, but a
		// directory that changes while it is listed may show neither. So it is
		// listed again, now that what is new is there for certain.
		after, listErr := d.listing()
		held, heldErr := isHeld(d.path(lockName))
		if heldErr != nil {
			return nil, fmt.Errorf("snapshot: run %s: %w", d.runID, unavailable(heldErr))
		}
		meta, metaErr := d.meta()
		if metaErr != nil {
			return nil, metaErr
		}
		switch same := listErr == nil && l.equal(after) && meta.isAs(&before) && held == wasHeld; {
		case err == nil && same:
			r.held = held
			return r, d.compare(r, meta, before.info.LastSeq)
		case err != nil && (same || !isOfFiles(err) && !errors.Is(err, fs.ErrNotExist)):
			return nil, err
		case n == rereads:
			return nil, fmt.Errorf("snapshot: read run %s: its files changed %d times meanwhile", d.runID, n)
		}
		before = meta
	}
}

// readLocked is read for the one who has locked the run: nobody else changes the
// files meanwhile.
func (d *runDir) readLocked() (*reading, error) {
	l, err := d.listing()
	if err != nil {
		return nil, fmt.Errorf("snapshot: read run %s: %w", d.runID, unavailable(err))
	}
	r, err := d.collect(context.Background(), l)
	if err != nil {
		return nil, err
	}
	meta, err := d.meta()
	if err != nil {
		return nil, err
	}
	return r, d.compare(r, meta, math.MaxUint64)
}

// collect reads the files of a run without the meta file.
func (d *runDir) collect(ctx context.Context, l listing) (*reading, error) {
	run, err := snapshot.NewRun(snapshot.Info{RunID: d.runID}, nil)
	if err != nil {
		return nil, err
	}
	r := &reading{found: l.files() > 0, listing: l, run: run}
	in := &reader{dir: d, keep: true}
	defer in.close()
	switch err := in.read(ctx, l, func(p *piece) error { return r.add(d.runID, p) }); {
	case isOfFiles(err):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("snapshot: read run %s: %w", d.runID, unavailable(err))
	}
	r.change(func(run *snapshot.Run) { run.RunID, run.LastSeq = d.runID, uint64(run.Len()) })
	r.recorded = r.run.Info
	return r, nil
}

// isOfFiles reports whether err says that the files are those of another run, or of a
// newer version.
func isOfFiles(err error) bool {
	return errors.Is(err, snapshot.ErrFormat) || errors.Is(err, snapshot.ErrCorrupt)
}

// change replaces the run, which others may have, by one that f has changed.
func (r *reading) change(f func(*snapshot.Run)) {
	run := *r.run
	f(&run)
	r.run = &run
}

// hasCovered reports whether there are files that are not read any more.
func (r *reading) hasCovered() bool { return r.listing.files() > len(r.files) }

// becomesCovered reports whether there are files that are not read any more once the run
// goes on in another journal.
func (r *reading) becomesCovered() bool {
	return len(r.listing.journals) > 0 || len(r.listing.snapshots) > 1
}

// compare adds what the update file says and what the meta file knows. Known records were
// there before the files were read.
func (d *runDir) compare(r *reading, meta metaFile, known uint64) error {
	r.meta = meta
	if !meta.isWhole && r.cut {
		r.found, r.damage, r.torn = false, nil, nil
		var err error
		r.run, err = snapshot.NewRun(snapshot.Info{RunID: d.runID}, nil)
		r.recorded = r.run.Info
		return err
	}
	if meta.isWhole {
		r.compareMeta(d.runID, known)
	}
	r.findEnd()
	u, err := d.readUpdate()
	var damage *snapshot.CorruptError
	switch {
	case errors.As(err, &damage):
		r.isDamaged(d.runID, damage.File, damage.Offset, damage.Err)
	case err != nil:
		return err
	}
	r.change(func(run *snapshot.Run) { run.Info = u.apply(run.Info) })
	return nil
}

// usedGeneration returns the highest number of a generation that is known. If the meta file
// alone knows it, the generation is lost.
func (r *reading) usedGeneration() uint64 {
	if m := &r.meta; m.isWhole && m.info.Created.Equal(r.run.Created) {
		return max(r.run.Generation, m.info.Generation)
	}
	return r.run.Generation
}

// crashed returns the info of a run whose process has ended.
func (r *reading) crashed() (snapshot.Info, error) {
	switch {
	case r.damage != nil:
		return snapshot.Info{}, advise(r.damage)
	case !r.found:
		return snapshot.Info{}, noRun(r.run.RunID)
	case r.run.Status == snapshot.StatusRunning:
		return storekit.Crashed(r.run.Info), nil
	}
	return r.run.Info, nil
}

// firstJournal is the number of the journal that a short run is created as.
const firstJournal = 1

// add adds a piece. Its error is ErrFormat, or that of the file.
func (r *reading) add(runID string, p *piece) error {
	switch p.kind {
	case pieceSnapshot:
		return r.addSnapshot(runID, p)
	case pieceHeader:
		r.beginJournal(p.header)
		return nil
	case pieceFrame:
		return r.addFrame(runID, p)
	}
	return r.endJournal(runID, p)
}

func (r *reading) addSnapshot(runID string, p *piece) error {
	r.files = append(r.files, p.file)
	data, err := readSnapshot(p.snapshot, p.size)
	if err != nil {
		return err
	}
	run, err := snapshot.Decode(data)
	var damage *snapshot.CorruptError
	isDamaged := errors.As(err, &damage)
	if run != nil && run.RunID == runID { // with the records before the damage
		r.run, r.compacted, r.snapshotSize = run, uint64(run.Len()), int64(len(data))
	}
	switch {
	case isDamaged:
		r.isDamaged(runID, p.file, damage.Offset, damage.Err)
		r.unchecked = damage.Offset == int64(len(data))
	case err != nil && !snapshot.IsDocument(data): // which it was when it got its name
		r.isDamaged(runID, p.file, 0, errNoDocument)
	case err != nil:
		return fmt.Errorf("snapshot: run %s: %s: %w", runID, p.file, err)
	}
	if run != nil && run.RunID != runID && !isDamaged {
		return &strangerError{runID, p.file, run.RunID}
	}
	return nil
}

// readSnapshot reads a document, if it begins as one, up to a hole that is too
// much: Decode says that the rest is missing.
func readSnapshot(f openFile, size int64) ([]byte, error) {
	head, err := readAll(f, min(64, size))
	if err != nil {
		return nil, err
	}
	if !snapshot.IsDocument(head) {
		return head, nil // Decode says what is wrong with it
	}
	upTo, _ := readable(f, size)
	return readAll(f, upTo)
}

func (r *reading) beginJournal(h *header) {
	r.carried = h.carried
	r.change(func(run *snapshot.Run) { run.Info = laterInfo(run.Info, h.info) })
}

// laterInfo returns the info of a header, unless an earlier file has a later one: a journal
// that a compaction has begun may come after the end of its generation.
func laterInfo(info, header snapshot.Info) snapshot.Info {
	if header.Updated.Before(info.Updated) {
		return info
	}
	return header
}

func (r *reading) addFrame(runID string, p *piece) error {
	f := p.frame
	switch f.kind {
	case frameRecords:
		r.bodies, r.offsets = append(r.bodies, f.body), append(r.offsets, f.offset)
	case frameInfo:
		end, err := snapshot.DecodeInfo(f.body)
		if err != nil {
			added := r.addRecords(runID, p.file)
			r.isDamaged(runID, p.file, f.offset, err)
			return added
		}
		r.change(func(run *snapshot.Run) { run.Info = end })
	case frameHeader:
		err := r.addRecords(runID, p.file)
		r.isDamaged(runID, p.file, f.offset, errors.New("a second header"))
		return err
	default:
		return fmt.Errorf("snapshot: run %s: %s, byte %d: %w: a frame of kind %d; use a newer Reprise", runID, p.file, f.offset, snapshot.ErrFormat, f.kind)
	}
	return nil
}

func (r *reading) endJournal(runID string, p *piece) error {
	r.files = append(r.files, p.file)
	r.ends = append(r.ends, journalEnd{p.file, p.number, p.end, p.size})
	if err := r.addRecords(runID, p.file); err != nil {
		return err
	}
	isShort := p.err == nil && uint64(r.run.Len()) < r.carried
	if p.number == firstJournal && r.listing.files() == 1 && p.ending != endDamaged {
		r.cut = p.end == 0 || isShort
	}
	switch {
	case p.err != nil:
		r.isDamaged(runID, p.file, 0, p.err)
	case p.ending == endDamaged:
		r.isDamaged(runID, p.file, p.end, errNoFrame)
	case isShort:
		r.isDamaged(runID, p.file, p.end, fmt.Errorf("it was begun with the records up to %d", r.carried))
	case p.ending == endTorn:
		r.torn = &TornTail{File: p.file, Offset: p.end, Size: p.size - p.end}
	}
	return nil
}

// addRecords adds the records of the frames since the last call. What comes after damage
// is not added: it is not a state that the run was in.
func (r *reading) addRecords(runID, file string) error {
	bodies, offsets := r.bodies, r.offsets
	r.bodies, r.offsets = nil, nil
	switch {
	case len(bodies) == 0:
		return nil
	case r.damage != nil:
		r.setAside(file)
		return nil
	}
	run, taken, err := r.run.Extend(bodies...)
	r.run = run
	switch {
	case errors.Is(err, snapshot.ErrFormat):
		return fmt.Errorf("snapshot: run %s: %s, byte %d: %w", runID, file, offsets[taken], err)
	case err != nil:
		r.isDamaged(runID, file, offsets[taken], err)
	}
	return nil
}

func (r *reading) isDamaged(runID, file string, offset int64, err error) {
	r.setAside(file)
	if r.damage == nil {
		r.damage = &snapshot.CorruptError{RunID: runID, File: file, Offset: offset, LastSeq: uint64(r.run.Len()), Err: err}
	}
}

// setAside has a repair keep a copy of a file.
func (r *reading) setAside(file string) {
	if !slices.Contains(r.damaged, file) {
		r.damaged = append(r.damaged, file)
	}
}

// compareMeta notices that the files lack something at their end which the meta file knows.
// A meta file that is older than they are knows nothing.
func (r *reading) compareMeta(runID string, known uint64) {
	meta := r.meta.info
	end := journalEnd{name: metaName}
	if n := len(r.ends); n > 0 {
		end = r.ends[n-1]
	} else if len(r.files) > 0 {
		end.name, end.end = r.files[0], r.snapshotSize
	}
	switch last := uint64(r.run.Len()); {
	case !r.found:
		r.found = true
		r.isDamaged(runID, metaName, 0, fmt.Errorf("it says that the run has %d records, and neither a journal nor a snapshot is there", meta.LastSeq))
	case r.damage != nil || meta.Updated.Before(r.recorded.Updated): // the run may have been deleted and begun anew
	case last < min(known, meta.LastSeq):
		r.isDamaged(runID, end.name, end.end, fmt.Errorf("records %d to %d, which were there when the run was closed, are missing", last+1, meta.LastSeq))
	case meta.Generation > r.recorded.Generation:
		r.isDamaged(runID, end.name, end.end, fmt.Errorf("generation %d, which had begun, is missing", meta.Generation))
	case meta.Status != snapshot.StatusRunning && end.number == r.meta.closed.journal && end.end < r.meta.closed.end:
		r.isDamaged(runID, end.name, end.end, errors.New("the end of the generation, which was there when the run was closed, is missing"))
	}
}

// findEnd finds out whether the next generation begins where the last journal ends: that
// is the only one that is read, and the one who closed it has synced it up to there.
func (r *reading) findEnd() {
	n, closed := len(r.ends), r.meta.closed
	if n == 1 && r.meta.ok && r.damage == nil && r.torn == nil && r.ends[0].number == closed.journal && r.ends[0].end == closed.end {
		r.last = &r.ends[0]
	}
}

// It is found in errors of calls that were recorded, too.
func init() {
	record.RegisterErrorType[*TornTail]("filestore.TornTail")
}
