package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// A Journal is a run of a [Store] that is open for writing.
type Journal struct {
	store    *Store
	lock     *fileLock
	restored *snapshot.Run
	torn     *TornTail
	info     snapshot.Info // of this generation

	stop      context.CancelFunc // of the inbox
	listening sync.WaitGroup
	notify    chan struct{}

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

// Lost implements [snapshot.Journal]: it is nil, for a lock is not lost.
func (j *Journal) Lost() <-chan struct{} { return nil }

// Torn is the end of the journal that was cut off when the run was opened;
// nil if it was whole.
func (j *Journal) Torn() *TornTail { return j.torn }

// begin writes the journal of the new generation. It takes over all that the
// snapshot does not have: the old journals are read for the last time here,
// also one whose end a crash has torn, or whose last sync failed, so that
// nobody knows which of what the system shows for it is on the disk. Now it
// is written again and synced before anybody builds on it.
//
// The journal becomes valid by its renaming, and with it the old ones become
// invalid, for its header covers them. Before that the run is as it was;
// after it, whether the old journals are still there makes no difference.
//
// The meta file says that the run is running before the journal has its name,
// so that List looks closer. If it says so too early, the run is found as it
// was. That of a new run comes after the journal: a run with a meta file has
// had a journal.
func (j *Journal) begin(r *reading) error {
	s, id := j.store, j.info.RunID
	j.changed, j.notify = make(chan struct{}), make(chan struct{}, 1)
	j.number = r.newest + 1
	j.oldest = j.number
	j.snapshotSize = r.snapshotSize
	j.info.LastSeq = uint64(r.run.Len())
	j.appended, j.synced = j.info.LastSeq, j.info.LastSeq
	if r.unfinished {
		s.removeLeftovers(id)
	}
	if r.last != nil {
		return j.goOn(r)
	}
	w, err := j.createJournal(j.number, j.number-1)
	if err != nil {
		return err
	}
	for seq := r.compacted + 1; seq <= j.info.LastSeq; seq++ {
		w.record(r.run.Encoded(seq))
	}
	if err := w.sync(); err != nil {
		return w.abandon(err)
	}
	if r.found {
		if err := j.running(&r.recorded); err != nil {
			return w.abandon(err)
		}
	}
	if err := w.rename(); err != nil {
		return w.abandon(err)
	}
	if err := s.syncDirs(id); err != nil {
		return w.abandon(err)
	}
	if !r.found {
		if err := j.running(&j.info); err != nil {
			return w.abandon(err)
		}
	}
	j.file, j.size, j.allocated, j.syncedTo = w.file, w.size, w.allocated, w.size
	j.compactAt = max(s.compactFrom, 2*j.snapshotSize)
	if r.covered {
		s.removeCovered(id, j.number-1)
	}
	return nil
}

// goOn begins the generation in the journal of the one before, which is on the
// disk as it was read: a frame says so, and nothing gets another name. If that
// fails, the frame is cut off, and the next Open writes another journal, because
// the meta file does not say any more where this one ends.
func (j *Journal) goOn(r *reading) error {
	s, id := j.store, j.info.RunID
	j.number = r.newest
	j.oldest = j.number
	f, err := s.disk.OpenToWrite(s.run(id, journalName(j.number)))
	if err != nil {
		return unavailable(err)
	}
	j.file, j.size, j.allocated, j.syncedTo = f, r.last.end, r.last.size, r.last.end
	if err := j.beginAtEnd(&r.recorded); err != nil {
		_ = f.Truncate(r.last.end)
		_ = f.Close()
		return unavailable(err)
	}
	j.compactAt = max(s.compactFrom, 2*j.snapshotSize)
	if r.hasCovered() {
		s.removeCovered(id, j.number-1)
	}
	return nil
}

// beginAtEnd appends the frame that begins the generation, and syncs.
func (j *Journal) beginAtEnd(recorded *snapshot.Info) error {
	if err := j.running(recorded); err != nil {
		return err
	}
	buf, err := snapshot.AppendInfo(beginFrame(nil, frameInfo), &j.info)
	if err != nil {
		return err
	}
	if buf, err = endFrame(buf, 0, j.size, j.syncedTo); err != nil {
		return err
	}
	if err := j.write(buf); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.syncedTo, j.buf = j.size, buf
	return nil
}

// running has the meta file say that the generation runs. Recorded is what is on
// the disk without it.
func (j *Journal) running(recorded *snapshot.Info) error {
	info, err := j.store.changeMeta(j.info.RunID, recorded, func(meta *metaFile) (header, error) {
		return header{pid: os.Getpid(), info: meta.updates(j.info)}, nil
	})
	if err == nil {
		j.info = info
	}
	return err
}

// updates is info with what Update may have changed since.
func (m *metaFile) updates(info snapshot.Info) snapshot.Info {
	if m.ok {
		return withUpdates(info, &m.info)
	}
	return info
}

// withUpdates is info with what Update changes at any time.
func withUpdates(info snapshot.Info, meta *snapshot.Info) snapshot.Info {
	info.Metadata, info.Pinned, info.Expires = meta.Metadata, meta.Pinned, meta.Expires
	return info
}

// removeLeftovers removes what a crash has left of files that were not
// finished. The run is locked, and here also those who write the meta file are: what
// they have not finished is none of a crash.
func (s *Store) removeLeftovers(runID string) {
	l, err := s.updateLock(context.Background(), runID)
	if err != nil {
		return
	}
	defer l.release()
	entries, _ := s.disk.ReadDir(s.run(runID))
	for _, e := range entries {
		if filepath.Ext(e.Name()) == tmpSuffix {
			_ = remove(s.disk, s.run(runID, e.Name()))
		}
	}
}

// removeCovered removes the journals up to a number, which another file
// covers, and all snapshots but the newest. What stays is passed over by
// readers and removed the next time.
func (s *Store) removeCovered(runID string, upTo uint64) {
	l, err := s.listing(runID)
	if err != nil {
		return
	}
	for _, n := range l.journals {
		if n <= upTo {
			_ = remove(s.disk, s.run(runID, journalName(n)))
		}
	}
	for i, n := range l.snapshots {
		if i < len(l.snapshots)-1 {
			_ = remove(s.disk, s.run(runID, snapshotName(n)))
		}
	}
}

// createJournal begins the file of a journal, under a temporary name.
func (j *Journal) createJournal(number, covers uint64) (*frameWriter, error) {
	j.mu.Lock()
	h := header{covers: covers, carried: j.appended, info: j.info}
	j.mu.Unlock()
	if number != j.oldest {
		h.carried = 0 // the records are in the journals before it
	}
	return createFrames(j.store.disk, j.store.run(j.info.RunID, journalName(number)), &h)
}

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
	err := file.Sync()
	j.mu.Lock()
	if err != nil {
		_ = j.breaks(fmt.Errorf("snapshot: run %s: sync record %d: what is on the disk is not known any more, open the run again: %w",
			j.info.RunID, upTo, unavailable(err)))
		return
	}
	j.synced, j.syncedTo, j.hasSynced = max(j.synced, upTo), size, true
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
		j.lock.release()
		j.store.touchInbox(j.info.RunID)
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
	if size := j.sealed + j.size; size > j.store.compactAtClose && size > j.snapshotSize/2 && ctx.Err() == nil {
		if err := j.compact(j.number, info); err != nil {
			j.store.warn(info.RunID, err)
		}
	}
	_, err = j.store.changeMeta(info.RunID, &info, func(meta *metaFile) (header, error) {
		return header{closed: closed{j.number, j.size}, info: meta.updates(info)}, nil
	})
	if err != nil {
		j.store.warn(info.RunID, err)
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

// A frameWriter writes a file of frames, mostly under a temporary name.
type frameWriter struct {
	disk      disk
	name      string
	file      diskFile
	size      int64 // of what was written
	allocated int64 // of the file, once it was synced: zeros follow the frames
	buf       []byte
	open      int  // where in buf the frame of records begins that is not full; -1 if there is none
	torn      bool // the file has its name from the beginning, and a crash may leave a part of it
	err       error
}

// frameSize is from where on a frame that is put together is full.
const frameSize = 128 << 10

func createFrames(d disk, name string, h *header) (*frameWriter, error) {
	f, err := d.Create(name + tmpSuffix)
	if err != nil {
		return nil, err
	}
	return newFrameWriter(d, name, f, h), nil
}

// createNamed is createFrames for a file that has its name from the beginning.
func createNamed(d disk, name string, h *header) (*frameWriter, error) {
	f, err := d.Create(name)
	if err != nil {
		return nil, err
	}
	w := newFrameWriter(d, name, f, h)
	w.torn = true
	return w, nil
}

func newFrameWriter(d disk, name string, f diskFile, h *header) *frameWriter {
	w := &frameWriter{disk: d, name: name, file: f, open: -1}
	w.buf, w.err = appendHeader(w.buf, h)
	return w
}

// record adds an encoded record. Few become one frame: the file is valid as a
// whole or not at all.
func (w *frameWriter) record(encoded []byte) {
	if w.open < 0 {
		w.open = len(w.buf)
		w.buf = beginFrame(w.buf, frameRecords)
	}
	w.buf = append(w.buf, encoded...)
	if len(w.buf)-w.open >= frameSize {
		w.endFrame()
		w.write()
	}
}

// endFrame ends the frame that is not full.
func (w *frameWriter) endFrame() {
	if w.open >= 0 && w.err == nil {
		at := w.size + int64(w.open)
		synced := at
		if w.torn {
			synced = 0
		}
		w.buf, w.err = endFrame(w.buf, w.open, at, synced)
		w.open = -1
	}
}

// write writes what was added.
func (w *frameWriter) write() {
	if w.err == nil && len(w.buf) > 0 {
		w.err = writeAt(w.file, w.buf, w.size)
		w.size += int64(len(w.buf))
		w.buf = w.buf[:0]
	}
}

// sync writes what was added, durably. The file is filled with zeros to the end
// of its block, and a frame that is written there later is cheaper to sync: it
// changes neither the size of the file nor the blocks it has.
func (w *frameWriter) sync() error {
	w.endFrame()
	used := w.size + int64(len(w.buf))
	w.allocated = wholeBlocks(used)
	w.buf = append(w.buf, make([]byte, w.allocated-used)...)
	w.write()
	if w.size = used; w.err == nil {
		w.err = w.file.Sync()
	}
	return w.err
}

// wholeBlocks is how long a file of that size is in whole blocks.
func wholeBlocks(size int64) int64 {
	const block = 4 << 10
	return (size + block - 1) / block * block
}

// rename gives the file its name, which is durable after the next SyncDir.
func (w *frameWriter) rename() error { return w.disk.Rename(w.name+tmpSuffix, w.name) }

// abandon closes the file and removes it, if it has no name yet, because of
// err, which it returns.
func (w *frameWriter) abandon(err error) error {
	_ = w.file.Close()
	if w.torn {
		return unavailable(errors.Join(err, remove(w.disk, w.name)))
	}
	if removed := remove(w.disk, w.name+tmpSuffix); removed != nil {
		err = errors.Join(err, removed)
	}
	return unavailable(err)
}
