package filestore

import (
	"context"
	"errors"
	"iter"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/reprise-go/reprise/internal/errkind"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// poll is the interval at which watchers look for changes that the system does not report, such as
// the end of a process that had a run open, or changes on a file system without notifications.
const poll = 2 * time.Second

// notifyAfter is how long a run must be open before the store asks the system to report changes in
// the run's inbox. On some systems, it takes 10 ms to end such a watch; short runs avoid this.
const notifyAfter = 250 * time.Millisecond

// A watcher waits for changes in directories.
type watcher struct {
	notices *notices
	changed chan struct{}
	dirs    map[string]bool
	ticker  *time.Ticker
}

func (s *Store) watcher() *watcher {
	return &watcher{s.notices, make(chan struct{}, 1), make(map[string]bool), time.NewTicker(s.poll)}
}

// add begins to watch dir, unless it is already watched.
func (w *watcher) add(dir string) {
	if !w.dirs[dir] && w.notices.add(dir, w.changed) {
		w.dirs[dir] = true
	}
}

func (w *watcher) drop(dir string) {
	if w.dirs[dir] {
		delete(w.dirs, dir)
		w.notices.drop(dir, w.changed)
	}
}

func (w *watcher) close() {
	w.ticker.Stop()
	for dir := range w.dirs {
		w.drop(dir)
	}
}

// wait waits until something may have changed. If ctx ends first, it returns the cause of ctx.
func (w *watcher) wait(ctx context.Context) error {
	select {
	case <-w.changed:
	case <-w.ticker.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// listen starts a goroutine that, until Close, reports new messages in the inbox and checks that
// the run still belongs to this journal.
func (j *Journal) listen() {
	ctx, stop := context.WithCancel(context.Background())
	j.stop = stop
	j.listening.Go(func() {
		w := j.dir.store.watcher()
		defer w.close()
		soon := time.NewTimer(notifyAfter)
		defer soon.Stop()
		known := ""
		for ctx.Err() == nil {
			if now := j.dir.inboxNames(); now != known {
				known = now
				ring(j.notify)
			}
			select {
			case <-w.changed:
				ring(j.notify) // a message may have come and gone since the last check
			case <-soon.C:
				w.add(j.dir.path(inboxName))
			case <-w.ticker.C:
				if err := j.dir.checkHeld(j.lock); err != nil {
					j.mu.Lock()
					_ = j.fail(err)
					j.mu.Unlock()
				}
			case <-ctx.Done():
			}
		}
	})
}

// inboxNames returns a string that changes when messages are added or removed.
func (d *runDir) inboxNames() string {
	entries, _ := d.disk.ReadDir(d.path(inboxName))
	var b strings.Builder
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), tmpSuffix) {
			b.WriteByte('/')
			b.WriteString(e.Name())
		}
	}
	return b.String()
}

// touchInbox notifies watchers of the run that it was closed. If there is no inbox, the run has no
// watchers.
func (d *runDir) touchInbox() {
	if checkDir(d.path(inboxName)) == nil {
		now := time.Now()
		_ = os.Chtimes(d.path(inboxName), now, now)
	}
}

// Watch implements [snapshot.Reader]. Its events have no positions. It reports created and deleted
// runs, and changes in open runs, at once. It reports other changes within 2 seconds; see
// WithPolling.
func (s *Store) Watch(ctx context.Context, o snapshot.WatchOptions) iter.Seq2[snapshot.Change, error] {
	return func(yield func(snapshot.Change, error) bool) {
		if err := s.watch(ctx, &o, yield); !errors.Is(err, errStopped) {
			yield(snapshot.Change{}, err)
		}
	}
}

// errStopped means that the caller has left the loop over an iterator.
var errStopped = errors.New("snapshot: the loop was left")

// watchState is the state of a Watch.
type watchState struct {
	store   *Store
	options *snapshot.WatchOptions
	yield   func(snapshot.Change, error) bool
	all     *watcher               // watches the directory that contains the runs
	open    *watcher               // watches the open runs and the run options.RunID
	runs    map[string]*watchedRun // the runs for which an event was yielded
	index   []*indexedRun          // all runs, as of the last scan
	looked  bool                   // look has run at least once
}

type watchedRun struct {
	info     snapshot.Info
	messages string
	stream   *stream // nil if records are not watched
}

func (s *Store) watch(ctx context.Context, o *snapshot.WatchOptions, yield func(snapshot.Change, error) bool) error {
	if o.After != "" {
		return errkind.New(snapshot.ErrReset, "snapshot: watch: this store has no positions to continue from")
	}
	if o.RunID != "" {
		if _, err := s.checkedDir(ctx, o.RunID); err != nil {
			return err
		}
	}
	w := &watchState{store: s, options: o, yield: yield, all: s.watcher(), open: s.watcher(), runs: make(map[string]*watchedRun)}
	defer w.close()
	w.all.add(s.path("runs"))
	var looked time.Time   // when all runs were last looked at
	var took time.Duration // how long that took; the longer it took, the less often it is repeated
	timer := time.NewTimer(0)
	defer timer.Stop()
	for everything := true; ; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		began := time.Now()
		if err := w.look(ctx, everything); err != nil {
			return err
		}
		if everything {
			looked, took = time.Now(), time.Since(began)
			timer.Reset(max(s.poll, 20*took))
		}
		everything = false // open runs may change with every record, which is no reason to look at all runs
		select {
		case <-w.all.changed:
			timer.Reset(time.Until(looked.Add(4 * took)))
		case <-timer.C:
			everything = true
		case <-w.open.changed:
		case <-ctx.Done():
		}
	}
}

func (w *watchState) close() {
	w.all.close()
	w.open.close()
	for _, r := range w.runs {
		r.close()
	}
}

func (r *watchedRun) close() {
	if r.stream != nil {
		r.stream.close()
	}
}

// look yields what is new. If options.RunID is set, it looks only at that run. Otherwise it looks
// at all runs if everything is set, or only at open runs if not.
func (w *watchState) look(ctx context.Context, everything bool) error {
	var ids, gone []string
	var err error
	switch {
	case w.options.RunID != "":
		ids = []string{w.options.RunID}
	case everything:
		if ids, gone, err = w.changed(ctx); err != nil {
			return err
		}
	default:
		for id, r := range w.runs {
			if r.info.Open {
				ids = append(ids, id)
			}
		}
	}
	for _, id := range gone {
		if err := w.yieldDeleted(id); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if err := w.lookAt(ctx, id); err != nil {
			return err
		}
	}
	w.looked = true
	return nil
}

// changed scans all runs. It returns the IDs of the runs that may have changed since the last scan,
// and the IDs of those that no longer exist.
func (w *watchState) changed(ctx context.Context) (ids, gone []string, err error) {
	old := w.index
	if w.index, err = w.store.scanAll(ctx); err != nil {
		return nil, nil, err
	}
	for _, e := range w.index {
		for len(old) > 0 && old[0].RunID < e.RunID {
			gone, old = append(gone, old[0].RunID), old[1:]
		}
		var before *indexedRun
		if len(old) > 0 && old[0].RunID == e.RunID {
			before, old = old[0], old[1:]
		}
		if !e.isSure || !e.isUnchangedSince(before) {
			ids = append(ids, e.RunID)
		}
	}
	for _, e := range old {
		gone = append(gone, e.RunID)
	}
	return ids, gone, nil
}

// lookAt yields what is new in one run.
func (w *watchState) lookAt(ctx context.Context, id string) error {
	info, _, err := w.store.dir(id).infoForList(ctx)
	if isContentError(err) {
		err = nil // Load reports what is wrong
	}
	if err == nil && w.options.RunID != "" && !info.Open { // the run has its final status, but may still be locked
		info.Open, err = isHeld(w.store.run(id, lockName))
	}
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
		return w.yieldDeleted(id)
	case err != nil && (w.options.RunID != "" || ctx.Err() != nil):
		return err
	case err != nil: // Load reports what is wrong
		info = storekit.CrashedInfo(snapshot.Info{RunID: id})
	}
	if r := w.runs[id]; r != nil && !info.Created.Equal(r.info.Created) && !info.Created.IsZero() && !r.info.Created.IsZero() {
		if err := w.yieldDeleted(id); err != nil { // this is a new run with the same ID
			return err
		}
	}
	return w.yieldChanges(ctx, &info)
}

// yieldDeleted yields the deletion of a run, if an earlier event was yielded for the run.
func (w *watchState) yieldDeleted(id string) error {
	r := w.runs[id]
	if r == nil {
		return nil
	}
	r.close()
	delete(w.runs, id)
	w.open.drop(w.store.run(id))
	w.open.drop(w.store.run(id, inboxName))
	if !w.yield(snapshot.Change{Info: r.info, Deleted: true}, nil) {
		return errStopped
	}
	return nil
}

// yieldChanges yields what is new in a run. Records that existed at the first look do not count as
// new.
func (w *watchState) yieldChanges(ctx context.Context, info *snapshot.Info) error {
	r := w.runs[info.RunID]
	isNew := r == nil
	if isNew {
		r = &watchedRun{}
		w.runs[info.RunID] = r
		if w.options.Records {
			r.stream = w.store.dir(info.RunID).stream(info.Created, snapshot.Cursor{}, nil)
			if !w.looked {
				r.stream.skip(ctx, info)
			}
		}
	}
	dir, inbox := w.store.run(info.RunID), w.store.run(info.RunID, inboxName)
	if w.options.RunID != "" || info.Open && w.options.Records {
		w.open.add(dir) // before reading, so that no change is missed in between
	}
	if w.options.RunID != "" || info.Open && (w.options.Messages || !w.options.Records) {
		w.open.add(inbox) // the inbox is touched when the run is closed
	}
	messages := ""
	if w.options.RunID != "" || info.Open && w.options.Messages {
		messages = w.store.dir(info.RunID).inboxNames()
	}
	event := snapshot.Change{Info: *info}
	if in := r.stream; in != nil && (info.Open || info.LastSeq > in.cursor.Seq) {
		event.Records = r.newRecords(ctx)
		event.Info.LastSeq = max(info.LastSeq, in.cursor.Seq)
	}
	if !info.Open {
		r.close()
		if w.options.RunID == "" {
			w.open.drop(dir)
			w.open.drop(inbox)
		}
	}
	if !isNew && len(event.Records) == 0 && messages == r.messages && reflect.DeepEqual(*info, r.info) {
		return nil
	}
	r.info, r.messages = *info, messages
	if !w.yield(event, nil) {
		return errStopped
	}
	return nil
}

// newRecords returns the records that were appended since the last call. If a repair has removed
// records meanwhile, it returns the records of later generations. It ignores errors, because Load
// reports them, and then returns only the records before the error.
func (r *watchedRun) newRecords(ctx context.Context) (records []record.Record) {
	known := uint64(0) // records of generations up to this one are not new; 0 means that all are new
	in := r.stream
	in.yield = func(rec record.Record, _ error) bool {
		if known == 0 || rec.Generation > known {
			records = append(records, rec)
		}
		return true
	}
	err := in.advance(ctx)
	if errors.Is(err, snapshot.ErrReset) {
		known, in.cursor = in.cursor.Generation, snapshot.Cursor{}
		err = in.advance(ctx)
	}
	if err != nil {
		in.close()
	}
	return records
}
