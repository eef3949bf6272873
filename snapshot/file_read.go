package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/reprise-go/reprise/core"
)

// CorruptError is a file of a run that is damaged: it does not hold what was
// written, and more was written after it. It is ErrCorrupt.
type CorruptError struct {
	RunID   string
	File    string // in the directory of the run
	Offset  int64  // where the damage begins
	LastSeq uint64 // of the last record before it
	Err     error  // what is wrong there
}

// Error says where the damage is.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("snapshot: run %s is damaged: %s, byte %d, after record %d: %v", e.RunID, e.File, e.Offset, e.LastSeq, e.Err)
}

// Unwrap returns ErrCorrupt and what is wrong.
func (e *CorruptError) Unwrap() []error { return []error{ErrCorrupt, e.Err} }

// TornTail is the end of a journal that was being written when its process or
// the power ended: no whole frame, and none after it. It was cut off. No Sync
// had returned for what was in it.
type TornTail struct {
	File   string // in the directory of the run
	Offset int64  // where it began
	Size   int64
}

// Error says what was cut off.
func (e *TornTail) Error() string {
	return fmt.Sprintf("snapshot: %d unfinished bytes at the end of %s, from byte %d, were cut off", e.Size, e.File, e.Offset)
}

var (
	errNoFrame      = errors.New("no frame, though whole ones follow")
	errNoHeader     = errors.New("no header")
	errSecondHeader = errors.New("a second header")
	errNoEnd        = errors.New("the snapshot has no end")
)

// files are the files of a run that hold records, as read.
type files struct {
	snapshot []byte   // nil if there is none
	journals []uint64 // by number
	data     [][]byte // of the journals
}

// A reading is what the files of a run say.
type reading struct {
	runID   string
	found   bool          // a run at all
	info    Info          // the latest there is
	newest  uint64        // the highest number that a journal has had
	records []frame       // in order
	compact int           // how many of them are in the snapshot
	torn    *TornTail     // the end of the last journal
	damage  *CorruptError // the first there is; its LastSeq is not known yet
	before  int           // how many frames of records come before the damage
	damaged []string      // all files that are

	snapshotSize int64
}

// A part is one file of a run, split into frames.
type part struct {
	name   string
	data   []byte
	head   header
	frames []frame
	torn   *gap  // its end is no frame
	damage *gap  // something before its end is none
	err    error // what is wrong with it
}

// read reads the files of a run; there need not be any. Damage is in the
// reading, not in the error.
func (s *FileStore) read(ctx context.Context, runID string) (*reading, error) {
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		before, err := s.journals(runID)
		if err != nil {
			return nil, fmt.Errorf("snapshot: read run %s: %w", runID, err)
		}
		in, err := s.readFiles(runID, before)
		if err == nil {
			// Whoever compacts makes the new file before it removes the old, but
			// a directory that changes while it is listed may show neither. So
			// it is listed again, now that what is new is there for certain.
			after, err := s.journals(runID)
			if err == nil && slices.Equal(before, after) {
				return interpret(runID, in)
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("snapshot: read run %s: %w", runID, err)
		}
		// A compaction came between. They come ever less often as the run
		// grows, so this ends.
	}
}

// journals lists the numbers of the journals of a run.
func (s *FileStore) journals(runID string) ([]uint64, error) {
	entries, err := os.ReadDir(s.run(runID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, e := range entries {
		if n, ok := journalNumber(e.Name()); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func journalNumber(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, "journal-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && name == fmt.Sprintf(journalName, n)
}

// readFiles reads while another may write. It reads the newest first: a
// journal gets its first record when all those before it have their last, so
// what is read of the older ones is never less than what goes before the
// records that were read already. The snapshot comes last; if a compaction
// has put it there meanwhile, it has what the journals had.
func (s *FileStore) readFiles(runID string, numbers []uint64) (files, error) {
	in := files{journals: numbers, data: make([][]byte, len(numbers))}
	for i, n := range slices.Backward(numbers) {
		data, err := os.ReadFile(s.run(runID, fmt.Sprintf(journalName, n)))
		if err != nil {
			return files{}, err
		}
		in.data[i] = data
	}
	data, err := os.ReadFile(s.run(runID, snapshotName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return files{}, err
	}
	in.snapshot = data
	return in, nil
}

// interpret says what the files hold. Its error is ErrFormat, or ErrCorrupt
// for the file of another run.
func interpret(runID string, in files) (*reading, error) {
	r := &reading{runID: runID, found: in.snapshot != nil || len(in.journals) > 0}
	var parts []part
	covers := uint64(0)
	if in.snapshot != nil {
		p, err := split(runID, snapshotName, in.snapshot)
		if err != nil {
			return nil, err
		}
		p.mustEnd()
		covers = p.head.Covers
		parts = append(parts, p)
		r.snapshotSize = int64(len(in.snapshot))
	}
	skipped := covers // journals up to this number
	for i, n := range in.journals {
		p, err := split(runID, fmt.Sprintf(journalName, n), in.data[i])
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
		skipped, r.newest = max(skipped, p.head.Covers), n
	}
	r.newest = max(r.newest, covers)
	first := len(parts) - len(in.journals) // of the journals
	for i, n := range slices.Backward(in.journals) {
		if n <= skipped {
			parts = slices.Delete(parts, first+i, first+i+1)
		}
	}
	for i := range parts {
		if err := r.add(&parts[i]); err != nil {
			return nil, err
		}
		if parts[i].name == snapshotName {
			r.compact = len(r.records)
		}
	}
	return r, nil
}

// split finds the frames of a file and reads its header, with errors like
// interpret.
func split(runID, name string, data []byte) (part, error) {
	p := part{name: name, data: data}
	all, first, whole := frames(name, data)
	p.frames = all
	switch {
	case len(all) == 0 || all[0].offset > 0 || all[0].kind != frameHeader:
		// The header was on the disk before the file got its name.
		p.damage, p.err = &gap{0, int64(len(data))}, errNoHeader
		return p, nil
	case whole:
		p.damage, p.err = first, errNoFrame
	default:
		p.torn = first
	}
	p.frames = all[1:]
	head, err := all[0].header()
	switch {
	case errors.Is(err, ErrFormat):
		return p, err
	case err != nil:
		p.damage, p.err, p.torn = &gap{0, int64(len(data))}, err, nil
		return p, nil
	case head.Info.RunID != runID:
		return p, &kindError{fmt.Sprintf("snapshot: run %s: %s is of run %s", runID, name, head.Info.RunID), ErrCorrupt}
	}
	p.head = head
	return p, nil
}

// mustEnd makes an end that is missing damage. A snapshot gets its name when
// all of it is on the disk.
func (p *part) mustEnd() {
	whole := len(p.frames) > 0 && p.frames[len(p.frames)-1].kind == frameEnd
	switch {
	case p.damage != nil:
	case p.torn != nil:
		p.damage, p.err, p.torn = p.torn, errNoEnd, nil
	case !whole:
		p.damage, p.err = &gap{int64(len(p.data)), 0}, errNoEnd
	}
}

// add takes over what a file holds. Its error is ErrFormat.
func (r *reading) add(p *part) error {
	// Of one generation, what came first is what it began with, and whatever
	// else is known of it is newer.
	if p.head.Format > 0 && (r.info.RunID == "" || p.head.Info.Generation > r.info.Generation) {
		r.info = p.head.Info
	}
	damaged := false
	for i := range p.frames {
		f := &p.frames[i]
		if p.damage != nil && !damaged && f.offset > p.damage.offset {
			r.isDamaged(p.name, p.damage.offset, p.err)
			damaged = true
		}
		switch f.kind {
		case frameRecords:
			if r.torn != nil {
				// A journal is on the disk to its end before the next one gets
				// a record.
				r.isDamaged(r.torn.File, r.torn.Offset, errNoFrame)
				r.torn = nil
			}
			r.records = append(r.records, *f)
		case frameEnd:
			info, err := f.end()
			if err != nil {
				r.isDamaged(p.name, f.offset, err)
				continue
			}
			r.info = info
		case frameHeader:
			r.isDamaged(p.name, f.offset, errSecondHeader)
		default:
			return &kindError{fmt.Sprintf("snapshot: run %s: %s, byte %d: frames of kind %d are not known to this version", r.runID, f.file, f.offset, f.kind), ErrFormat}
		}
	}
	if p.damage != nil && !damaged {
		r.isDamaged(p.name, p.damage.offset, p.err)
	}
	if p.torn != nil {
		r.torn = &TornTail{File: p.name, Offset: p.torn.offset, Size: p.torn.size}
	}
	return nil
}

func (r *reading) isDamaged(file string, offset int64, err error) {
	if !slices.Contains(r.damaged, file) {
		r.damaged = append(r.damaged, file)
	}
	if r.damage == nil {
		r.damage = &CorruptError{RunID: r.runID, File: file, Offset: offset, Err: err}
		r.before = len(r.records)
	}
}

// decode returns the records and completes info. Its error is a *CorruptError
// or ErrFormat.
func (r *reading) decode() ([]core.Record, error) {
	all := r.records
	if r.damage != nil {
		all = all[:r.before]
	}
	records, err := decodeFrames(all, r.runID)
	if err != nil || !isComplete(records) {
		// Slower, but it knows where.
		if records, err = r.decodeEach(all); err != nil {
			return nil, err
		}
	}
	last := uint64(len(records))
	if r.damage != nil {
		r.damage.LastSeq = last
		return nil, r.damage
	}
	r.info.LastSeq = last
	if last > 0 && records[last-1].Time.After(r.info.Updated) {
		r.info.Updated = records[last-1].Time
	}
	return records, nil
}

// isComplete reports whether the records have the numbers from 1.
func isComplete(records []core.Record) bool {
	for i := range records {
		if records[i].Seq != uint64(i)+1 {
			return false
		}
	}
	return true
}

func (r *reading) decodeEach(all []frame) (records []core.Record, err error) {
	for i := range all {
		f := &all[i]
		last := len(records)
		records, err = f.records(records, r.runID)
		for at := last; at < len(records) && err == nil; at++ {
			if seq := records[at].Seq; seq != uint64(at)+1 {
				err = fmt.Errorf("record %d follows record %d", seq, at)
			}
		}
		if errors.Is(err, ErrFormat) {
			return nil, fmt.Errorf("snapshot: run %s: %s, byte %d: %w", r.runID, f.file, f.offset, err)
		} else if err != nil {
			return nil, &CorruptError{RunID: r.runID, File: f.file, Offset: f.offset, LastSeq: uint64(last), Err: err}
		}
	}
	return records, nil
}

// decodeAlone is how many bytes of records one goroutine decodes alone.
const decodeAlone = 64 << 10

// decodeFrames decodes with all processors if it is worth it.
func decodeFrames(all []frame, runID string) ([]core.Record, error) {
	size := 0
	for i := range all {
		size += len(all[i].body)
	}
	workers := min(runtime.GOMAXPROCS(0), size/decodeAlone+1, len(all))
	if workers <= 1 {
		return decodeSome(all, 0, runID)
	}
	var (
		wait    sync.WaitGroup
		results = make([][]core.Record, workers)
		errs    = make([]error, workers)
	)
	for w, rest := 0, all; w < workers; w++ {
		n := 0
		for taken := 0; n < len(rest) && (taken <= size/workers || w == workers-1); n++ {
			taken += len(rest[n].body)
		}
		mine, room := rest[:n], 0
		if w == 0 {
			room = size // the others' go there too
		}
		rest = rest[n:]
		wait.Go(func() { results[w], errs[w] = decodeSome(mine, room, runID) })
	}
	wait.Wait()
	records := results[0]
	for _, more := range results[1:] {
		records = append(records, more...)
	}
	return records, errors.Join(errs...)
}

// decodeSome decodes frames and makes room for records of so many bytes, or
// for those of the frames.
func decodeSome(all []frame, room int, runID string) (records []core.Record, err error) {
	if room == 0 {
		for i := range all {
			room += len(all[i].body)
		}
	}
	d := newDecoding(migrations)
	defer d.release()
	done := 0
	for i := range all {
		records, err = all[i].decode(records, d, runID)
		if err != nil {
			return nil, err
		}
		done += len(all[i].body)
		if done > 0 && (len(records) == cap(records) || i == 0) {
			// As many as it will be if the others are like those so far.
			records = slices.Grow(records, int(float64(len(records))/float64(done)*float64(room-done)*1.05)+1)
		}
	}
	return records, nil
}
