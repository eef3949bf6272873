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

// A reading is what the files of a run say.
type reading struct {
	found    bool                   // a run at all
	run      *snapshot.Run          // the records before the first damage, and the latest that is known
	recorded snapshot.Info          // what is known without the meta file
	torn     *TornTail              // the end of the last journal
	damage   *snapshot.CorruptError // the first there is
	damaged  []string               // the files that are, and those after it that have records
	files    []string               // all that were read
	journals int                    // how many of them are journals
	all      int                    // how many journals and snapshots there are

	unchecked bool // the checksums of the snapshot are gone, so its records are not known to be right

	unfinished bool // there are files to remove before another is written
	covered    bool // there are files to remove when it was

	held bool // somebody had the run open when its files had been read

	meta metaFile

	cut bool // there is only what a crash has left of Create

	last *part // the journal that the next generation goes on in; nil if it begins another

	newest       uint64 // the highest number that a file of the run has had
	compacted    uint64 // the number of the last record in the snapshot
	snapshotSize int64
}

// files are the files of a run that hold records, as read.
type files struct {
	listing
	snapshot []byte // the newest; nil if there is none
	parts    []part // the journals
}

// rereads bounds how often a run is read anew because its files change: a
// compaction takes longer each time.
const rereads = 100

// read reads the files of a run; there need not be any. Damage is in the
// reading, not in the error.
//
// It reads the meta file before the others, and after checking whether the run is open.
// A run that is closed, opened or replaced
// meanwhile is read again: the records of one instant never come with the Info
// of another. What the meta file knew before, the others must have.
func (d *runDir) read(ctx context.Context) (*reading, error) {
	before, err := d.meta()
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		l, err := d.listing()
		if err != nil {
			return nil, fmt.Errorf("snapshot: read run %s: %w", d.runID, err)
		}
		in, err := d.readFiles(l)
		// A compaction makes the new file before it removes the old ones, but a
		// directory that changes while it is listed may show neither. So it is
		// listed again, now that what is new is there for certain.
		after, listErr := d.listing()
		held, heldErr := isHeld(d.path(lockName))
		if heldErr != nil {
			return nil, fmt.Errorf("snapshot: run %s: %w", d.runID, heldErr)
		}
		meta, metaErr := d.meta()
		if metaErr != nil {
			return nil, metaErr
		}
		switch same := listErr == nil && l.equal(after) && meta.isAs(&before); {
		case err == nil && same:
			r, err := d.interpret(in, meta, before.info.LastSeq)
			if err == nil {
				r.held = held
			}
			return r, err
		case err != nil && (same || !errors.Is(err, fs.ErrNotExist)):
			return nil, fmt.Errorf("snapshot: read run %s: %w", d.runID, err)
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
		return nil, fmt.Errorf("snapshot: read run %s: %w", d.runID, err)
	}
	in, err := d.readFiles(l)
	if err != nil {
		return nil, fmt.Errorf("snapshot: read run %s: %w", d.runID, err)
	}
	meta, err := d.meta()
	if err != nil {
		return nil, err
	}
	return d.interpret(in, meta, math.MaxUint64)
}

// listing lists the files of a run; none if it does not exist.
func (d *runDir) listing() (listing, error) {
	entries, err := d.disk.ReadDir(d.path())
	if errors.Is(err, fs.ErrNotExist) {
		return listing{}, nil
	} else if err != nil {
		return listing{}, err
	}
	l := listingOf(entries)
	if l.older != "" {
		return l, fmt.Errorf("%w: %s was written by a version of Reprise before the first release; begin the run anew", snapshot.ErrFormat, l.older)
	}
	return l, nil
}

// readFiles reads while another may write. It reads the newest first: a
// journal gets its first record when all those before it have their last, so
// what is read of the older ones is never less than what comes before the
// records that were read already. The snapshot comes last; if a compaction
// has replaced it meanwhile, the listing is another.
func (d *runDir) readFiles(l listing) (files, error) {
	in := files{listing: l, parts: make([]part, len(l.journals))}
	for i, n := range slices.Backward(l.journals) {
		var err error
		if in.parts[i], err = d.readJournal(n); err != nil {
			return files{}, err
		}
	}
	if n := len(l.snapshots); n > 0 {
		var err error
		if in.snapshot, err = d.store.readSnapshot(d.path(snapshotName(l.snapshots[n-1]))); err != nil {
			return files{}, err
		}
	}
	return in, nil
}

// goOn reports whether frames follow where a journal was closed.
func (in *files) goOn(c closed) bool {
	i := slices.Index(in.journals, c.journal)
	return i >= 0 && in.parts[i].end > c.end
}

func (d *runDir) readJournal(n uint64) (part, error) {
	f, size, err := openSized(d.disk, d.path(journalName(n)))
	if err != nil {
		return part{}, err
	}
	defer func() { _ = f.Close() }()
	return readFrames(journalName(n), f, size)
}

// readSnapshot reads a document, if it begins as one, up to a hole that is too
// much: Decode says that the rest is missing.
func (s *Store) readSnapshot(name string) ([]byte, error) {
	f, size, err := openSized(s.disk, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
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

// hasCovered reports whether there are files that are not read any more.
func (r *reading) hasCovered() bool { return r.all > len(r.files) }

// interpret says what the files hold, in which there were known records before
// they were read. Its error is ErrFormat.
func (d *runDir) interpret(in files, meta metaFile, known uint64) (*reading, error) {
	n := len(in.journals) + len(in.snapshots)
	r := &reading{found: n > 0, all: n, meta: meta, newest: in.newest(), unfinished: in.unfinished, covered: len(in.journals) > 0 || n > 1}
	var err error
	if r.run, err = snapshot.NewRun(snapshot.Info{RunID: d.runID}, nil); err != nil {
		return nil, err
	}
	if err := d.addFiles(r, in); err != nil {
		return nil, err
	}
	r.recorded = r.run.Info
	if !r.meta.ok && !r.meta.begun && r.cut {
		r.found, r.damage, r.torn = false, nil, nil
		r.run, err = snapshot.NewRun(snapshot.Info{RunID: d.runID}, nil)
		return r, err
	}
	r.compareMeta(d.runID, in, known)
	return r, nil
}

// firstJournal is the number of the journal that a short run is created as.
const firstJournal = 1

// isCut reports whether the only file is one that Create was writing when it was
// cut short: it does not have all that was to be in it, and nothing that was
// written to it later. If the meta file is missing too, which Create writes
// last, there is no run.
func (r *reading) isCut(in files, h header) bool {
	p := &in.parts[0]
	return in.journals[0] == firstJournal && !p.damage && (p.end == 0 || uint64(r.run.Len()) < h.carried)
}

// addFiles adds the snapshot and the journals that it does not cover.
func (d *runDir) addFiles(r *reading, in files) error {
	covers := uint64(0)
	if n := len(in.snapshots); n > 0 {
		covers = in.snapshots[n-1]
		r.files = append(r.files, snapshotName(covers))
		if err := r.addSnapshot(d.runID, snapshotName(covers), in.snapshot); err != nil {
			return err
		}
	}
	headers := make([]header, len(in.parts))
	for i := range in.parts {
		p := &in.parts[i]
		var err error
		headers[i], err = p.header(d.runID)
		var stranger *strangerError
		if errors.As(err, &stranger) {
			return err
		} else if errors.Is(err, snapshot.ErrFormat) {
			return fmt.Errorf("snapshot: run %s: %s: %w", d.runID, p.name, err)
		}
		covers = max(covers, headers[i].covers) // what else is wrong with it shows when its records are added
	}
	for i, n := range in.journals {
		if n <= covers {
			continue
		}
		r.files = append(r.files, in.parts[i].name)
		r.journals++
		if err := r.addJournal(d.runID, &in.parts[i], &headers[i]); err != nil {
			return err
		}
	}
	run := *r.run
	run.RunID, run.LastSeq = d.runID, uint64(run.Len())
	r.run = &run
	r.cut = len(in.parts) == 1 && len(in.snapshots) == 0 && r.isCut(in, headers[0])
	return nil
}

func (r *reading) addSnapshot(runID, name string, data []byte) error {
	run, err := snapshot.Decode(data)
	var damage *snapshot.CorruptError
	isDamaged := errors.As(err, &damage)
	if run != nil && run.RunID == runID { // with the records before the damage
		r.run, r.compacted, r.snapshotSize = run, uint64(run.Len()), int64(len(data))
	}
	switch {
	case isDamaged:
		r.isDamaged(runID, name, damage.Offset, damage.Err)
		r.unchecked = damage.Offset == int64(len(data))
	case err != nil && !snapshot.IsDocument(data): // which it was when it got its name
		r.isDamaged(runID, name, 0, errNoDocument)
	case err != nil:
		return fmt.Errorf("snapshot: run %s: %s: %w", runID, name, err)
	}
	if run != nil && run.RunID != runID && !isDamaged {
		return &strangerError{runID, name, run.RunID}
	}
	return nil
}

// addJournal adds the records of a journal, up to its first damage. Its error
// is ErrFormat.
func (r *reading) addJournal(runID string, p *part, h *header) error {
	if h.info.RunID == "" {
		_, err := p.header(runID)
		r.isDamaged(runID, p.name, 0, err)
		return nil
	}
	info := r.run.Info
	if h.info.Generation > info.Generation || info.Created.IsZero() { // what follows in a generation says no more, and its end may have come before
		info = h.info
	}
	bodies, offsets := make([][]byte, 0, len(p.frames)), make([]int64, 0, len(p.frames))
	for i := range p.frames {
		f := p.frame(i)
		switch f.kind {
		case frameRecords:
			bodies, offsets = append(bodies, f.body), append(offsets, f.offset)
		case frameInfo:
			end, err := snapshot.DecodeInfo(f.body)
			if err != nil {
				r.isDamaged(runID, p.name, f.offset, err)
				continue
			}
			info = end
		case frameHeader:
			r.isDamaged(runID, p.name, f.offset, errors.New("a second header"))
		default:
			return fmt.Errorf("snapshot: run %s: %s, byte %d: %w: a frame of kind %d; use a newer Reprise", runID, p.name, f.offset, snapshot.ErrFormat, f.kind)
		}
	}
	if r.torn != nil && len(bodies) > 0 {
		// A journal is on the disk to its end before the next one gets a record.
		r.isDamaged(runID, r.torn.File, r.torn.Offset, errNoFrame)
		r.torn = nil
	}
	if err := r.addRecords(runID, p.name, bodies, offsets); err != nil {
		return err
	}
	run := *r.run
	run.Info = info
	r.run = &run
	switch {
	case p.damage:
		r.isDamaged(runID, p.name, p.end, errNoFrame)
	case uint64(r.run.Len()) < h.carried:
		r.isDamaged(runID, p.name, p.end, fmt.Errorf("it was begun with the records up to %d", h.carried))
	case p.torn:
		r.torn = &TornTail{File: p.name, Offset: p.end, Size: p.size - p.end}
	}
	return nil
}

// addRecords adds those of the frames at the offsets. What comes after damage
// is not added: it is not a state that the run was in.
func (r *reading) addRecords(runID, file string, bodies [][]byte, offsets []int64) error {
	if r.damage != nil {
		if len(bodies) > 0 {
			r.setAside(file)
		}
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

// compareMeta takes over what the meta file knows better, and notices records
// that are missing at the end.
func (r *reading) compareMeta(runID string, in files, known uint64) {
	m := &r.meta
	if m.begun && r.damage == nil && !in.goOn(m.closed) {
		m.ok = true // what follows there is torn
	}
	if !m.ok { // it is damaged, or a crash came before it: the files say the same
		return
	}
	r.mayGoOn(in)
	meta := m.info
	switch last := uint64(r.run.Len()); {
	case !r.found:
		r.found = true
		r.isDamaged(runID, metaName, 0, fmt.Errorf("it says that the run has %d records, and neither a journal nor a snapshot is there", meta.LastSeq))
	case last < min(known, meta.LastSeq) && r.damage == nil: // the run may have been deleted and begun anew
		file, size := metaName, int64(0)
		if n := len(in.parts); n > 0 {
			file, size = in.parts[n-1].name, in.parts[n-1].end
		} else if n := len(in.snapshots); n > 0 {
			file, size = snapshotName(in.snapshots[n-1]), r.snapshotSize
		}
		r.isDamaged(runID, file, size, fmt.Errorf("records %d to %d, which were there when the run was closed, are missing", last+1, meta.LastSeq))
	}
	if meta.Generation < r.run.Generation && uint64(r.run.Len()) > meta.LastSeq {
		return // the meta file is an older copy
	}
	run := *r.run
	ended := run.Info
	run.Info = meta
	switch {
	case meta.Status != snapshot.StatusRunning:
	case ended.Generation == meta.Generation:
		run.Info = endedAs(meta, &ended)
	}
	run.LastSeq = uint64(run.Len())
	r.run = &run
}

// mayGoOn finds out whether the next generation goes on in the last journal: it
// is the only one that is read, and the one who closed it has synced it up to
// where its frames end.
func (r *reading) mayGoOn(in files) {
	n, closed := len(in.parts), r.meta.closed
	if n == 0 || in.journals[n-1] != closed.journal || r.damage != nil || r.torn != nil || r.journals != 1 {
		return
	}
	if p := &in.parts[n-1]; p.end == closed.end {
		r.last = p
	}
}

// waits reports whether the run is queued, and the next generation goes on where the
// meta file says that its journal ends. So a reader notices that it has begun.
func (r *reading) waits() bool { return r.last != nil && r.meta.waits() }

// It is found in errors of calls that were recorded, too.
func init() {
	record.RegisterErrorType[*TornTail]("filestore.TornTail")
}
