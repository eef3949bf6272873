package memstore

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/reprise-go/reprise/internal/errkind"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// A Store is a [snapshot.Store] that keeps runs in memory, by the same rules as a store in files:
// records are encoded when they are appended. It is for many goroutines; make
// it with [New].
type Store struct {
	Artifacts

	mu      sync.Mutex // guards what follows, and all runs
	runs    map[string]*run
	changed chan struct{} // closed, and replaced, when anything changes
}

var _ snapshot.Store = (*Store)(nil)

// New returns a store without runs.
func New() *Store {
	return &Store{runs: make(map[string]*run), changed: make(chan struct{})}
}

// A run is one run. Its records are only ever appended to.
type run struct {
	known    snapshot.Info // but for LastSeq and Open
	encoded  [][]byte      // its records
	freed    chan struct{} // closed when nobody has it open any more; nil while nobody has
	messages []snapshot.Message
	notify   chan struct{} // of the journal that has it open
	version  uint64        // counts the changes but for records
}

// signal wakes those who follow and watch, because the run has changed. The lock
// is held.
func (s *Store) signal(r *run) {
	r.version++
	s.wake()
}

// wake wakes those who follow and watch. The lock is held.
func (s *Store) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// info is what is known of the run now. The lock is held.
func (r *run) info() snapshot.Info {
	info := r.known.Clone()
	info.LastSeq, info.Open = r.last(), r.freed != nil
	return info
}

// last is the number of the last record. The lock is held.
func (r *run) last() uint64 { return uint64(len(r.encoded)) }

// load is the run as it is now. The lock is held.
func (r *run) load() (*snapshot.Run, error) {
	loaded, err := snapshot.NewRun(r.info(), nil)
	if err == nil {
		loaded, _, err = loaded.Extend(r.encoded...)
	}
	return loaded, err
}

// after are the records after a number, as they are now. The lock is held.
func (r *run) after(seq uint64) tail {
	return tail{r.known.RunID, r.encoded[seq:len(r.encoded):len(r.encoded)]}
}

// A tail is some encoded records of a run.
type tail struct {
	runID   string
	encoded [][]byte
}

// records decodes one record after the other. After an error it yields no more.
func (t tail) records() iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for _, encoded := range t.encoded {
			rec, err := snapshot.DecodeRecord(encoded)
			if rec.RunID = t.runID; !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

func noRun(runID string) error {
	return errkind.New(snapshot.ErrNotFound, "snapshot: no run %s", runID)
}

// check is what every method does first.
func check(ctx context.Context, runID string) error {
	if err := snapshot.CheckRunID(runID); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// find returns a run and takes the lock.
func (s *Store) find(ctx context.Context, runID string) (*run, error) {
	if err := check(ctx, runID); err != nil {
		return nil, err
	}
	s.mu.Lock()
	r := s.runs[runID]
	if r == nil {
		s.mu.Unlock()
		return nil, noRun(runID)
	}
	return r, nil
}

// Create implements [snapshot.Store].
func (s *Store) Create(ctx context.Context, created *snapshot.Run) (snapshot.Info, error) {
	if err := check(ctx, created.RunID); err != nil {
		return snapshot.Info{}, err
	}
	info, err := storekit.Created(created.Info)
	if err != nil {
		return snapshot.Info{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[info.RunID] != nil {
		return snapshot.Info{}, errkind.New(snapshot.ErrExists, "snapshot: run %s exists already", info.RunID)
	}
	r := &run{known: info}
	for seq := range uint64(created.Len()) {
		r.encoded = append(r.encoded, created.Encoded(seq+1))
	}
	s.runs[info.RunID] = r
	s.signal(r)
	return r.info(), nil
}

// Open implements [snapshot.Store].
func (s *Store) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	if err := check(ctx, runID); err != nil {
		return nil, err
	}
	for {
		j, freed, err := s.tryOpen(runID, o)
		if freed == nil || !o.Wait {
			return j, err
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// tryOpen returns what to wait for if the run is open.
func (s *Store) tryOpen(runID string, o snapshot.OpenOptions) (snapshot.Journal, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[runID]
	switch {
	case r == nil && !o.Create:
		return nil, nil, noRun(runID)
	case r == nil:
		r = &run{known: storekit.Begun(runID, &o)}
	case r.freed != nil:
		return nil, r.freed, &snapshot.LockedError{RunID: runID, Owner: r.known.Owner}
	}
	restored, err := r.load()
	if err != nil {
		return nil, nil, err
	}
	found, now, err := storekit.Opened(restored.Info, &o)
	if err != nil {
		return nil, nil, err
	}
	restored.Info, r.known = found, now
	s.runs[runID] = r
	r.freed, r.notify = make(chan struct{}), make(chan struct{}, 1)
	s.signal(r)
	return &journal{store: s, run: r, restored: restored, notify: r.notify, freed: r.freed}, nil, nil
}

// Update implements [snapshot.Store].
func (s *Store) Update(ctx context.Context, runID string, change func(*snapshot.Info) error) (snapshot.Info, error) {
	r, err := s.find(ctx, runID)
	if err != nil {
		return snapshot.Info{}, err
	}
	defer s.mu.Unlock()
	before := r.info()
	after := before.Clone()
	if err := change(&after); err != nil {
		return snapshot.Info{}, err
	}
	if err := storekit.CheckUpdate(before, after); err != nil {
		return snapshot.Info{}, err
	}
	after.Updated = storekit.Later(before.Updated)
	r.known = after.Clone()
	s.signal(r)
	return after, nil
}

// Load implements [snapshot.Reader].
func (s *Store) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	r, err := s.find(ctx, runID)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return r.load()
}

// Records implements [snapshot.Reader].
func (s *Store) Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		r, err := s.find(ctx, runID)
		if err != nil {
			yield(record.Record{}, err)
			return
		}
		rest := r.after(min(after, uint64(len(r.encoded))))
		s.mu.Unlock()
		rest.records()(yield)
	}
}

// Info implements [snapshot.Reader].
func (s *Store) Info(ctx context.Context, runID string) (snapshot.Info, error) {
	r, err := s.find(ctx, runID)
	if err != nil {
		return snapshot.Info{}, err
	}
	defer s.mu.Unlock()
	return r.info(), nil
}

// List implements [snapshot.Reader].
func (s *Store) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	if err := context.Cause(ctx); err != nil {
		return snapshot.Page{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]snapshot.Info, 0, len(s.runs))
	for _, r := range s.runs {
		all = append(all, r.info())
	}
	return storekit.Page(f, all)
}

// Delete implements [snapshot.Store].
func (s *Store) Delete(ctx context.Context, runID string) error {
	r, err := s.find(ctx, runID)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if r.freed != nil {
		return &snapshot.LockedError{RunID: runID, Owner: r.known.Owner}
	}
	delete(s.runs, runID)
	s.signal(r)
	return nil
}

// journal is a run of a Store that is open. The store's lock
// guards it.
type journal struct {
	store    *Store
	run      *run
	restored *snapshot.Run
	notify   chan struct{}
	freed    chan struct{} // nil when it is closed
	err      error         // what broke it
}

func (j *journal) Restored() *snapshot.Run { return j.restored }

func (j *journal) Notify() <-chan struct{} { return j.notify }

func (j *journal) Lost() <-chan struct{} { return nil }

// broken is what Append returns. The store's lock is held.
func (j *journal) broken() error {
	if j.err == nil && j.freed == nil {
		return snapshot.ErrClosed
	}
	return j.err
}

func (j *journal) Append(records ...record.Record) error {
	j.store.mu.Lock()
	defer j.store.mu.Unlock()
	if err := j.broken(); err != nil || len(records) == 0 {
		return err
	}
	encoded := j.run.encoded
	for i := range records {
		r := &records[i]
		if want := uint64(len(encoded)) + 1; r.Seq != want {
			j.err = fmt.Errorf("snapshot: run %s: got record %d, want record %d", j.run.known.RunID, r.Seq, want)
			return j.err
		}
		data, err := snapshot.AppendRecord(nil, r)
		if err != nil {
			j.err = fmt.Errorf("snapshot: run %s: %w", j.run.known.RunID, err)
			return j.err
		}
		encoded = append(encoded, data)
	}
	j.run.encoded = encoded
	j.store.wake()
	return nil
}

func (j *journal) Sync(ctx context.Context, _ uint64) error {
	j.store.mu.Lock()
	defer j.store.mu.Unlock()
	return j.err
}

func (j *journal) Close(_ context.Context, end snapshot.End) error {
	j.store.mu.Lock()
	defer j.store.mu.Unlock()
	if j.freed == nil {
		return j.err
	}
	if j.err != nil {
		end = snapshot.End{Status: snapshot.StatusInterrupted, Stop: snapshot.Stop{Reason: record.InterruptStore}, Usage: end.Usage}
	}
	j.run.known = storekit.Closed(j.run.known, end)
	close(j.freed)
	j.freed, j.run.freed, j.run.notify = nil, nil, nil
	j.store.signal(j.run)
	return j.err
}
