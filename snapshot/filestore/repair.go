package filestore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// A RepairReport is the result of Repair.
type RepairReport struct {
	RunID   string
	Kept    uint64                 // number of records that the run has now
	Lost    uint64                 // number of records that were lost, as far as is known
	IsWhole bool                   // it is certain that nothing was lost
	Damage  *snapshot.CorruptError // the first damage; if nil, there was none, and Repair changed nothing
	Damaged []string               // names of the copies of damaged and later files, in the run's directory
}

// Repair makes it possible to open a damaged run. It keeps the records before the first damage, so
// the run returns to an earlier state. All records after the damage are lost, even those that are
// undamaged. When the run is resumed, calls whose outcomes are lost run again, including calls that
// must happen only once. So look at RepairReport.Lost before you open the run. If the run has lost
// records, or may have lost some, its status is set to interrupted, with the reason
// [record.InterruptReplay] and a message about the loss, so that no runner continues it by itself.
//
// The run's next generation has a number that was never used, so that followers that have read lost
// records get ErrReset. If the meta file is also lost, the number of the last generation is
// unknown; the new number is then based on the number of milliseconds since 1970.
//
// Repair leaves copies of the damaged files, and of later files with records, next to the other
// files as *.damaged. It does not change a run that is not damaged. If the run is open, the error
// is ErrLocked.
func (s *Store) Repair(ctx context.Context, runID string) (RepairReport, error) {
	report := RepairReport{RunID: runID}
	d, err := s.checkedDir(ctx, runID)
	if err != nil {
		return report, err
	}
	defer s.index.change(runID)
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
		return report, storekit.NotFoundError(runID)
	}
	if damage := r.cutUndecodable(runID); damage != nil {
		if r.damage == nil || damage.LastSeq < r.damage.LastSeq {
			r.damage = damage
		}
		r.damaged = append(r.damaged, r.files...) // the damage may be in any of them
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

// cutUndecodable removes the first record that cannot be decoded and all records after it, and
// returns the damage. If all records can be decoded, it returns nil.
func (r *reading) cutUndecodable(runID string) *snapshot.CorruptError {
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
			r.run, _, _ = cut.Extend(whole...) // this cannot fail, since r.run was built from the same records
		}
		return &snapshot.CorruptError{RunID: runID, LastSeq: last, Err: err}
	}
	return nil
}

// repair copies the damaged files and then writes a snapshot of the records before the damage. The
// snapshot's number is high enough to cover every journal. Renaming the snapshot completes the
// repair; a crash before that leaves the damage unchanged.
func (d *runDir) repair(r *reading, report *RepairReport) error {
	l, err := d.lockMeta(context.Background(), true)
	if err != nil {
		return err
	}
	defer l.release()
	info := r.run.Info
	if u, err := d.readUpdate(); err == nil && u.isOf(&r.recorded) {
		info = u.withMetadata(info)
	}
	info.RunID, info.LastSeq = report.RunID, uint64(r.run.Len())
	report.Kept = info.LastSeq
	meta := r.meta.info
	ok, err := d.isUpToDate(&r.meta)
	if err != nil {
		return err
	}
	if r.meta.isWhole && meta.LastSeq > report.Kept {
		report.Lost = meta.LastSeq - report.Kept
	}
	if info.Created.IsZero() {
		info.Created = storekit.NewInfo(report.RunID, &snapshot.OpenOptions{}).Created
	}
	report.IsWhole = ok && !r.unchecked && meta.LastSeq == report.Kept && meta.Status != snapshot.StatusRunning
	if report.IsWhole {
		info.Status, info.Stop, info.Due = meta.Status, meta.Stop, meta.Due
	} else {
		info.Status, info.Stop, info.Due = snapshot.StatusInterrupted, lossStop(report.Lost), time.Time{}
	}
	info.Updated = storekit.TimeAfter(info.Updated)
	info.Generation = r.usedGeneration()
	if !ok {
		info.Generation = laterGeneration(info.Generation)
	}
	info.Generation = max(info.Generation, 1)
	run := *r.run
	run.Info = info
	if err := d.setAside(r, report); err != nil {
		return err
	}
	number := r.listing.newest() + 1
	if _, err := d.writeSnapshot(&run, number); err != nil {
		return err
	}
	if err := d.syncDirs(); err != nil {
		return err
	}
	if err := remove(d.disk, d.path(updateName)); err != nil { // the snapshot contains the update, unless it is damaged
		return err
	}
	if err := l.write(&header{closed: closedEnd{journal: number}, info: info}); err != nil {
		return err
	}
	d.removeCovered(number - 1)
	return nil
}

// lossStop explains why a run that has lost records does not continue by itself after its repair.
// If lost is 0, the number of lost records is unknown.
func lossStop(lost uint64) snapshot.Stop {
	records := "an unknown number of records"
	if lost == 1 {
		records = "1 record"
	} else if lost > 1 {
		records = fmt.Sprintf("%d records", lost)
	}
	return snapshot.Stop{
		Reason:  record.InterruptReplay,
		Message: "a repair has lost " + records + ": calls whose outcomes were lost are made again when the run continues, even those that must be made only once",
	}
}

// laterGeneration returns a number that is at least as high as that of any generation of a run, for
// use if the meta file cannot be used, which would contain the number of the last generation. The
// next generation gets a higher number. If a number were used twice, a follower that has read the
// lost records would take the new records for their continuation. The time in milliseconds is high
// enough, since no run is opened a thousand times per second.
func laterGeneration(known uint64) uint64 {
	return max(known, uint64(max(0, time.Now().UnixMilli())))
}

// setAside copies the damaged files, under unused names.
func (d *runDir) setAside(r *reading, report *RepairReport) error {
	slices.Sort(r.damaged)
	for _, file := range slices.Compact(r.damaged) {
		if file == metaName {
			continue // the meta file is undamaged; it only shows that something is missing elsewhere
		}
		name := filepath.Base(unusedName(d.path(file + ".damaged")))
		if err := d.copyFile(file, name); err != nil {
			return err
		}
		report.Damaged = append(report.Damaged, name)
	}
	slices.Sort(report.Damaged)
	return d.disk.SyncDir(d.path())
}

func (d *runDir) copyFile(from, to string) error {
	in, size, err := d.disk.Open(d.path(from))
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
