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

// A Journal is a run of a [Store] that is open for writing.
type Journal struct {
	dir      *runDir
	lock     *fileLock
	restored *snapshot.Run
	torn     *TornTail
	info     snapshot.Info // of this generation

	stop      context.CancelFunc // of the inbox
	listening sync.WaitGroup
	notify    chan struct{}
	lost      chan struct{} // closed when the lock is found not to be that of the run any more

	closing  sync.Once
	closeErr error
	wait     sync.WaitGroup // for the compaction

	mu      sync.Mutex    // guards what follows
	changed chan struct{} // closed, and replaced, when syncing, synced or err changes
	err     error         // what broke it, or ErrClosed

	file      diskFile
	number    uint64 // of the journal
	size      int64  // of its frames
	allocated int64  // of the file: what is behind the frames is zeros
	buf       []byte // of the last Append, for the next
	appended  uint64 // the last number in the system's hands
	synced    uint64 // the last number on the disk
	syncedTo  int64  // how much of the file is on the disk
	syncing   bool   // a sync is under way, or the next journal begins
	hasSynced bool   // once at least in this generation

	oldest       uint64 // the first journal that is not in the snapshot
	sealed       int64  // the size of those before the one that is written to
	compacting   bool
	compactAt    int64 // the size of the journals that starts the next compaction
	snapshotSize int64
}

// Restored implements [snapshot.Journal].
func (j *Journal) Restored() *snapshot.Run { return j.restored }

// Notify implements [snapshot.Journal].
func (j *Journal) Notify() <-chan struct{} { return j.notify }

// Lost implements [snapshot.Journal]. The right to a run is lost when its directory is
// removed, moved or replaced.
func (j *Journal) Lost() <-chan struct{} { return j.lost }

// Torn is the end of the journal that was cut off when the run was opened;
// nil if it was whole.
func (j *Journal) Torn() *TornTail { return j.torn }

// What is allocated at a time: as much as there is, within these bounds. A
// short run takes little, and a long one is not held up often.
const (
	allocateLeast = 16 << 10
	allocateMost  = 4 << 20
)

// Append implements [snapshot.Journal]: one frame, by one write. Either all of
// the records are found when the run is loaded, or none.
//
// Once the run was synced, and so may be again, the write is to room that was
// allocated before: then a sync has to write the data alone and not the size of
// the file. Where the system cannot allocate, or has no more room for it, the
// file grows as it is written, as it does in runs that are short.
//
// Nothing is ever written after a write that failed: what it left is the torn
// end of the journal, which the next Open cuts off.
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
			return j.breaks(fmt.Errorf("snapshot: run %s: got record %d, want record %d", j.info.RunID, r.Seq, want))
		}
		var err error
		if buf, err = snapshot.AppendRecord(buf, r); err != nil {
			return j.breaks(fmt.Errorf("snapshot: run %s: %w", j.info.RunID, err))
		}
	}
	buf, err := endFrame(buf, 0, j.size, j.syncedTo)
	if err != nil {
		return j.breaks(err)
	}
	if err := j.write(buf); err != nil {
		return j.breaks(fmt.Errorf("snapshot: run %s: append record %d: %w", j.info.RunID, records[0].Seq, unavailable(err)))
	}
	j.appended = records[len(records)-1].Seq
	if cap(buf) <= maxBuffer {
		j.buf = buf
	}
	j.maybeCompact()
	return nil
}

// maxBuffer is how much of a buffer is kept for the next frame.
const maxBuffer = 1 << 20

// write writes a frame at the end. j.mu is held.
func (j *Journal) write(buf []byte) error {
	end := j.size + int64(len(buf))
	if end > j.allocated && j.hasSynced {
		more := min(max(j.size, allocateLeast), allocateMost)
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

// breaks makes err the end of the journal. j.mu is held.
func (j *Journal) breaks(err error) error {
	if j.err == nil {
		j.err = err
		j.signal()
		if errors.Is(err, snapshot.ErrFenced) {
			close(j.lost)
		}
	}
	return j.err
}

// signal wakes those who wait. j.mu is held.
func (j *Journal) signal() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// await waits for the next signal, or for ctx. j.mu is held, and released
// meanwhile.
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

// Sync implements [snapshot.Journal]. The first caller syncs for all who have
// appended by then; those who come meanwhile wait, and one of them syncs for
// all of them.
func (j *Journal) Sync(ctx context.Context, seq uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	seq = min(seq, j.appended)
	for {
		switch {
		case j.err != nil && (j.err != snapshot.ErrClosed || seq > j.synced): //nolint:errorlint // it is ours, never wrapped
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

// sync syncs what was appended. j.mu is held, and released meanwhile; nobody
// else syncs.
//
// A sync that failed ends the journal: the system reports a write that did not
// reach the disk once, and then takes the page for clean, so that a second
// sync would succeed and be a lie.
func (j *Journal) sync() {
	file, upTo, size := j.file, j.appended, j.size
	j.mu.Unlock()
	err := j.syncFile(file, upTo)
	j.mu.Lock()
	if err != nil {
		_ = j.breaks(err)
		return
	}
	j.synced, j.syncedTo, j.hasSynced = max(j.synced, upTo), size, true
}

// syncFile syncs the file that has the records up to seq. The lock is checked after the
// sync: records in a directory that nobody finds any more are not stored.
func (j *Journal) syncFile(file diskFile, seq uint64) error {
	if err := file.Sync(); err != nil {
		return fmt.Errorf("snapshot: run %s: sync record %d: the journal is in an unknown state; open the run again: %w",
			j.info.RunID, seq, unavailable(err))
	}
	return j.dir.mustHold(j.lock)
}

// Close implements [snapshot.Journal]. The status is in the journal, synced,
// before anything else is tried. If it cannot be, the run stays as it is and is
// an interrupted one; the lock is released in any case. Close also waits for a
// compaction that is under way; the end of ctx only spares it another one.
func (j *Journal) Close(ctx context.Context, end snapshot.End) error {
	j.closing.Do(func() {
		j.stop()
		j.listening.Wait()
		j.closeErr = j.close(ctx, end)
		isOurs := j.dir.mustHold(j.lock) == nil
		j.lock.release()
		if isOurs {
			j.dir.touchInbox()
		}
	})
	return j.closeErr
}

func (j *Journal) close(ctx context.Context, end snapshot.End) error {
	info, err := j.end(end)
	j.wait.Wait()      // after end, nothing begins to compact
	_ = j.file.Close() // it was synced, or is not trusted
	if err != nil {
		return err
	}
	// All of the run is on the disk now. What follows saves time to those who
	// read it, and lets them notice when something is lost.
	if size := j.sealed + j.size; size > j.dir.store.compactAtClose && size > j.snapshotSize/2 && ctx.Err() == nil {
		if err := j.compact(j.number, info); err != nil {
			j.dir.store.warn(info.RunID, err)
		}
	}
	_, err = j.dir.changeMeta(&info, func(meta *metaFile) (header, error) {
		return header{closed: closed{j.number, j.size}, info: meta.updates(info)}, nil
	})
	if err != nil {
		j.dir.store.warn(info.RunID, err)
	}
	return nil
}

// end appends the end of the generation, gives back the room that was not
// used, and syncs.
func (j *Journal) end(end snapshot.End) (snapshot.Info, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.syncing {
		_ = j.await(context.Background())
	}
	info := storekit.Closed(j.info, end)
	info.LastSeq = j.appended
	if j.err == nil {
		if err := j.dir.mustHold(j.lock); err != nil {
			_ = j.breaks(err)
		}
	}
	if j.err != nil {
		return info, j.err
	}
	buf, err := snapshot.AppendInfo(beginFrame(j.buf[:0], frameInfo), &info)
	if err != nil {
		return info, j.breaks(err)
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
		return info, j.breaks(fmt.Errorf("snapshot: close run %s: %w", info.RunID, unavailable(err)))
	}
	j.syncing = true
	j.sync()
	j.syncing = false
	if j.err != nil {
		return info, j.err
	}
	_ = j.breaks(snapshot.ErrClosed)
	return info, nil
}
