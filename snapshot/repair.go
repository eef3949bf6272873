package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/reprise-go/reprise/core"
)

// RepairReport says what Repair did.
type RepairReport struct {
	RunID   string
	Kept    int           // the records that the run has now
	Lost    uint64        // how many more there were, as far as their numbers and what is known of the run tell
	Damage  *CorruptError // what was damaged first; nil if nothing was, and then nothing was done
	Damaged []string      // the damaged files, kept in the directory of the run
}

// Repair saves what can be read of a damaged run. The records that are whole
// become the run, in their order; those after a loss are numbered anew, for a
// run has no holes. What lost its outcome runs again when the run is resumed,
// also what was to happen only once: look at RepairReport.Lost before the run
// is opened. A run that lost records is interrupted, unless the record is left
// with which it ended; one that lost none is as it was, or interrupted if it
// was running.
//
// The damaged files stay beside the others, as *.damaged. A run that is not
// damaged is left as it is; one that is open is ErrLocked.
func Repair(dir, runID string, opts ...FileOption) (RepairReport, error) {
	s, err := NewFileStore(dir, opts...)
	if err != nil {
		return RepairReport{}, err
	}
	if err := CheckRunID(runID); err != nil {
		return RepairReport{}, err
	}
	ctx := context.Background()
	l, err := s.lock(ctx, runID, false, false)
	if err != nil {
		return RepairReport{}, err
	}
	defer l.release()
	r, err := s.read(ctx, runID)
	if err != nil {
		return RepairReport{}, err
	}
	if !r.found {
		return RepairReport{}, noRun(runID)
	}
	_, err = r.decode()
	report := RepairReport{RunID: runID}
	switch {
	case err == nil:
		report.Kept = int(r.info.LastSeq)
		return report, nil
	case !errors.As(err, &report.Damage):
		return report, err
	}
	if err := s.repair(r, &report); err != nil {
		return report, fmt.Errorf("snapshot: repair run %s: %w", runID, err)
	}
	return report, nil
}

// repair first copies the damaged files, then makes a snapshot of all that can
// be read, which covers every journal. Its renaming is the repair; whatever
// happens before leaves the run as damaged as it was.
func (s *FileStore) repair(r *reading, report *RepairReport) error {
	salvaged := r.salvage()
	info := s.latestInfo(r)
	last := info.LastSeq
	if n := len(salvaged); n > 0 {
		last = max(last, salvaged[n-1].Seq)
	}
	report.Kept, report.Lost = len(salvaged), last-uint64(len(salvaged))
	if report.Lost > 0 {
		info.Status = endOf(salvaged, last)
	}
	for i := range salvaged {
		salvaged[i].Seq = uint64(i) + 1
	}
	if err := s.setAside(r, report); err != nil {
		return err
	}
	w, err := createFrames(s.disk, s.run(r.runID, snapshotName))
	if err != nil {
		return err
	}
	if err := w.salvaged(r, salvaged, repairedInfo(info, salvaged)); err != nil {
		return w.abandon(err)
	}
	if err := w.file.Close(); err != nil {
		return w.abandon(err)
	}
	if err := w.rename(); err != nil {
		return w.abandon(err)
	}
	if err := s.disk.SyncDir(s.run(r.runID)); err != nil {
		return err
	}
	// What meta says of the run may be wrong now; without it, List looks.
	return remove(s.disk, s.run(r.runID, metaName))
}

// salvage returns the records of all whole frames, each number once.
func (r *reading) salvage() []core.Record {
	var all []core.Record
	last := uint64(0)
	for i := range r.records {
		records, _ := r.records[i].records(nil, r.runID) // those before an error
		for _, rec := range records {
			if rec.Seq > last {
				all = append(all, rec)
				last = rec.Seq
			}
		}
	}
	return all
}

// endOf is how a run ended by its own record of that, which only answers may
// follow up to the last number. Where that is lost, what the files say of the
// run is true no more.
func endOf(salvaged []core.Record, last uint64) Status {
	for _, rec := range slices.Backward(salvaged) {
		switch {
		case rec.Seq != last, rec.Kind != core.KindRun && rec.Kind != core.KindAnswer:
			return StatusInterrupted
		case rec.Kind == core.KindRun:
			return statusOf(rec.Status)
		}
		last--
	}
	return StatusInterrupted
}

func statusOf(end core.Status) Status {
	switch end {
	case core.StatusCompleted:
		return StatusCompleted
	case core.StatusFailed:
		return StatusFailed
	case core.StatusAwaiting:
		return StatusPaused
	}
	return StatusInterrupted
}

// setAside copies the damaged files under names that are free.
func (s *FileStore) setAside(r *reading, report *RepairReport) error {
	damaged := r.damaged
	if !slices.Contains(damaged, report.Damage.File) {
		damaged = append(damaged, report.Damage.File) // its frames are whole, but not what is in them
	}
	for _, file := range damaged {
		data, err := os.ReadFile(s.run(r.runID, file))
		if err != nil {
			return err
		}
		name := file + ".damaged"
		for n := 2; ; n++ {
			if _, err := os.Stat(s.run(r.runID, name)); errors.Is(err, fs.ErrNotExist) {
				break
			}
			name = fmt.Sprintf("%s.damaged.%d", file, n)
		}
		if err := writeSynced(s.disk, s.run(r.runID, name), data); err != nil {
			return err
		}
		report.Damaged = append(report.Damaged, name)
	}
	return s.disk.SyncDir(s.run(r.runID))
}

// latestInfo is what is known of the run: from the files themselves, or from
// meta if the header of the last one is lost. How many records there were is
// known from either.
func (s *FileStore) latestInfo(r *reading) Info {
	info := r.info
	if meta, err := s.meta(r.runID); err == nil {
		last := max(info.LastSeq, meta.LastSeq)
		if meta.Generation > info.Generation {
			info = meta
		}
		info.LastSeq = last
	}
	info.RunID = r.runID
	return info
}

// repairedInfo completes info from the records.
func repairedInfo(info Info, salvaged []core.Record) Info {
	if n := len(salvaged); n > 0 {
		if info.Created.IsZero() {
			info.Created = salvaged[0].Time
		}
		if last := salvaged[n-1].Time; last.After(info.Updated) {
			info.Updated = last
		}
	}
	if info.Created.IsZero() {
		info.Created = time.Now().UTC()
	}
	if info.Status == StatusRunning || info.Status == "" {
		info.Status = StatusInterrupted
	}
	info.Generation = max(info.Generation, 1)
	info.LastSeq = uint64(len(salvaged))
	return info
}

func (w *frameWriter) salvaged(r *reading, records []core.Record, info Info) error {
	w.frame(frameHeader, header{Format: FormatVersion, Covers: r.newest, Info: info})
	var body []byte
	for i := range records {
		var err error
		if body, err = AppendRecord(body[:0], &records[i]); err != nil {
			return err
		}
		w.records(body)
	}
	w.frame(frameEnd, info)
	return w.sync()
}
