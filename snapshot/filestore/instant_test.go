package filestore_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// An instantDisk calls do just before one of a reader's steps.
type instantDisk struct {
	filestore.Disk
	steps, at int
	do        func()
}

func (d *instantDisk) step() {
	if d.steps++; d.steps == d.at {
		d.do()
	}
}

func (d *instantDisk) ReadDir(name string) ([]fs.DirEntry, error) {
	d.step()
	return d.Disk.ReadDir(name)
}

func (d *instantDisk) Open(name string) (filestore.OpenFile, int64, error) {
	d.step()
	f, size, err := d.Disk.Open(name)
	return instantFile{f, d}, size, err
}

type instantFile struct {
	filestore.OpenFile
	disk *instantDisk
}

func (f instantFile) ReadAt(data []byte, offset int64) (int, error) {
	f.disk.step()
	return f.OpenFile.ReadAt(data, offset)
}

// A changingRun is a run that is changed while it is read.
type changingRun struct {
	dir     string
	open    snapshot.Journal // the writer's journal; nil if there is none
	reached func()           // called after each change; nil while the run is being built
}

// shapes are the possible combinations of files of a run.
var shapes = map[string]func(t *testing.T, r *changingRun, whose string, end snapshot.Status){
	"a journal": func(t *testing.T, r *changingRun, whose string, end snapshot.Status) {
		r.extend(t, notCompacting(t, r.dir), whose, 5, end)
	},
	"two generations in a journal": func(t *testing.T, r *changingRun, whose string, end snapshot.Status) {
		r.extend(t, notCompacting(t, r.dir), whose, 3, snapshot.StatusPaused)
		r.extend(t, notCompacting(t, r.dir), whose, 4, end)
	},
	"a snapshot": func(t *testing.T, r *changingRun, whose string, end snapshot.Status) {
		r.extend(t, newFileStore(t, r.dir), whose, 6, end)
	},
	"a snapshot and a journal": func(t *testing.T, r *changingRun, whose string, end snapshot.Status) {
		r.extend(t, newFileStore(t, r.dir), whose, 5, snapshot.StatusPaused)
		r.extend(t, notCompacting(t, r.dir), whose, 2, end)
	},
	"an open journal": func(t *testing.T, r *changingRun, whose string, _ snapshot.Status) {
		r.extend(t, notCompacting(t, r.dir), whose, 5, "")
	},
	"an open journal of two generations": func(t *testing.T, r *changingRun, whose string, _ snapshot.Status) {
		r.extend(t, notCompacting(t, r.dir), whose, 3, snapshot.StatusPaused)
		r.extend(t, notCompacting(t, r.dir), whose, 4, "")
	},
	"a snapshot and an open journal": func(t *testing.T, r *changingRun, whose string, _ snapshot.Status) {
		r.extend(t, newFileStore(t, r.dir), whose, 5, snapshot.StatusPaused)
		r.extend(t, notCompacting(t, r.dir), whose, 2, "")
	},
	"a journal without a meta file": func(t *testing.T, r *changingRun, whose string, end snapshot.Status) {
		r.extend(t, notCompacting(t, r.dir), whose, 5, end)
		require.NoError(t, os.Remove(filepath.Join(r.dir, "runs", "run", "meta")))
	},
	"a journal that was not closed": func(t *testing.T, r *changingRun, whose string, _ snapshot.Status) {
		r.extend(t, notCompacting(t, r.dir), whose, 5, "")
		r.crash()
	},
}

// notCompacting returns a store that does not compact a run when the run is closed.
func notCompacting(t *testing.T, dir string) *filestore.Store {
	return newFileStore(t, dir, filestore.WithCompactAtClose(1<<20))
}

// extend opens the run if it is not open, appends n records that contain whose, and closes the run
// if end is not empty.
func (r *changingRun) extend(t *testing.T, s *filestore.Store, whose string, n int, end snapshot.Status) {
	t.Helper()
	if r.open == nil {
		j := begin(t, s)
		r.open = j
		t.Cleanup(func() { filestore.Abandon(j) })
		r.changed()
	}
	run, err := s.Load(t.Context(), "run")
	require.NoError(t, err)
	for i := range n {
		require.NoError(t, r.open.Append(record.Record{
			Seq: run.LastSeq + uint64(i) + 1, Kind: record.KindLog, Status: record.StatusRecorded, Generation: run.Generation,
			Detail: &record.Detail{Message: whose},
		}))
	}
	r.changed()
	if end != "" {
		require.NoError(t, closeAs(r.open, end))
		r.open = nil
		r.changed()
	}
}

func (r *changingRun) changed() {
	if r.reached != nil {
		r.reached()
	}
}

// crash ends the writer without closing the run.
func (r *changingRun) crash() {
	filestore.Abandon(r.open)
	r.open = nil
	r.changed()
}

// changes are the changes that may happen to a run while it is read.
var changes = map[string]func(t *testing.T, r *changingRun){
	"it continues": func(t *testing.T, r *changingRun) {
		r.extend(t, notCompacting(t, r.dir), "old", 2, snapshot.StatusCompleted)
	},
	"it continues and is compacted": func(t *testing.T, r *changingRun) {
		r.extend(t, newFileStore(t, r.dir), "old", 2, snapshot.StatusPaused)
		r.extend(t, newFileStore(t, r.dir), "old", 2, snapshot.StatusCompleted)
	},
	"it continues and is compacted twice": func(t *testing.T, r *changingRun) {
		r.extend(t, newFileStore(t, r.dir), "old", 2, snapshot.StatusPaused)
		r.extend(t, newFileStore(t, r.dir), "old", 2, snapshot.StatusPaused)
		r.extend(t, newFileStore(t, r.dir), "old", 2, snapshot.StatusCompleted)
	},
	"it crashes": func(t *testing.T, r *changingRun) {
		r.extend(t, notCompacting(t, r.dir), "old", 2, "")
		r.crash()
	},
	"it crashes and continues": func(t *testing.T, r *changingRun) {
		r.extend(t, notCompacting(t, r.dir), "old", 2, "")
		r.crash()
		r.extend(t, notCompacting(t, r.dir), "old", 2, snapshot.StatusCompleted)
	},
	"it is replaced by a journal":                      replacedBy("a journal"),
	"it is replaced by two generations in a journal":   replacedBy("two generations in a journal"),
	"it is replaced by a snapshot":                     replacedBy("a snapshot"),
	"it is replaced by a snapshot and a journal":       replacedBy("a snapshot and a journal"),
	"it is replaced by an open journal":                replacedBy("an open journal"),
	"it is replaced by a snapshot and an open journal": replacedBy("a snapshot and an open journal"),
	"it is replaced by a journal that was not closed":  replacedBy("a journal that was not closed"),
}

func replacedBy(shape string) func(t *testing.T, r *changingRun) {
	return func(t *testing.T, r *changingRun) {
		if r.open != nil {
			require.NoError(t, closeAs(r.open, snapshot.StatusPaused))
			r.open = nil
			r.changed()
		}
		require.NoError(t, newFileStore(t, r.dir).Delete(t.Context(), "run"))
		shapes[shape](t, r, "new", snapshot.StatusCompleted)
	}
}

// described returns a description of the info and the records that were read from a run.
func described(info *snapshot.Info, records []string) string {
	return fmt.Sprint(info.Status, " ", info.Generation, info.LastSeq, info.Created.UnixNano(), info.Updated.UnixNano(), info.Open, " ", strings.Join(records, " "))
}

func describedRecord(rec *record.Record) string {
	return fmt.Sprintf("%d-%d-%s", rec.Generation, rec.Seq, rec.Message())
}

// looks are the ways to read a run once. Each returns the state of the run at one
// instant.
var looks = map[string]func(ctx context.Context, s *filestore.Store) (string, error){
	"Load": func(ctx context.Context, s *filestore.Store) (string, error) {
		run, err := s.Load(ctx, "run")
		if err != nil {
			return "", err
		}
		var records []string
		for rec, err := range run.Records() {
			if err != nil {
				return "", err
			}
			records = append(records, describedRecord(&rec))
		}
		return described(&run.Info, records), nil
	},
	"Info": func(ctx context.Context, s *filestore.Store) (string, error) {
		info, err := s.Info(ctx, "run")
		return described(&info, nil), err
	},
	"List": func(ctx context.Context, s *filestore.Store) (string, error) {
		page, err := s.List(ctx, snapshot.Filter{})
		if err != nil || len(page.Runs) == 0 {
			return "", errors.Join(err, snapshot.ErrNotFound)
		}
		if page.Runs[0].Open {
			page.Runs[0].LastSeq = 0 // for an open run, List may show any number up to the last record's
		}
		return described(&page.Runs[0], nil), nil
	},
	"Records": func(ctx context.Context, s *filestore.Store) (string, error) {
		var records []string
		for rec, err := range s.Records(ctx, "run", 0) {
			if err != nil {
				return "", err
			}
			records = append(records, describedRecord(&rec))
		}
		return described(&snapshot.Info{}, records), nil
	},
	"Records after some": func(ctx context.Context, s *filestore.Store) (string, error) {
		var records []string
		for rec, err := range s.Records(ctx, "run", 4) {
			if err != nil {
				return "", err
			}
			records = append(records, describedRecord(&rec))
		}
		return described(&snapshot.Info{}, records), nil
	},
}

// everyInstant calls read for runs that change just before one of the reader's steps. It does so
// for each step in turn, up to step number most. Without -long, it skips most combinations.
func everyInstant(t *testing.T, most int, read func(t *testing.T, s *filestore.Store, r *changingRun, d *instantDisk)) {
	for shape, build := range shapes {
		for name, change := range changes {
			t.Run(shape+", "+name, func(t *testing.T) {
				t.Parallel()
				sum := crc32.ChecksumIEEE([]byte(t.Name()))
				if !*long && (sum%10 > 0 || !testkit.Sampled(int(sum/10))) {
					return
				}
				for at, passed := 1, false; !passed && at <= most; at++ {
					r := &changingRun{dir: memoryDir(t)}
					build(t, r, "old", snapshot.StatusPaused)
					d := &instantDisk{Disk: fastDisk{filestore.OSDisk}, at: at, do: func() { change(t, r) }}
					s := newFileStore(t, r.dir, filestore.WithDisk(d), filestore.WithPolling(time.Millisecond))
					d.steps = 0
					read(t, s, r, d)
					passed = d.steps < at
					if r.open != nil {
						filestore.Abandon(r.open)
					}
				}
			})
		}
	}
}

// Whatever happens to a run while it is read, the reader sees either the state before the change or
// the state after it. A reader of single records may also see a state in between.
func TestAReaderSeesTheStateBeforeOrAfterAChange(t *testing.T) {
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			everyInstant(t, math.MaxInt, func(t *testing.T, s *filestore.Store, r *changingRun, d *instantDisk) {
				var states []string // in order
				r.reached = func() {
					state, err := look(t.Context(), notCompacting(t, r.dir))
					require.NoError(t, err)
					states = append(states, state)
				}
				r.reached()
				got, err := look(t.Context(), s)
				if errors.Is(err, snapshot.ErrNotFound) && strings.Contains(t.Name(), "replaced") {
					return
				}
				require.NoError(t, err, "step %d", d.at)
				for i, state := range states {
					isBetween := i > 0 && strings.HasPrefix(name, "Records") && strings.HasPrefix(got, states[i-1]) && strings.HasPrefix(state, got)
					if got == state || isBetween {
						return
					}
				}
				require.Failf(t, "a mixture", "step %d: got\n%s\nwant one of\n%s", d.at, got, strings.Join(states, "\n"))
			})
		})
	}
}
