package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// TornTail is the end of a journal that was being written when the process or the machine stopped.
// Load ignores it, and Open cuts it off. No Sync had yet confirmed its content.
type TornTail struct {
	File   string // name of the journal in the run's directory
	Offset int64  // where the torn tail begins in the file
	Size   int64
}

// Error names the file and the unfinished bytes.
func (e *TornTail) Error() string {
	return fmt.Sprintf("snapshot: %s ends with %d unfinished bytes, which begin at byte %d and are ignored", e.File, e.Size, e.Offset)
}

// strangerError reports that a file belongs to another run. It matches ErrCorrupt, but Repair cannot
// help.
type strangerError struct{ runID, file, owner string }

func (e *strangerError) Error() string {
	return fmt.Sprintf("snapshot: run %s: %s belongs to run %s: move it to that run, or delete it", e.runID, e.file, e.owner)
}

func (e *strangerError) Unwrap() error { return snapshot.ErrCorrupt }

// Load implements [snapshot.Reader]. If a crash has left a run with the status running, Load
// reports the run as interrupted. Load ignores the unfinished end of a journal.
func (s *Store) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	run, _, err := s.Verify(ctx, runID)
	return run, err
}

// Verify is like [Store.Load], but also returns the unfinished end of a journal, or nil if there is
// none. A crash leaves such an end, and the next Open cuts it off. If the run is open, the end may
// be a record that is being written.
func (s *Store) Verify(ctx context.Context, runID string) (*snapshot.Run, *TornTail, error) {
	d, err := s.checkedDir(ctx, runID)
	if err != nil {
		return nil, nil, err
	}
	r, err := d.read(ctx)
	switch {
	case err != nil:
		return nil, nil, err
	case r.damage != nil:
		return nil, nil, advise(r.damage)
	case !r.found:
		return nil, nil, storekit.NotFoundError(runID)
	}
	r.run.Open = r.held
	if !r.held && r.run.Status == snapshot.StatusRunning { // nor was the run open before its files were read
		r.run.Info = storekit.CrashedInfo(r.run.Info)
	}
	return r.run, r.torn, nil
}

// advise adds advice on what can be done about the damage to the error for a damaged run.
func advise(err error) error {
	var damage *snapshot.CorruptError
	if errors.As(err, &damage) {
		return fmt.Errorf("%w; the records before it are whole, and (*filestore.Store).Repair keeps them", err)
	}
	return err
}

// maxReads is the maximum number of times that a run is read because its files keep changing. Even
// a second read is rare, since each compaction takes longer than the previous one.
const maxReads = 100

// read reads the files of a run, if there are any. It reports damage in the reading, not as an
// error.
//
// It reads the meta file, and checks whether the run is open, both before and after it reads the
// other files. If the run is opened, closed or replaced meanwhile, read reads everything again, so
// that the records and the Info always belong together. The other files must contain all records
// that existed according to the first read of the meta file.
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
		// A compaction creates the new file before it removes the old ones, but if a directory
		// changes while it is listed, the listing may contain neither. By now the new file
		// certainly exists, so the directory is listed again.
		after, listErr := d.listing()
		held, heldErr := isHeld(d.path(lockName))
		if heldErr != nil {
			return nil, fmt.Errorf("snapshot: run %s: %w", d.runID, unavailable(heldErr))
		}
		meta, metaErr := d.meta()
		if metaErr != nil {
			return nil, metaErr
		}
		switch same := listErr == nil && l.equal(after) && meta.isUnchangedSince(&before) && held == wasHeld; {
		case err == nil && same:
			r.held = held
			return r, d.compare(r, meta, before.info.LastSeq)
		case err != nil && (same || !isContentError(err) && !errors.Is(err, fs.ErrNotExist)):
			return nil, err
		case n == maxReads:
			return nil, fmt.Errorf("snapshot: read run %s: its files changed %d times while they were read", d.runID, n)
		}
		before = meta
	}
}

// readLocked is like read, for a caller that has locked the run, so that no other process changes
// the files meanwhile.
func (d *runDir) readLocked() (*reading, error) {
	l, err := d.listing()
	if err != nil {
		return nil, fmt.Errorf("snapshot: read run %s: %w", d.runID, unavailable(err))
	}
	r, err := d.collect(context.Background(), l)
	if err != nil {
		return nil, err
	}
	meta, err := d.metaAndUpdate()
	if err != nil {
		return nil, err
	}
	return r, d.compare(r, meta, math.MaxUint64)
}

// compare compares the reading with the meta file, and applies the update file to the reading. The
// records up to known existed before the files were read.
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
	var damage *snapshot.CorruptError
	switch {
	case errors.As(meta.damaged, &damage):
		r.noteDamage(d.runID, damage.File, damage.Offset, damage.Err)
	case meta.damaged != nil:
		return meta.damaged
	}
	r.change(func(run *snapshot.Run) { run.Info = meta.update.apply(run.Info) })
	return nil
}

// usedGeneration returns the highest generation number that is known. If only the meta file
// contains that number, the generation itself is lost.
func (r *reading) usedGeneration() uint64 {
	if m := &r.meta; m.isWhole && m.info.Created.Equal(r.run.Created) {
		return max(r.run.Generation, m.info.Generation)
	}
	return r.run.Generation
}

// crashedInfo returns the info of a run whose process ended without closing the run.
func (r *reading) crashedInfo() (snapshot.Info, error) {
	switch {
	case r.damage != nil:
		return snapshot.Info{}, advise(r.damage)
	case !r.found:
		return snapshot.Info{}, storekit.NotFoundError(r.run.RunID)
	case r.run.Status == snapshot.StatusRunning:
		return storekit.CrashedInfo(r.run.Info), nil
	}
	return r.run.Info, nil
}

// compareMeta reports damage if, according to the meta file, records or a generation are missing at
// the end of the other files. A meta file that is older than the other files proves nothing.
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
		r.noteDamage(runID, metaName, 0, fmt.Errorf("it says that the run has %d records, but there is neither a journal nor a snapshot", meta.LastSeq))
	case r.damage != nil || meta.Updated.Before(r.recorded.Updated): // the run may have been deleted and created again
	case last < min(known, meta.LastSeq):
		r.noteDamage(runID, end.name, end.end, fmt.Errorf("records %d to %d, which existed when the run was last opened or closed, are missing", last+1, meta.LastSeq))
	case meta.Generation > r.recorded.Generation:
		r.noteDamage(runID, end.name, end.end, fmt.Errorf("generation %d, which had begun, is missing", meta.Generation))
	case meta.Status != snapshot.StatusRunning && end.number == r.meta.closed.journal && end.end < r.meta.closed.end:
		r.noteDamage(runID, end.name, end.end, errors.New("the end of the generation is missing, although it existed when the run was closed"))
	}
}

// findEnd sets r.last if the next generation may continue in the last journal. It may if no other
// journal was read, and if the journal ends where it ended when the run was closed. In that case,
// the process that closed the run has synced all of it.
func (r *reading) findEnd() {
	n, closed := len(r.ends), r.meta.closed
	if n == 1 && r.damage == nil && r.torn == nil && r.ends[0].number == closed.journal && r.ends[0].end == closed.end {
		r.last = &r.ends[0]
	}
}

// Let errors.As find a TornTail in recorded errors, too.
func init() {
	record.RegisterErrorType[*TornTail]("filestore.TornTail")
}
