package filestore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-go/reprise/snapshot"
)

// A reading is the combined content of all files of a run.
type reading struct {
	found    bool                   // the run exists
	run      *snapshot.Run          // the records before the first damage, with the latest info
	recorded snapshot.Info          // the info from the journals and the snapshot, without the update file
	torn     *TornTail              // the torn end of the last journal; nil if there is none
	damage   *snapshot.CorruptError // the first damage; nil if there is none
	damaged  []string               // the damaged files, and the files with records after the first damage
	files    []string               // all files that were read
	ends     []journalEnd           // the ends of the journals that were read

	unchecked bool // the snapshot's table of checksums is missing, so its records cannot be checked

	listing listing

	held bool // a process had the run open, both before and after the files were read

	meta metaFile

	cut bool // the only file is a partial journal that an unfinished Create has left

	last *journalEnd // where the next generation begins; nil if it begins in a new journal

	compacted    uint64 // the number of the last record in the snapshot
	snapshotSize int64

	// The fields below are about the journal that is being read.
	carried uint64
	bodies  [][]byte // bodies of the frames whose records have not been added yet
	offsets []int64  // offsets of these frames
}

// A journalEnd describes the end of a journal.
type journalEnd struct {
	name   string
	number uint64
	end    int64 // where the frames end
	size   int64 // size of the file
}

// collect reads the snapshot and the journals of a run.
func (d *runDir) collect(ctx context.Context, l listing) (*reading, error) {
	run, err := snapshot.NewRun(snapshot.Info{RunID: d.runID}, nil)
	if err != nil {
		return nil, err
	}
	r := &reading{found: l.files() > 0, listing: l, run: run}
	in := &reader{dir: d, keep: true}
	defer in.close()
	switch err := in.read(ctx, l, func(p *piece) error { return r.add(d.runID, p) }); {
	case isContentError(err):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("snapshot: read run %s: %w", d.runID, unavailable(err))
	}
	r.change(func(run *snapshot.Run) { run.RunID, run.LastSeq = d.runID, uint64(run.Len()) })
	r.recorded = r.run.Info
	return r, nil
}

// isContentError reports whether err is about the content of files: the files are damaged, belong to
// another run, or were written in a newer version of the format.
func isContentError(err error) bool {
	return errors.Is(err, snapshot.ErrFormat) || errors.Is(err, snapshot.ErrCorrupt)
}

// change replaces r.run with a changed copy. It does not change the old run, which may be in use.
func (r *reading) change(f func(*snapshot.Run)) {
	run := *r.run
	f(&run)
	r.run = &run
}

// firstJournal is the number of the journal that Create writes for a short run.
const firstJournal = 1

// add adds a piece to the reading. The error is ErrFormat, ErrCorrupt for a file of another run, or
// an error from reading a file.
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
		r.noteDamage(runID, p.file, damage.Offset, damage.Err)
		r.unchecked = damage.Offset == int64(len(data))
	case err != nil && !snapshot.IsDocument(data): // only a whole document is given this name, so it was damaged later
		r.noteDamage(runID, p.file, 0, errNoDocument)
	case err != nil:
		return fmt.Errorf("snapshot: run %s: %s: %w", runID, p.file, err)
	}
	if run != nil && run.RunID != runID && !isDamaged {
		return &strangerError{runID, p.file, run.RunID}
	}
	return nil
}

// readSnapshot reads a snapshot. If there is a hole that exceeds maxHoles, it reads the file only
// up to that hole, and Decode reports that the rest is missing. If the file does not begin like a
// document, readSnapshot returns only the first bytes.
func readSnapshot(f openFile, size int64) ([]byte, error) {
	head, err := readAll(f, min(64, size))
	if err != nil {
		return nil, err
	}
	if !snapshot.IsDocument(head) {
		return head, nil // Decode reports what is wrong
	}
	upTo, _ := readable(f, size)
	return readAll(f, upTo)
}

func (r *reading) beginJournal(h *header) {
	r.carried = h.carried
	r.change(func(run *snapshot.Run) { run.Info = laterInfo(run.Info, h.info) })
}

// laterInfo returns info, which is from earlier files, or the info from a journal's header,
// whichever is later. The info in the header may be the earlier one: if a compaction created the
// journal, the generation may have ended before the journal was used.
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
			r.noteDamage(runID, p.file, f.offset, err)
			return added
		}
		r.change(func(run *snapshot.Run) { run.Info = end })
	case frameHeader:
		err := r.addRecords(runID, p.file)
		r.noteDamage(runID, p.file, f.offset, errors.New("a second header"))
		return err
	default:
		return fmt.Errorf("snapshot: run %s: %s, byte %d: %w: unknown frame kind %d; use a newer Reprise", runID, p.file, f.offset, snapshot.ErrFormat, f.kind)
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
		r.noteDamage(runID, p.file, 0, p.err)
	case p.ending == endDamaged:
		r.noteDamage(runID, p.file, p.end, errNoFrame)
	case isShort:
		r.noteDamage(runID, p.file, p.end, fmt.Errorf("records are missing: it was created with the records up to %d", r.carried))
	case p.ending == endTorn:
		r.torn = &TornTail{File: p.file, Offset: p.end, Size: p.size - p.end}
	}
	return nil
}

// addRecords adds the records in r.bodies to the run. It does not add records after damage, since
// they would put the run in a state that it was never in.
func (r *reading) addRecords(runID, file string) error {
	bodies, offsets := r.bodies, r.offsets
	r.bodies, r.offsets = nil, nil
	switch {
	case len(bodies) == 0:
		return nil
	case r.damage != nil:
		r.addDamaged(file)
		return nil
	}
	run, taken, err := r.run.Extend(bodies...)
	r.run = run
	switch {
	case errors.Is(err, snapshot.ErrFormat):
		return fmt.Errorf("snapshot: run %s: %s, byte %d: %w", runID, file, offsets[taken], err)
	case err != nil:
		r.noteDamage(runID, file, offsets[taken], err)
	}
	return nil
}

// noteDamage reports damage at an offset in a file. It sets r.damage, unless there is earlier damage.
func (r *reading) noteDamage(runID, file string, offset int64, err error) {
	r.addDamaged(file)
	if r.damage == nil {
		r.damage = &snapshot.CorruptError{RunID: runID, File: file, Offset: offset, LastSeq: uint64(r.run.Len()), Err: err}
	}
}

// addDamaged adds a file to the files that Repair copies.
func (r *reading) addDamaged(file string) {
	if !slices.Contains(r.damaged, file) {
		r.damaged = append(r.damaged, file)
	}
}

// hasCovered reports whether there are files that readers no longer need.
func (r *reading) hasCovered() bool { return r.listing.files() > len(r.files) }

// willHaveCovered reports whether there will be files that readers no longer need when the run
// continues in a new journal.
func (r *reading) willHaveCovered() bool {
	return len(r.listing.journals) > 0 || len(r.listing.snapshots) > 1
}
