package filestore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// churn repeatedly opens, appends to, compacts, updates, closes, deletes and creates a run until
// its process is killed, while other processes do the same. It prints what the store has confirmed.
// Each run that gets the ID has a unique name, which is its description and is part of each of its
// records.
func churn(args ...string) error {
	ctx := context.Background()
	s, err := filestore.New(args[0], filestore.WithDisk(fastDisk{filestore.OSDisk}), filestore.WithCompactFrom(4000))
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	c := &churner{store: s, random: rand.New(rand.NewPCG(seed, 1)), pid: os.Getpid()}
	for {
		var err error
		switch c.random.IntN(8) {
		case 0:
			if err = s.Delete(ctx, "run"); err == nil {
				fmt.Println("deleted")
			}
		case 1:
			err = c.create(ctx)
		case 2:
			_, err = s.Update(ctx, "run", func(i *snapshot.Info) error { i.Pinned = !i.Pinned; return nil })
		default:
			err = c.live(ctx)
		}
		if err != nil && !errors.Is(err, snapshot.ErrLocked) && !errors.Is(err, snapshot.ErrNotFound) && !errors.Is(err, snapshot.ErrExists) {
			return err
		}
	}
}

type churner struct {
	store  *filestore.Store
	random *rand.Rand
	pid, n int
}

func (c *churner) name() string {
	c.n++
	return fmt.Sprintf("%d/%d", c.pid, c.n)
}

func churned(name string, generation, seq uint64) record.Record {
	return record.Record{
		Seq: seq, Generation: generation, Kind: record.KindLog, Status: record.StatusRecorded,
		Detail: &record.Detail{Message: fmt.Sprint(name, " ", seq)},
	}
}

// create creates a run of random length.
func (c *churner) create(ctx context.Context) error {
	name, n := c.name(), uint64(1+c.random.IntN(4)*c.random.IntN(100))
	run, err := snapshot.NewRun(snapshot.Info{RunID: "run", Status: snapshot.StatusQueued, Generation: 1, Metadata: snapshot.Metadata{Description: name}},
		func(yield func(record.Record, error) bool) {
			for seq := range n {
				if !yield(churned(name, 1, seq+1), nil) {
					return
				}
			}
		})
	if err == nil {
		_, err = c.store.Create(ctx, run)
	}
	if err == nil {
		fmt.Println("promised", name, n)
	}
	return err
}

// live opens or creates the run, appends records and closes it.
func (c *churner) live(ctx context.Context) error {
	j, err := c.store.Open(ctx, "run", snapshot.OpenOptions{Create: true, Wait: true, Metadata: snapshot.Metadata{Description: c.name()}})
	if err != nil {
		return err
	}
	run := j.Restored()
	name, seq := run.Metadata.Description, uint64(run.Len())
	for range c.random.IntN(20) {
		seq++
		if err := j.Append(churned(name, run.Generation, seq)); err != nil {
			return err
		}
		switch c.random.IntN(20) {
		case 0:
			if err := j.Sync(ctx, seq); err != nil {
				return err
			}
			fmt.Println("promised", name, seq)
		case 1:
			filestore.Compact(j)
		}
	}
	ends := []snapshot.Status{snapshot.StatusPaused, snapshot.StatusCompleted, snapshot.StatusFailed}
	if err := closeAs(j, ends[c.random.IntN(len(ends))]); err != nil {
		return err
	}
	fmt.Println("promised", name, seq)
	return nil
}

// A churnLedger holds what readers have seen of all runs that have had the ID. All readers must see
// the same data.
type churnLedger struct {
	mu          sync.Mutex
	promised    map[string]uint64            // the last confirmed record, by run name
	created     map[int64]string             // the run's name, by creation time
	generations map[string]map[uint64]uint64 // by run name and record number
	looks       map[string]int
}

// info checks that no other run was seen with this run's creation time.
func (l *churnLedger) info(info *snapshot.Info) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := info.Metadata.Description
	if known, ok := l.created[info.Created.UnixNano()]; ok && known != name {
		return fmt.Errorf("run %s has the time of creation of %s", name, known)
	}
	l.created[info.Created.UnixNano()] = name
	return nil
}

// record checks that a record belongs to the run, and is unchanged since it was last seen.
func (l *churnLedger) record(name string, rec *record.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.generations[name]
	if of == nil {
		of = make(map[uint64]uint64)
		l.generations[name] = of
	}
	if want := fmt.Sprint(name, " ", rec.Seq); rec.Message() != want {
		return fmt.Errorf("got record %q of run %s", rec.Message(), name)
	}
	if known, ok := of[rec.Seq]; ok && known != rec.Generation {
		return fmt.Errorf("record %d of run %s is now in generation %d, and was in %d", rec.Seq, name, rec.Generation, known)
	}
	of[rec.Seq] = rec.Generation
	return nil
}

func (l *churnLedger) looked(how string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks[how]++
}

// nameIn returns the name of the run that a record belongs to.
func nameIn(rec *record.Record) string {
	name, _, _ := strings.Cut(rec.Message(), " ")
	return name
}

// load loads the run, which must contain all records that were confirmed before the load.
func (l *churnLedger) load(ctx context.Context, s *filestore.Store) error {
	l.mu.Lock()
	before := make(map[string]uint64)
	for name, n := range l.promised {
		before[name] = n
	}
	l.mu.Unlock()
	run, err := s.Load(ctx, "run")
	if err != nil {
		return err
	}
	if err := l.info(&run.Info); err != nil {
		return err
	}
	name := run.Metadata.Description
	for rec, err := range run.Records() {
		if err == nil {
			err = l.record(name, &rec)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case run.Status == snapshot.StatusRunning && !run.Open:
		return fmt.Errorf("run %s is running, although no process has it open", name)
	case run.LastSeq < before[name]:
		return fmt.Errorf("run %s has %d records, although %d were confirmed", name, run.LastSeq, before[name])
	}
	l.looked("Load")
	return nil
}

// read checks that records yields the records after a number, without gaps.
func (l *churnLedger) read(after uint64, records func(yield func(record.Record, error) bool)) error {
	name := ""
	for rec, err := range records {
		if err != nil {
			return err
		}
		if name == "" {
			name = nameIn(&rec)
		}
		if after++; rec.Seq != after {
			return fmt.Errorf("run %s: got record %d, want %d", name, rec.Seq, after)
		}
		if err := l.record(name, &rec); err != nil {
			return err
		}
	}
	return nil
}

// watch watches the run until ctx ends.
func (l *churnLedger) watch(ctx context.Context, s *filestore.Store, runID string) error {
	var now snapshot.Info
	last := uint64(0)
	for event, err := range s.Watch(ctx, snapshot.WatchOptions{RunID: runID, Records: true}) {
		if err != nil {
			return err
		}
		if err := l.info(&event.Info); err != nil {
			return err
		}
		if !event.Info.Created.Equal(now.Created) {
			last = 0
		}
		now = event.Info
		for _, rec := range event.Records {
			if last > 0 && rec.Seq != last+1 {
				return fmt.Errorf("run %s: got record %d after %d", now.Metadata.Description, rec.Seq, last)
			}
			last = rec.Seq
			if err := l.record(now.Metadata.Description, &rec); err != nil {
				return fmt.Errorf("watched: %w", err)
			}
		}
		l.looked("Watch")
	}
	return nil
}

// again calls do repeatedly, until ctx ends or do fails with an error other than ErrNotFound.
func again(ctx context.Context, how string, do func() error) error {
	for ctx.Err() == nil {
		if err := do(); err != nil && ctx.Err() == nil && !errors.Is(err, snapshot.ErrNotFound) {
			return fmt.Errorf("%s: %w", how, err)
		}
	}
	return nil
}

// Processes change, delete and create a run, and are killed at random moments. Meanwhile, each
// reader sees one run at a time. It sees only that run's records, each of them once, including all
// records that were confirmed.
func TestReadersSeeOneRunWhileOthersChangeIt(t *testing.T) {
	kills := 10
	if *long {
		kills = 1500
	}
	dir := memoryDir(t)
	l := &churnLedger{promised: make(map[string]uint64), created: make(map[int64]string), generations: make(map[string]map[uint64]uint64), looks: make(map[string]int)}
	s := newFileStore(t, dir, filestore.WithWarnings(func(string, error) {}))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var readers sync.WaitGroup
	for how, do := range map[string]func() error{
		"Load": func() error { return l.load(ctx, s) },
		"Info": func() error {
			info, err := s.Info(ctx, "run")
			if err == nil {
				l.looked("Info")
				err = l.info(&info)
			}
			return err
		},
		"List": func() error {
			page, err := s.List(ctx, snapshot.Filter{})
			for i := range page.Runs {
				l.looked("List")
				if page.Runs[i].Metadata.Description != "" { // a run that is being created has no description yet
					err = errors.Join(err, l.info(&page.Runs[i]))
				}
			}
			return err
		},
		"Records": func() error { l.looked("Records"); return l.read(0, s.Records(ctx, "run", 0)) },
		"Follow":  func() error { l.looked("Follow"); return l.read(0, s.Follow(ctx, "run", snapshot.Cursor{})) },
		"Watch":   func() error { return l.watch(ctx, s, "") },
		"Watch of the run": func() error {
			return l.watch(ctx, s, "run")
		},
	} {
		readers.Go(func() {
			if err := again(ctx, how, do); err != nil {
				assert.NoError(t, err)
			}
		})
	}
	var writers sync.WaitGroup
	for writer := range 2 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(writer), 5))
			for n := range kills {
				l.runUntilKilled(t, dir, uint64(1000*n+writer), time.Duration(20+random.IntN(80))*time.Millisecond)
			}
		})
	}
	writers.Wait()
	stop()
	readers.Wait()
	t.Logf("%d runs were seen; %v", len(l.created), l.looks)
	run, err := s.Load(t.Context(), "run")
	if errors.Is(err, snapshot.ErrNotFound) {
		return
	}
	require.NoError(t, err)
	require.NotEqual(t, snapshot.StatusRunning, run.Status)
	info, err := s.Info(t.Context(), "run")
	require.NoError(t, err)
	require.Equal(t, run.Info, info)
	require.Equal(t, []snapshot.Info{run.Info}, list(t, s, snapshot.Filter{}))
}

// runUntilKilled starts a process that calls churn, kills it after a while, and notes what the
// store confirmed to that process.
func (l *churnLedger) runUntilKilled(t *testing.T, dir string, seed uint64, after time.Duration) {
	cmd := process.Command(t, "churn", dir, strconv.FormatUint(seed, 10))
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.StdoutPipe()
	if !assert.NoError(t, err) || !assert.NoError(t, cmd.Start()) {
		return
	}
	kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if f[0] != "promised" || len(f) < 3 {
			continue
		}
		n, err := strconv.ParseUint(f[2], 10, 64)
		assert.NoError(t, err)
		l.mu.Lock()
		l.promised[f[1]] = max(l.promised[f[1]], n)
		l.mu.Unlock()
	}
	assert.True(t, process.Killed(cmd.Wait()), "the process was not killed, but ended: %s", failed.String())
}
