package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
)

// A FileJournal is a run of a [FileStore] that is open for writing.
type FileJournal struct {
	store    *FileStore
	lock     *fileLock
	restored *Lazy
	decoding sync.Once
	decoded  *Snapshot // restored, once somebody asked for it
	torn     *TornTail
	info     Info // of this generation

	closing  sync.Once
	closeErr error
	wait     sync.WaitGroup // for the compaction

	mu   sync.Mutex
	cond sync.Cond // syncing, synced or err changed
	err  error     // what broke it, or ErrClosed

	file     diskFile
	number   uint64 // of the journal
	size     int64
	buf      []byte    // of the last Append, for the next
	appended uint64    // the last number in the system's hands
	synced   uint64    // the last number on the disk
	updated  time.Time // of the generation or its last record
	syncing  bool      // somebody syncs, or goes on to the next journal

	oldest       uint64 // the first journal that is not in the snapshot
	sealed       int64  // the size of those before the one that is written to
	compacting   bool
	compactAt    int64 // the size of the journals that starts the next compaction
	snapshotSize int64
}

// Restored implements [Journal]. It shares its records with whoever calls it.
func (j *FileJournal) Restored() *Snapshot {
	j.decoding.Do(func() {
		var err error
		if j.decoded, err = j.restored.Snapshot(); err != nil { // what was checked when it was opened
			j.mu.Lock()
			defer j.mu.Unlock()
			_ = j.breaks(err)
		}
	})
	return j.decoded
}

// RestoredLazy implements [LazyJournal].
func (j *FileJournal) RestoredLazy() *Lazy { return j.restored }

// Torn is the end of the journal that was cut off when the run was opened;
// nil if it was whole.
func (j *FileJournal) Torn() *TornTail { return j.torn }

// begin writes the journal of the new generation. It takes over all that the
// snapshot does not have: the old journals are read for the last time here,
// also one whose end a crash has torn, or whose last fsync failed, so that
// nobody knows which of what the system shows for it is on the disk. Now it
// is written again and synced before anybody builds on it.
//
// The journal becomes valid by its renaming, and with it the old ones become
// invalid, for its header covers them. Before that the run is as it was;
// after it, whether the old journals are still there makes no difference.
//
// The meta file says that the run is running before a record can be promised.
// If it says so too early, whoever lists the run finds that nobody has it and
// looks closer.
func (j *FileJournal) begin(r *reading) error {
	s, id := j.store, j.info.RunID
	j.cond.L = &j.mu
	j.number = r.newest + 1
	j.oldest = j.number
	j.snapshotSize = r.snapshotSize
	j.info.LastSeq = uint64(j.restored.Len())
	j.appended, j.synced = j.info.LastSeq, j.info.LastSeq
	j.updated = j.info.Updated
	j.removeLeftovers()

	w, err := j.createJournal(j.number, j.number-1)
	if err != nil {
		return err
	}
	for i := range r.records[r.compact:] {
		w.records(r.records[r.compact+i].body)
	}
	if err := w.sync(); err != nil {
		return w.abandon(err)
	}
	if err := j.writeMeta(j.info, true); err != nil {
		return w.abandon(err)
	}
	if err := w.rename(); err != nil {
		return w.abandon(err)
	}
	if err := s.disk.SyncDir(s.run(id)); err != nil {
		return w.abandon(err)
	}
	if !r.found {
		if err := s.disk.SyncDir(s.path("runs")); err != nil {
			return w.abandon(err)
		}
	}
	j.file, j.size = w.file, w.size
	j.compactAt = max(s.compactFrom, 2*j.snapshotSize)
	j.removeJournals(j.number - 1)
	return nil
}

// removeLeftovers removes what a crash has left of files that were not
// finished.
func (j *FileJournal) removeLeftovers() {
	dir := j.store.run(j.info.RunID)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if filepath.Ext(e.Name()) == tmpSuffix {
			_ = remove(j.store.disk, filepath.Join(dir, e.Name()))
		}
	}
}

// removeJournals removes those up to a number, which another file covers.
// What stays is passed over by readers and removed the next time.
func (j *FileJournal) removeJournals(upTo uint64) {
	numbers, _ := j.store.journals(j.info.RunID)
	for _, n := range numbers {
		if n <= upTo {
			_ = remove(j.store.disk, j.path(fmt.Sprintf(journalName, n)))
		}
	}
}

func (j *FileJournal) path(name string) string { return j.store.run(j.info.RunID, name) }

// createJournal begins the file of a journal, under a temporary name.
func (j *FileJournal) createJournal(number, covers uint64) (*frameWriter, error) {
	w, err := createFrames(j.store.disk, j.path(fmt.Sprintf(journalName, number)))
	if err != nil {
		return nil, err
	}
	w.frame(frameHeader, header{Format: FormatVersion, Covers: covers, Info: j.info})
	return w, nil
}

// writeMeta writes the meta file, which is only for List. One that is not
// synced may be an empty file after the power was cut, which List sees.
func (j *FileJournal) writeMeta(info Info, sync bool) error {
	w, err := createFrames(j.store.disk, j.path(metaName))
	if err != nil {
		return err
	}
	w.frame(frameHeader, header{Format: FormatVersion, Info: info})
	flush := w.flush
	if sync {
		flush = w.sync
	}
	if err := flush(); err != nil {
		return w.abandon(err)
	}
	if err := w.rename(); err != nil {
		return w.abandon(err)
	}
	return w.file.Close()
}

// Append implements [Journal]: one frame, by one write. Either all of the
// records are found when the run is loaded, or none.
//
// Nothing is ever written after a write that failed: what it left is the torn
// end of the journal, which the next Open cuts off.
func (j *FileJournal) Append(records ...core.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil || len(records) == 0 {
		return j.err
	}
	buf := beginFrame(j.buf[:0], frameRecords)
	for i := range records {
		r := &records[i]
		if want := j.appended + 1 + uint64(i); r.Seq != want {
			return j.breaks(outOfOrder(j.info.RunID, r.Seq, want))
		}
		var err error
		if buf, err = AppendRecord(buf, r); err != nil {
			return j.breaks(fmt.Errorf("snapshot: run %s: %w", j.info.RunID, err))
		}
	}
	buf, err := endFrame(buf, 0, j.size)
	if err != nil {
		return j.breaks(err)
	}
	if err := write(j.file, buf); err != nil {
		return j.breaks(fmt.Errorf("snapshot: run %s: append record %d: %w", j.info.RunID, records[0].Seq, err))
	}
	j.size += int64(len(buf))
	last := &records[len(records)-1]
	j.appended = last.Seq
	if last.Time.After(j.updated) {
		j.updated = last.Time
	}
	if cap(buf) <= maxBuffer {
		j.buf = buf
	}
	j.maybeCompact()
	return nil
}

// maxBuffer is how much of a buffer is kept for the next frame.
const maxBuffer = 1 << 20

// breaks makes err the end of the journal. j.mu is held.
func (j *FileJournal) breaks(err error) error {
	if j.err == nil {
		j.err = err
		j.cond.Broadcast()
	}
	return j.err
}

// Sync implements [Journal]. The first to come syncs for all who have
// appended by then; those who come meanwhile wait, and one of them syncs for
// all of them.
func (j *FileJournal) Sync(seq uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	seq = min(seq, j.appended)
	for {
		switch {
		case j.err != nil && (j.err != ErrClosed || seq > j.synced): //nolint:errorlint // it is ours, never wrapped
			return j.err
		case seq <= j.synced:
			return nil
		case !j.syncing:
			j.syncing = true
			file, upTo := j.file, j.appended
			j.mu.Unlock()
			err := file.Sync()
			j.mu.Lock()
			j.syncing = false
			j.didSync(upTo, err)
		default:
			j.cond.Wait()
		}
	}
}

// didSync says how a sync ended. One that failed ends the journal: the system
// reports a write that did not reach the disk once, and then takes the page
// for clean, so that a second fsync would succeed and be a lie.
func (j *FileJournal) didSync(upTo uint64, err error) {
	if err != nil {
		_ = j.breaks(fmt.Errorf("snapshot: run %s: sync record %d: what is on the disk is not known any more, open the run again: %w",
			j.info.RunID, upTo, err))
		return
	}
	j.synced = max(j.synced, upTo)
	j.cond.Broadcast()
}

// Close implements [Journal]. The status is in the journal, synced, before
// anything else is tried. If it cannot be, the run stays as it is and is an
// interrupted one; the lock is let go in any case. Close also waits for a
// compaction that is under way.
func (j *FileJournal) Close(status Status) error {
	j.closing.Do(func() {
		j.closeErr = j.close(status)
		j.lock.release()
		j.store.poke(j.info.RunID)
	})
	return j.closeErr
}

func (j *FileJournal) close(status Status) error {
	info, err := j.end(status)
	j.wait.Wait()      // after end, nothing begins to compact
	_ = j.file.Close() // it was synced, or is not trusted
	if err != nil {
		return err
	}
	// All of the run is on the disk now. What follows saves time to those who
	// read it.
	if j.sealed+j.size > j.snapshotSize/2 {
		if err := j.compact(j.number, info); err != nil {
			j.store.warn(info.RunID, err)
		}
	}
	if err := j.writeMeta(info, false); err != nil {
		j.store.warn(info.RunID, fmt.Errorf("snapshot: run %s: %w", info.RunID, err))
	}
	return nil
}

// end appends the end of the generation, and syncs.
func (j *FileJournal) end(status Status) (Info, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.syncing {
		j.cond.Wait()
	}
	info := j.info
	info.Status, info.LastSeq, info.Updated = status, j.appended, time.Now().UTC()
	if j.updated.After(info.Updated) {
		info.Updated = j.updated
	}
	if j.err != nil {
		return info, j.err
	}
	buf, err := appendFrame(j.buf[:0], j.size, frameEnd, info)
	if err == nil {
		err = write(j.file, buf)
	}
	if err != nil {
		return info, j.breaks(fmt.Errorf("snapshot: close run %s: %w", info.RunID, err))
	}
	j.size += int64(len(buf))
	j.didSync(j.appended, j.file.Sync())
	if j.err != nil {
		return info, j.err
	}
	_ = j.breaks(ErrClosed)
	return info, nil
}

// A frameWriter writes a file of frames under a temporary name.
type frameWriter struct {
	disk disk
	name string
	file diskFile
	size int64 // of what was written
	buf  []byte
	open int // where in buf the frame of records begins that is not full; -1 if there is none
	err  error
}

// frameSize is from where on a frame that is put together is full.
const frameSize = 128 << 10

func createFrames(d disk, name string) (*frameWriter, error) {
	f, err := d.Create(name + tmpSuffix)
	if err != nil {
		return nil, err
	}
	return &frameWriter{disk: d, name: name, file: f, open: -1}, nil
}

// frame adds a frame with the msgpack of v.
func (w *frameWriter) frame(k frameKind, v any) {
	w.fill()
	if w.err == nil {
		w.buf, w.err = appendFrame(w.buf, w.size+int64(len(w.buf)), k, v)
	}
}

// records adds the body of a frame of records. Few become one frame: the file
// is valid as a whole or not at all.
func (w *frameWriter) records(body []byte) {
	if w.open < 0 {
		w.open = len(w.buf)
		w.buf = beginFrame(w.buf, frameRecords)
	}
	w.buf = append(w.buf, body...)
	if len(w.buf)-w.open >= frameSize {
		w.err = w.flush()
	}
}

// fill completes the frame of records.
func (w *frameWriter) fill() {
	if w.open >= 0 && w.err == nil {
		w.buf, w.err = endFrame(w.buf, w.open, w.size+int64(w.open))
		w.open = -1
	}
}

// flush writes what was added.
func (w *frameWriter) flush() error {
	w.fill()
	if w.err == nil && len(w.buf) > 0 {
		w.err = write(w.file, w.buf)
		w.size += int64(len(w.buf))
		w.buf = w.buf[:0]
	}
	return w.err
}

// sync writes what was added and makes it survive the power.
func (w *frameWriter) sync() error {
	if err := w.flush(); err != nil {
		return err
	}
	w.err = w.file.Sync()
	return w.err
}

// rename gives the file its name, which survives the power with the next
// SyncDir.
func (w *frameWriter) rename() error { return w.disk.Rename(w.name+tmpSuffix, w.name) }

// abandon gives the file up because of err, which it returns.
func (w *frameWriter) abandon(err error) error {
	_ = w.file.Close()
	if removed := remove(w.disk, w.name+tmpSuffix); removed != nil {
		return fmt.Errorf("%w; %w", err, removed)
	}
	return err
}
