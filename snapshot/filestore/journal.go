package filestore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// A Journal is a run in a [Store] that is open for writing. Each opening begins a new generation of
// the run.
type Journal struct {
	dir      *runDir
	lock     *fileLock
	restored *snapshot.Run
	torn     *TornTail
	info     snapshot.Info // of this generation

	stop      context.CancelFunc // ends the goroutine that listen starts
	listening sync.WaitGroup
	notify    chan struct{}
	lost      chan struct{} // closed when the locked file is no longer the run's lock file

	closing  sync.Once
	closeErr error
	wait     sync.WaitGroup // for a running compaction

	mu      sync.Mutex    // guards the fields below
	changed chan struct{} // closed and replaced when syncing, synced or err changes
	err     error         // the error that broke the journal, or ErrClosed

	file      diskFile
	number    uint64 // number of the journal file
	size      int64  // total size of the frames in the file
	allocated int64  // size of the file, including the zeros that follow the frames
	buf       []byte // reused by the next Append
	appended  uint64 // number of the last record that was written to the file
	synced    uint64 // number of the last record that is known to be on the disk
	syncedTo  int64  // the file is known to be on the disk up to here
	syncing   bool   // a sync is running
	hasSynced bool   // a sync has succeeded in this generation

	oldest       uint64 // number of the first journal that is not part of the snapshot
	sealed       int64  // total size of the sealed journals that are not part of the snapshot
	compacting   bool
	compactAt    int64 // the next compaction starts when the journals are larger than this
	snapshotSize int64
}

// Restored implements [snapshot.Journal].
func (j *Journal) Restored() *snapshot.Run { return j.restored }

// Notify implements [snapshot.Journal].
func (j *Journal) Notify() <-chan struct{} { return j.notify }

// Lost implements [snapshot.Journal]. A journal loses its run when the run's directory is
// removed, moved or replaced.
func (j *Journal) Lost() <-chan struct{} { return j.lost }

// Torn returns the end of the journal that was cut off when the run was opened, or nil if nothing was
// cut off.
func (j *Journal) Torn() *TornTail { return j.torn }

// When a journal has used up its allocated space, it is extended by its own size, within these
// bounds. So a short journal takes little space, and a long one is rarely extended.
const (
	minAllocation = 16 << 10
	maxAllocation = 4 << 20
)

// Append implements [snapshot.Journal]. It writes the records as one frame, with one write, so that
// Load returns either all of them or none.
//
// A run that was synced once will probably be synced again. Therefore, after the first sync, Append
// allocates space in advance: a later sync then writes only the data, and not a new file size. If
// the system cannot allocate space, or the run was not synced, the file grows with each write.
//
// After a write has failed, nothing more is written. The failed write may have left a torn end,
// which the next Open cuts off.
func (j *Journal) Append(records ...record.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil || len(records) == 0 {
		return j.err
	}
	buf := beginFrame(j.buf[:0], frameRecords)
	for i := range records {
		r := &records[i]
		if want := j.appended + 1 + uint64(i); r.Seq != want {
			return j.fail(fmt.Errorf("snapshot: run %s: got record %d, want record %d", j.info.RunID, r.Seq, want))
		}
		var err error
		if buf, err = snapshot.AppendRecord(buf, r); err != nil {
			return j.fail(fmt.Errorf("snapshot: run %s: %w", j.info.RunID, err))
		}
	}
	buf, err := endFrame(buf, 0, j.size, j.syncedTo)
	if err != nil {
		return j.fail(err)
	}
	if err := j.write(buf); err != nil {
		return j.fail(fmt.Errorf("snapshot: run %s: append record %d: %w", j.info.RunID, records[0].Seq, unavailable(err)))
	}
	j.appended = records[len(records)-1].Seq
	if cap(buf) <= maxBuffer {
		j.buf = buf
	}
	j.maybeCompact()
	return nil
}

// maxBuffer is the maximum capacity of a buffer that is kept for the next frame.
const maxBuffer = 1 << 20

// write writes a frame after the last one. The caller holds j.mu.
func (j *Journal) write(buf []byte) error {
	end := j.size + int64(len(buf))
	if end > j.allocated && j.hasSynced {
		more := min(max(j.size, minAllocation), maxAllocation)
		if need := end - j.allocated; more < need {
			more = need
		}
		if j.file.Allocate(j.allocated, more) == nil {
			j.allocated += more
		}
	}
	if err := writeAt(j.file, buf, j.size); err != nil {
		return err
	}
	j.size = end
	j.allocated = max(j.allocated, end)
	return nil
}

// fail breaks the journal with err, unless the journal is already broken. It returns the error that
// broke the journal. The caller holds j.mu.
func (j *Journal) fail(err error) error {
	if j.err == nil {
		j.err = err
		j.signal()
		if errors.Is(err, snapshot.ErrFenced) {
			close(j.lost)
		}
	}
	return j.err
}

// signal wakes all goroutines that wait in await. The caller holds j.mu.
func (j *Journal) signal() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// await waits until the next signal, or until ctx ends. The caller holds j.mu, which await unlocks
// while it waits.
func (j *Journal) await(ctx context.Context) error {
	changed := j.changed
	j.mu.Unlock()
	defer j.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Sync implements [snapshot.Journal]. The first caller syncs everything that has been appended so
// far. Callers that arrive in the meantime wait; then one of them syncs on behalf of them all.
func (j *Journal) Sync(ctx context.Context, seq uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	seq = min(seq, j.appended)
	for {
		switch {
		case j.err != nil && (j.err != snapshot.ErrClosed || seq > j.synced): //nolint:errorlint // this package never wraps it
			return j.err
		case seq <= j.synced:
			return nil
		case !j.syncing:
			j.syncing = true
			j.sync()
			j.syncing = false
			j.signal()
		default:
			if err := j.await(ctx); err != nil {
				return err
			}
		}
	}
}

// sync syncs all records that were appended. The caller has set j.syncing and holds j.mu, which
// sync unlocks while the file is synced.
//
// A failed sync breaks the journal, and is not repeated. If a write does not reach the disk, the
// operating system reports this only once and then treats the page as clean. A second sync would
// therefore succeed although the data is not on the disk.
func (j *Journal) sync() {
	file, upTo, size := j.file, j.appended, j.size
	j.mu.Unlock()
	err := j.syncFile(file, upTo)
	j.mu.Lock()
	if err != nil {
		_ = j.fail(err)
		return
	}
	j.synced, j.syncedTo, j.hasSynced = max(j.synced, upTo), size, true
}

// syncFile syncs the file that contains the records up to seq. It then checks the lock, because
// records do not count as stored if the run's directory has been removed, moved or replaced.
func (j *Journal) syncFile(file diskFile, seq uint64) error {
	if err := file.Sync(); err != nil {
		return fmt.Errorf("snapshot: run %s: sync record %d: the journal is in an unknown state; open the run again: %w",
			j.info.RunID, seq, unavailable(err))
	}
	return j.dir.checkHeld(j.lock)
}

// Close implements [snapshot.Journal]. It first writes the status to the journal and syncs the
// journal. If that fails, the run counts as interrupted. Close always releases the lock. It waits
// for a running compaction, but does not start another one after ctx has ended.
func (j *Journal) Close(ctx context.Context, end snapshot.End) error {
	j.closing.Do(func() {
		j.stop()
		j.listening.Wait()
		j.closeErr = j.close(ctx, end)
		isOurs := j.dir.checkHeld(j.lock) == nil
		j.lock.release()
		if isOurs {
			j.dir.touchInbox()
		}
		j.dir.store.index.change(j.dir.runID)
	})
	return j.closeErr
}

func (j *Journal) close(ctx context.Context, end snapshot.End) error {
	info, err := j.end(end)
	j.wait.Wait()      // no compaction begins after j.end
	_ = j.file.Close() // the file was synced, or nothing relies on it
	if err != nil {
		return err
	}
	// The run is durable now. The rest saves time for readers, and lets them notice lost data.
	last := closedEnd{j.number, j.size}
	if size := j.sealed + j.size; size > j.dir.store.compactAtClose && size > j.snapshotSize/2 && ctx.Err() == nil {
		if err := j.compact(j.number, info); err != nil {
			j.dir.store.warn(info.RunID, err)
		} else {
			last.end = 0
		}
	}
	if err := j.dir.writeClosedMeta(info, last); err != nil {
		j.dir.store.warn(info.RunID, err)
	}
	return nil
}

// end appends the end of the generation, frees allocated space that was not used, and syncs.
func (j *Journal) end(end snapshot.End) (snapshot.Info, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.syncing {
		_ = j.await(context.Background())
	}
	info := storekit.ClosedInfo(j.info, end)
	info.LastSeq = j.appended
	if j.err == nil {
		if err := j.dir.checkHeld(j.lock); err != nil {
			_ = j.fail(err)
		}
	}
	if j.err != nil {
		return info, j.err
	}
	buf, err := snapshot.AppendInfo(beginFrame(j.buf[:0], frameInfo), &info)
	if err != nil {
		return info, j.fail(err)
	}
	if buf, err = endFrame(buf, 0, j.size, j.syncedTo); err == nil {
		err = j.write(buf)
	}
	if used := wholeBlocks(j.size); err == nil && j.allocated > used {
		if err = j.file.Truncate(used); err == nil {
			j.allocated = used
		}
	}
	if err != nil {
		return info, j.fail(fmt.Errorf("snapshot: close run %s: %w", info.RunID, unavailable(err)))
	}
	j.syncing = true
	j.sync()
	j.syncing = false
	if j.err != nil {
		return info, j.err
	}
	_ = j.fail(snapshot.ErrClosed)
	return info, nil
}
