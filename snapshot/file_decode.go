package snapshot

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
)

// decode returns the records and completes info. Its error is a *CorruptError
// or ErrFormat.
func (r *reading) decode() ([]core.Record, error) {
	frames := r.undamaged()
	parts, err := spread(frames, func(some []frame, room int) ([]core.Record, error) {
		return decodeSome(some, room, r.runID)
	})
	var records []core.Record
	if err == nil {
		records = parts[0]
		for _, more := range parts[1:] {
			records = append(records, more...)
		}
	}
	if err != nil || checkSequence(records) != nil {
		// Slower, but it knows where.
		if records, err = r.decodeEach(frames); err != nil {
			return nil, err
		}
	}
	if err := r.complete(uint64(len(records)), timeOfLast(records)); err != nil {
		return nil, err
	}
	return records, nil
}

// index is decode for those who want few of the records: all are checked and
// none is kept.
func (r *reading) index() (*Lazy, error) {
	frames := r.undamaged()
	parts, err := spread(frames, indexSome)
	all := span{first: 1}
	for i := range parts {
		err = errors.Join(err, all.join(&parts[i]))
	}
	l := &Lazy{files: r.files, at: all.at}
	if err != nil {
		records, err := r.decodeEach(frames)
		if err != nil {
			return nil, err
		}
		l, all.last = &Lazy{whole: records}, timeOfLast(records)
	}
	if err := r.complete(uint64(l.Len()), all.last); err != nil {
		return nil, err
	}
	l.Info = r.info
	return l, nil
}

// undamaged are the frames of records before the first damage.
func (r *reading) undamaged() []frame {
	if r.damage != nil {
		return r.records[:r.before]
	}
	return r.records
}

// complete is called with the number of records and the time of the last. Its
// error is the damage.
func (r *reading) complete(n uint64, last time.Time) error {
	if r.damage != nil {
		r.damage.LastSeq = n
		return r.damage
	}
	r.info.LastSeq = n
	if last.After(r.info.Updated) {
		r.info.Updated = last
	}
	return nil
}

func timeOfLast(records []core.Record) time.Time {
	if len(records) == 0 {
		return time.Time{}
	}
	return records[len(records)-1].Time
}

func (r *reading) decodeEach(frames []frame) (records []core.Record, err error) {
	for i := range frames {
		f := &frames[i]
		last := len(records)
		records, err = f.records(records, r.runID)
		for at := last; at < len(records) && err == nil; at++ {
			if seq := records[at].Seq; seq != uint64(at)+1 {
				err = fmt.Errorf("record %d follows record %d", seq, at)
			}
		}
		if errors.Is(err, ErrFormat) {
			return nil, &kindError{fmt.Sprintf("snapshot: run %s: %s, byte %d: %s", r.runID, f.file, f.offset, bare(err, ErrFormat)), ErrFormat}
		} else if err != nil {
			return nil, &CorruptError{RunID: r.runID, File: f.file, Offset: f.offset, LastSeq: uint64(last), Err: err}
		}
	}
	return records, nil
}

// decodeAlone is how many bytes of records one goroutine decodes alone.
const decodeAlone = 64 << 10

// spread has frames read by all processors if it is worth it, each a part of
// them. The first is told how many bytes there are in all, for the results of
// the others may go there too; the others 0.
func spread[T any](frames []frame, read func(some []frame, room int) (T, error)) ([]T, error) {
	size := 0
	for i := range frames {
		size += len(frames[i].body)
	}
	workers := min(runtime.GOMAXPROCS(0), size/decodeAlone+1, max(len(frames), 1))
	var (
		wait    sync.WaitGroup
		results = make([]T, workers)
		errs    = make([]error, workers)
	)
	for w, rest := 0, frames; w < workers; w++ {
		n := 0
		for taken := 0; n < len(rest) && (taken <= size/workers || w == workers-1); n++ {
			taken += len(rest[n].body)
		}
		mine, room := rest[:n], 0
		if w == 0 {
			room = size
		}
		rest = rest[n:]
		if w == workers-1 {
			results[w], errs[w] = read(mine, room)
			break
		}
		wait.Go(func() { results[w], errs[w] = read(mine, room) })
	}
	wait.Wait()
	return results, errors.Join(errs...)
}

// decodeSome decodes frames and makes room for records of so many bytes, or
// for those of the frames.
func decodeSome(some []frame, room int, runID string) (records []core.Record, err error) {
	if room == 0 {
		for i := range some {
			room += len(some[i].body)
		}
	}
	d := newDecoding(migrations)
	defer d.release()
	done := 0
	for i := range some {
		records, err = some[i].decode(records, d, runID)
		if err != nil {
			return nil, err
		}
		done += len(some[i].body)
		if done > 0 && (len(records) == cap(records) || i == 0) {
			// As many as it will be if the others are like those so far.
			records = slices.Grow(records, int(float64(len(records))/float64(done)*float64(room-done)*1.05)+1)
		}
	}
	return records, nil
}

// span is where records are that follow one another.
type span struct {
	first uint64    // the number of the first
	at    []int64   // where each begins
	last  time.Time // of the last
}

var errHole = errors.New("records do not follow one another")

// indexSome checks frames as decodeSome would, and keeps nothing of them.
func indexSome(some []frame, _ int) (s span, err error) {
	d := newDecoding(migrations)
	defer d.release()
	d.extent = checkOnly
	s.at = make([]int64, 0, len(some))
	for i := range some {
		for begin, err := range some[i].each(d) {
			if err != nil {
				return span{}, err
			}
			if len(s.at) == 0 {
				s.first = d.record.Seq
			}
			if d.record.Seq != s.first+uint64(len(s.at)) {
				return span{}, errHole
			}
			s.at = append(s.at, some[i].at+int64(begin))
			s.last = d.record.Time
		}
	}
	return s, nil
}

// join appends the records that follow.
func (s *span) join(next *span) error {
	if len(next.at) == 0 {
		return nil
	}
	if next.first != s.first+uint64(len(s.at)) {
		return errHole
	}
	s.at, s.last = append(s.at, next.at...), next.last
	return nil
}
