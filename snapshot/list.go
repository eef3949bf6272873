package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// List implements [Store]. It reads the meta file of each run, and the end of
// the journal of those that are open or were when their process ended. A run
// whose files are damaged, or cannot be read, is listed with what is known of
// it, be it the run ID alone; Load says what is wrong. Those that WithWarnings
// has called are told of what cannot be read.
func (s *FileStore) List(ctx context.Context, f Filter) ([]Info, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.path("runs"))
	if err != nil {
		return nil, fmt.Errorf("snapshot: list: %w", err)
	}
	var all []Info
	for _, e := range entries {
		if !e.IsDir() || CheckRunID(e.Name()) != nil {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		info, err := s.about(ctx, e.Name())
		switch {
		case err == nil:
			all = append(all, info)
		case errors.Is(err, ErrNotFound):
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		default:
			s.warn(e.Name(), err)
			all = append(all, Info{RunID: e.Name(), Status: StatusInterrupted})
		}
	}
	return f.pick(all), nil
}

// pick returns what the filter picks, the last updated first.
func (f Filter) pick(all []Info) []Info {
	picked := all[:0]
	for i := range all {
		if f.Matches(&all[i]) {
			picked = append(picked, all[i])
		}
	}
	slices.SortFunc(picked, func(a, b Info) int {
		return cmp.Or(b.Updated.Compare(a.Updated), cmp.Compare(a.RunID, b.RunID))
	})
	if f.Limit > 0 && len(picked) > f.Limit {
		picked = picked[:f.Limit]
	}
	return picked
}

// about is what List says of a run.
func (s *FileStore) about(ctx context.Context, runID string) (Info, error) {
	info, err := s.meta(runID)
	if err != nil {
		return s.slowly(ctx, runID)
	}
	if info.Status != StatusRunning {
		return info, nil
	}
	if info, err = s.recent(runID); err == nil {
		err = s.settle(&info, func() (*Info, error) {
			info, err = s.recent(runID)
			return &info, err
		})
	}
	if err != nil {
		return s.slowly(ctx, runID)
	}
	return info, nil
}

// slowly finds out by loading the run.
func (s *FileStore) slowly(ctx context.Context, runID string) (Info, error) {
	sn, err := s.Load(ctx, runID)
	switch {
	case err == nil:
		return sn.Info, nil
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrFormat):
		return Info{RunID: runID, Status: StatusInterrupted}, nil
	}
	return Info{}, err
}

// meta reads the meta file of a run.
func (s *FileStore) meta(runID string) (Info, error) {
	data, err := os.ReadFile(s.run(runID, metaName))
	if err != nil {
		return Info{}, err
	}
	p, err := split(runID, metaName, data)
	if err == nil {
		err = p.err
	}
	return p.head.Info, err
}

// tailSize is how much of the end of a journal is read first.
const tailSize = 64 << 10

// recent is what the newest frames say of a run: how it is now if it is open,
// and how it ended if it was. The meta file does not know either, and may be
// of a generation that did not get its journal.
func (s *FileStore) recent(runID string) (Info, error) {
	numbers, err := s.journals(runID)
	if err != nil {
		return Info{}, err
	}
	head, err := s.head(runID, snapshotName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Info{}, err
	}
	info, covers := head.Info, head.Covers
	for i, n := range slices.Backward(numbers) {
		if n <= covers {
			break
		}
		name := fmt.Sprintf(journalName, n)
		if i == len(numbers)-1 {
			newest, err := s.head(runID, name)
			if err != nil {
				return Info{}, err
			}
			covers = max(covers, newest.Covers)
			if newest.Info.Generation > info.Generation {
				info = newest.Info
			}
		}
		found, err := s.tail(&info, s.run(runID, name))
		if err != nil || found {
			return info, err
		}
	}
	if info.RunID == "" {
		return info, noRun(runID)
	}
	return info, nil
}

// tail updates info with the newest frame of a journal.
func (s *FileStore) tail(info *Info, name string) (found bool, err error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	stat, err := f.Stat()
	if err != nil {
		return false, err
	}
	for base := max(0, stat.Size()-tailSize); ; base = 0 {
		data, err := io.ReadAll(io.NewSectionReader(f, base, stat.Size()-base))
		if err != nil {
			return false, err
		}
		last, ok := lastFrame(data, base)
		if ok || base == 0 {
			return info.update(&last)
		}
	}
}

// lastFrame returns the last whole frame of data, which begins anywhere.
func lastFrame(data []byte, base int64) (last frame, found bool) {
	f, ok := findFrame(data, base, 0)
	for ok {
		last, found = f, true
		f, ok = findFrame(data, base, int(f.offset+f.size()-base))
	}
	return last, found
}

// update makes i what a frame says, if it says anything.
func (i *Info) update(f *frame) (bool, error) {
	switch f.kind {
	case frameEnd:
		end, err := f.end()
		if err == nil && end.Generation >= i.Generation {
			*i = end
		}
		return true, err
	case frameRecords:
		records, err := f.records(nil, i.RunID)
		if err != nil || len(records) == 0 {
			return false, err
		}
		last := &records[len(records)-1]
		i.LastSeq = last.Seq
		if last.Time.After(i.Updated) {
			i.Updated = last.Time
		}
		return true, nil
	}
	return false, nil
}

// head reads the header of a file.
func (s *FileStore) head(runID, name string) (header, error) {
	f, err := os.Open(s.run(runID, name))
	if err != nil {
		return header{}, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, tailSize))
	if err != nil {
		return header{}, err
	}
	first, ok := frameAt(data, 0, 0)
	if !ok || first.kind != frameHeader {
		return header{}, errNoHeader
	}
	return first.header()
}
