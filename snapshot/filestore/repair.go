package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// RepairReport says what Repair did.
type RepairReport struct {
	RunID   string
	Kept    uint64                 // the records that the run has now
	Lost    uint64                 // how many more there were, as far as that is known
	IsWhole bool                   // nothing was lost, for certain
	Damage  *snapshot.CorruptError // what was damaged first; nil if nothing was, and then nothing was done
	Damaged []string               // copies of the damaged files, and of those after them, in the directory of the run
}

// Repair makes a damaged run one that can be opened. It keeps the records
// before the first damage, which is a state that the run was in. What comes
// after is lost, even where it is whole: calls that had their outcome there run
// again when the run is resumed, also those that were to happen only once. So
// look at RepairReport.Lost before the run is opened. A run that lost records,
// or may have, is interrupted.
//
// The next generation of the run has a number that none has had, so that whoever
// followed the records that are lost gets ErrReset. If the meta file of the run is
// lost, too, nobody knows how many generations there were: the number is then that
// of the milliseconds since 1970.
//
// Copies of the damaged files, and of those with records that come after, stay
// beside the others, as *.damaged. A run that
// is not damaged is left as it is; one that is open is ErrLocked.
func (s *Store) Repair(ctx context.Context, runID string) (RepairReport, error) {
	report := RepairReport{RunID: runID}
	if err := s.check(ctx, runID); err != nil {
		return report, err
	}
	d := s.dir(runID)
	l, err := d.lock(ctx, false, false)
	if err != nil {
		return report, err
	}
	defer l.release()
	d = d.locked(l)
	r, err := d.readLocked()
	switch {
	case err != nil:
		return report, err
	case !r.found:
		return report, noRun(runID)
	}
	if damage := r.decodes(runID); damage != nil {
		if r.damage == nil || damage.LastSeq < r.damage.LastSeq {
			r.damage = damage
		}
		r.damaged = append(r.damaged, r.files...) // it may be in any of them
	}
	report.Damage, report.Kept = r.damage, r.run.LastSeq
	if r.damage == nil {
		report.IsWhole = true
		return report, nil
	}
	if err := d.repair(r, &report); err != nil {
		return report, fmt.Errorf("snapshot: repair run %s: %w", runID, unavailable(err))
	}
	return report, nil
}

// decodes cuts the run before a record that cannot be decoded.
func (r *reading) decodes(runID string) *snapshot.CorruptError {
	last := uint64(0)
	for rec, err := range r.run.Records() {
		if err == nil {
			last = rec.Seq
			continue
		}
		whole := make([][]byte, last)
		for i := range whole {
			whole[i] = r.run.Encoded(uint64(i) + 1)
		}
		if cut, err := snapshot.NewRun(r.run.Info, nil); err == nil {
			r.run, _, _ = cut.Extend(whole...) // as it was
		}
		return &snapshot.CorruptError{RunID: runID, LastSeq: last, Err: err}
	}
	return nil
}

// repair first copies the damaged files, then writes a snapshot of what comes
// before the damage, with a number that covers every journal. Its renaming is
// the repair; whatever happens before leaves the run as damaged as it was.
func (d *runDir) repair(r *reading, report *RepairReport) error {
	info := r.run.Info
	info.RunID, info.LastSeq = report.RunID, uint64(r.run.Len())
	report.Kept = info.LastSeq
	meta, ok := r.meta.info, r.meta.ok
	if ok && meta.LastSeq > report.Kept {
		report.Lost = meta.LastSeq - report.Kept
	}
	if info.Created.IsZero() {
		info.Created = storekit.Begun(report.RunID, &snapshot.OpenOptions{}).Created
	}
	report.IsWhole = ok && !r.unchecked && meta.LastSeq == report.Kept && meta.Status != snapshot.StatusRunning
	if info = storekit.Crashed(info); report.IsWhole {
		info.Status, info.Stop, info.Due = meta.Status, meta.Stop, meta.Due
	}
	info.Updated = storekit.Later(info.Updated)
	if !ok {
		info.Generation = unusedGeneration(info.Generation)
	}
	info.Generation = max(info.Generation, 1)
	run := *r.run
	run.Info = info
	if err := d.setAside(r, report); err != nil {
		return err
	}
	if _, err := d.writeSnapshot(&run, r.listing.newest()+1); err != nil {
		return err
	}
	if err := d.syncDirs(); err != nil {
		return err
	}
	_, err := d.changeMeta(nil, func(*metaFile) (header, error) { return header{info: info}, nil })
	if err != nil {
		return err
	}
	d.removeCovered(r.listing.newest())
	return nil
}

// unusedGeneration is above the number of every generation of a run that is known
// up to one of them. How many came after the damage only the meta file says. With a
// number that was used before, one who had followed what is lost would take what
// comes now for the rest of it. Nobody opens a run once in a millisecond.
func unusedGeneration(known uint64) uint64 {
	return max(known, uint64(max(0, time.Now().UnixMilli())))
}

// setAside copies the damaged files under names that are free.
func (d *runDir) setAside(r *reading, report *RepairReport) error {
	slices.Sort(r.damaged)
	for _, file := range slices.Compact(r.damaged) {
		if file == metaName {
			continue // it is whole, and says what is missing
		}
		name := file + ".damaged"
		for n := 2; ; n++ {
			if _, err := os.Lstat(d.path(name)); errors.Is(err, fs.ErrNotExist) {
				break
			}
			name = fmt.Sprintf("%s.damaged.%d", file, n)
		}
		if err := d.copyFile(file, name); err != nil {
			return err
		}
		report.Damaged = append(report.Damaged, name)
	}
	slices.Sort(report.Damaged)
	return d.disk.SyncDir(d.path())
}

func (d *runDir) copyFile(from, to string) error {
	in, size, err := openSized(d.disk, d.path(from))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := d.disk.Create(d.path(to))
	if err != nil {
		return err
	}
	buf := make([]byte, readStep)
	for at := in.dataAt(0, size); at < size && err == nil; at = in.dataAt(at, size) { // holes stay holes
		var n int
		if n, err = in.ReadAt(buf[:min(readStep, size-at)], at); n > 0 {
			err = writeAt(out, buf[:n], at)
		}
		at += int64(n)
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
