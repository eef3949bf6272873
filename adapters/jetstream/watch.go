package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/snapshot"
)

// Watch implements [snapshot.Reader]. Positions are valid in every process as long as the stream
// exists. Killing a process causes no event: its run changes when another process opens it.
func (s *Store) Watch(ctx context.Context, o snapshot.WatchOptions) iter.Seq2[snapshot.Change, error] {
	return func(yield func(snapshot.Change, error) bool) {
		w := watcher{store: s, options: o, open: make(map[string]snapshot.Info)}
		from, err := w.begin(ctx, yield)
		if err != nil {
			yield(snapshot.Change{}, err)
			return
		}
		if w.stopped {
			return
		}
		for msg, err := range s.consume(ctx, w.created, w.subjects(), from) {
			var e snapshot.Change
			isEvent := false
			if err == nil {
				e, isEvent, err = w.event(ctx, msg)
			}
			if err != nil {
				yield(snapshot.Change{}, err)
				return
			}
			if isEvent && !yield(e, nil) {
				return
			}
		}
	}
}

// A watcher turns messages into events.
type watcher struct {
	store   *Store
	options snapshot.WatchOptions
	created time.Time                // when the stream of records was created
	open    map[string]snapshot.Info // runs whose records are watched
	stopped bool                     // the caller has stopped the iteration
}

func (w *watcher) subjects() []string {
	n := w.store.names
	if id := w.options.RunID; id != "" {
		return []string{n.run(id), n.free(id), n.inbox(id)}
	}
	all := []string{n.all("r"), n.all("f")}
	if w.options.Messages {
		all = append(all, n.all("m"))
	}
	return all
}

// begin yields an event for each existing run, unless the watcher continues after a position. It
// returns the sequence of the first message to read.
func (w *watcher) begin(ctx context.Context, yield func(snapshot.Change, error) bool) (from uint64, err error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	if w.options.RunID != "" {
		if err := snapshot.CheckRunID(w.options.RunID); err != nil {
			return 0, err
		}
	}
	info, err := w.store.streamInfo(ctx)
	if err != nil {
		return 0, err
	}
	w.created = info.Created
	switch {
	case w.options.After != "":
		return w.after(info)
	case w.options.RunID != "":
		return w.beginRun(ctx, yield)
	}
	return info.State.LastSeq + 1, w.list(ctx, info.State.LastSeq, yield)
}

// beginRun yields an event for the watched run, if it exists. Reading continues after the message
// that the event shows, not at the end of the stream: the message and the end may be reported by
// different servers, and a server that does not yet know that it no longer leads the stream may
// report an old state.
func (w *watcher) beginRun(ctx context.Context, yield func(snapshot.Change, error) bool) (from uint64, err error) {
	h, err := w.store.head(ctx, w.options.RunID)
	if errors.Is(err, snapshot.ErrNotFound) {
		return h.seq + 1, nil
	} else if err != nil {
		return 0, err
	}
	w.stopped = !yield(snapshot.Change{Info: h.info}, nil)
	return h.seq + 1, nil
}

// streamInfo returns the state of the stream of records.
func (s *Store) streamInfo(ctx context.Context) (info *jetstream.StreamInfo, err error) {
	err = s.retry(ctx, s.api+"STREAM.INFO."+s.names.records(), func(ctx context.Context) error {
		info, err = s.records.Info(ctx)
		return err
	})
	return info, err
}

// after returns the sequence that follows a position.
func (w *watcher) after(info *jetstream.StreamInfo) (uint64, error) {
	stream, at, ok := strings.Cut(w.options.After, "-")
	seq, err := strconv.ParseUint(at, 10, 64)
	switch {
	case !ok || err != nil:
		return 0, fmt.Errorf("%w: After %.80q; want the Position of an event from this store", snapshot.ErrReset, w.options.After)
	case stream != epoch(info.Created):
		return 0, fmt.Errorf("%w: After %.80q belongs to a stream that no longer exists", snapshot.ErrReset, w.options.After)
	case seq > info.State.LastSeq:
		return 0, fmt.Errorf("%w: After %.80q is beyond the end of the stream, which is at %d", snapshot.ErrReset, w.options.After, info.State.LastSeq)
	}
	return seq + 1, nil
}

// epoch returns a string that distinguishes a stream from earlier and later streams with the same
// name.
func epoch(created time.Time) string { return strconv.FormatInt(created.UnixNano(), 10) }

// list yields an event for each existing run, with the run's state after the message with sequence
// last in the stream of records, or with a later state. The events have no positions, since a
// watcher could not continue between them.
func (w *watcher) list(ctx context.Context, last uint64, yield func(snapshot.Change, error) bool) error {
	w.store.reindexLagging(ctx)
	shown := make(map[string]stamp)
	err := w.store.eachLatest(ctx, func(is *foundRun) bool {
		shown[is.info.RunID] = is.shown
		w.stopped = !yield(snapshot.Change{Info: is.info}, nil)
		return !w.stopped
	})
	if err != nil || w.stopped {
		return err
	}
	return w.correct(ctx, last, shown, yield)
}

// correct yields events for the changes that the index does not show yet, since the index is
// written after the records. It covers the changes up to the message with sequence last; later
// messages are read anyway.
func (w *watcher) correct(ctx context.Context, last uint64, shown map[string]stamp, yield func(snapshot.Change, error) bool) error {
	stored, err := w.store.storedStamps(ctx)
	if err != nil {
		return err
	}
	for id, is := range stored {
		was, ok := shown[id]
		if delete(shown, id); ok && is.isShown(was) || is.changed() > last {
			continue
		}
		info, err := w.store.Info(ctx, id)
		if errors.Is(err, snapshot.ErrNotFound) { // the run was deleted in the meantime
			continue
		} else if err != nil {
			return err
		}
		if w.stopped = !yield(snapshot.Change{Info: info}, nil); w.stopped {
			return nil
		}
	}
	for id := range shown {
		e, isEvent, err := w.deletion(ctx, id, last)
		if err != nil {
			return err
		}
		if w.stopped = isEvent && !yield(e, nil); w.stopped {
			return nil
		}
	}
	return nil
}

// deletion returns the event for a run that was deleted by the message with sequence last or by an
// earlier one.
func (w *watcher) deletion(ctx context.Context, id string, last uint64) (e snapshot.Change, isEvent bool, err error) {
	subject := w.store.names.run(id)
	m, err := w.store.message(ctx, query{Last: subject})
	switch {
	case errors.Is(err, errNotFound): // the message about the deletion is kept only for a while
		return snapshot.Change{Info: snapshot.Info{RunID: id}, Deleted: true}, true, nil
	case err != nil || m.kind != kindDeleted || m.seq > last:
		return e, false, err
	}
	e.Deleted = true
	e.Info, err = snapshot.DecodeInfo(m.info)
	return e, err == nil, err
}

// event returns the event for a message, if the message causes one.
func (w *watcher) event(ctx context.Context, msg *storedMessage) (e snapshot.Change, isEvent bool, err error) {
	class, id := parse(msg.Subject)
	if class == "r" {
		e, isEvent, err = w.runEvent(ctx, id, msg)
	} else if e.Info, err = w.store.Info(ctx, id); err == nil { // metadata or the run's messages have changed
		isEvent = true
	} else if errors.Is(err, snapshot.ErrNotFound) {
		err = nil
	}
	e.Position = epoch(w.created) + "-" + strconv.FormatUint(msg.Seq, 10)
	return e, isEvent, err
}

// runEvent returns the event for a message of a run.
func (w *watcher) runEvent(ctx context.Context, id string, msg *storedMessage) (e snapshot.Change, isEvent bool, err error) {
	m, err := decode(msg)
	if err != nil {
		return e, false, err
	}
	if m.kind == kindAppended {
		return w.recordsEvent(ctx, id, m)
	}
	h := &head{message: *m}
	if h.info, err = snapshot.DecodeInfo(m.info); err != nil {
		return e, false, fmt.Errorf("snapshot: run %s: %w", id, err)
	}
	h.info.LastSeq, h.info.Open = m.last, m.kind == kindOpened
	if m.kind != kindDeleted {
		if err := w.store.readFree(ctx, h); err != nil {
			return e, false, err
		}
	}
	if delete(w.open, id); m.kind == kindOpened && w.options.Records {
		w.open[id] = h.info
	}
	e = snapshot.Change{Info: h.info, Deleted: m.kind == kindDeleted}
	err = w.addRecords(ctx, &e, m)
	return e, err == nil, err
}

// recordsEvent returns the event for appended records, if the watcher wants records.
func (w *watcher) recordsEvent(ctx context.Context, id string, m *message) (e snapshot.Change, isEvent bool, err error) {
	if !w.options.Records {
		return e, false, nil
	}
	info, known := w.open[id]
	if !known {
		if info, err = w.store.Info(ctx, id); errors.Is(err, snapshot.ErrNotFound) {
			return e, false, nil
		} else if err != nil {
			return e, false, err
		}
		w.open[id] = info
	}
	info.LastSeq = m.last
	e = snapshot.Change{Info: info}
	err = w.addRecords(ctx, &e, m)
	return e, err == nil, err
}

func (w *watcher) addRecords(ctx context.Context, e *snapshot.Change, m *message) error {
	if !w.options.Records || m.kind == kindDeleted {
		return nil
	}
	for rec, err := range w.store.decodeRecords(ctx, e.Info.RunID, m) {
		if err != nil {
			return err
		}
		e.Records = append(e.Records, rec)
	}
	return nil
}
