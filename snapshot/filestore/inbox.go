package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// The inbox of a run is the directory runs/<run ID>/inbox. Each message is a file in this
// directory, named after the message's ID. The file consists of a header and a frame with one
// record. It is written under a temporary name, synced, and linked to its final name, which fails
// if that name is taken. So a message is complete as soon as it has its final name, and the first
// message with a given ID wins.

const (
	refusedSuffix = ".refused"

	// maxMessage is the maximum size of a message's file.
	maxMessage = 16 << 20

	// abandonedAfter is the age after which a temporary file is certainly no longer being
	// written.
	abandonedAfter = time.Hour
)

// Post implements [snapshot.Inbox].
func (s *Store) Post(ctx context.Context, runID string, m snapshot.Message) error {
	d, err := s.checkedDir(ctx, runID)
	if err != nil {
		return err
	}
	if err := m.Check(runID); err != nil {
		return err
	}
	data, err := encodeMessage(runID, &m)
	if err != nil {
		return err
	}
	if len(data) > maxMessage {
		return fmt.Errorf("snapshot: a message of %d bytes for run %s, want at most %d", len(data), runID, maxMessage)
	}
	if err := d.checkExists(ctx); err != nil {
		return err
	}
	switch err := d.post(m.ID(), data); {
	case err == nil, errors.Is(err, snapshot.ErrPosted):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return storekit.NotFoundError(runID) // deleted meanwhile
	default:
		return fmt.Errorf("snapshot: message for run %s: %w", runID, unavailable(err))
	}
}

func (d *runDir) post(id string, data []byte) error {
	dir := d.path(inboxName)
	if err := mkdirSynced(d.disk, dir); err != nil {
		return err
	}
	name := filepath.Join(dir, id)
	tmp := tmpName(name)
	if _, err := writeSynced(d.disk, tmp, bytes.NewReader(data)); err != nil {
		return err
	}
	err := d.disk.Link(tmp, name)
	if removed := remove(d.disk, tmp); err == nil && removed != nil {
		d.store.warn(d.runID, fmt.Errorf("snapshot: message for run %s: %w", d.runID, removed)) // the file does no harm
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return storekit.PostedError(d.runID, id)
	case err != nil:
		return err
	}
	return d.disk.SyncDir(dir)
}

// checkExists returns ErrNotFound if the run does not exist.
func (d *runDir) checkExists(ctx context.Context) error {
	if meta, err := os.Lstat(d.path(metaName)); err == nil && meta.Mode().IsRegular() && meta.Size() > 0 { // a meta file has content only once the run is created
		return nil
	}
	r, err := d.read(ctx)
	if err == nil && !r.found {
		return storekit.NotFoundError(d.runID)
	}
	return err
}

// Messages implements [snapshot.Inbox]. It renames a file in the inbox that is not a message to
// *.refused, and reports a warning.
func (s *Store) Messages(ctx context.Context, runID string) ([]snapshot.Message, error) {
	d, err := s.checkedDir(ctx, runID)
	if err != nil {
		return nil, err
	}
	inbox := d.path(inboxName)
	err = checkDir(inbox)
	var entries []fs.DirEntry
	if err == nil {
		entries, err = s.disk.ReadDir(inbox)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, d.checkExists(ctx)
	} else if err != nil {
		return nil, fmt.Errorf("snapshot: inbox of run %s: %w", runID, err)
	}
	var all []snapshot.Message
	for _, e := range entries {
		if s.isIgnored(runID, e) {
			continue
		}
		m, err := d.message(e.Name())
		var refused *refusedError
		switch {
		case err == nil:
			all = append(all, m)
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		case errors.As(err, &refused):
			d.refuse(e.Name(), refused)
		default:
			return nil, fmt.Errorf("snapshot: inbox of run %s: %w", runID, err)
		}
	}
	storekit.SortMessages(all)
	return all, nil
}

// isIgnored reports whether an entry in an inbox is certainly not a message. It also removes
// temporary files left behind by a crash.
func (s *Store) isIgnored(runID string, e fs.DirEntry) bool {
	name := e.Name()
	if filepath.Ext(name) == tmpSuffix {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandonedAfter {
			_ = remove(s.disk, s.run(runID, inboxName, name))
		}
		return true
	}
	return name[0] == '.' || strings.Contains(name, refusedSuffix)
}

// refusedError reports that a file in a run's inbox is not a message for that run.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// message reads one message. If the error is a *refusedError, the file is not a message. Any
// other error says nothing about the content of the file.
func (d *runDir) message(id string) (snapshot.Message, error) {
	data, err := readFile(d.disk, d.path(inboxName, id), maxMessage)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, snapshot.ErrUnavailable):
		return snapshot.Message{}, err
	case err != nil && !errors.Is(unavailable(err), snapshot.ErrUnavailable), errors.Is(err, fs.ErrPermission):
		return snapshot.Message{}, &refusedError{err}
	case err != nil:
		return snapshot.Message{}, err
	}
	m, err := decodeMessage(d.runID, id, data)
	if err != nil {
		return snapshot.Message{}, &refusedError{err}
	}
	return m, nil
}

// refuse renames a file that is not a message, so that it is reported only once.
func (d *runDir) refuse(name string, err error) {
	from := d.path(inboxName, name)
	aside := unusedName(from + refusedSuffix)
	err = fmt.Errorf("snapshot: run %s: %s in its inbox is not a message and is renamed to %s: %w", d.runID, name, filepath.Base(aside), err)
	if renamed := d.disk.Rename(from, aside); renamed != nil && !errors.Is(renamed, fs.ErrNotExist) {
		err = errors.Join(err, renamed)
	}
	d.store.warn(d.runID, err)
}

// Remove implements [snapshot.Inbox].
func (s *Store) Remove(ctx context.Context, runID string, ids ...string) error {
	d, err := s.checkedDir(ctx, runID)
	if err != nil {
		return err
	}
	dir := d.path(inboxName)
	if err := checkDir(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("snapshot: inbox of run %s: %w", runID, err)
	}
	for _, id := range ids {
		if err := snapshot.CheckRunID(id); err != nil { // an ID that passes this check cannot lead to another directory
			return fmt.Errorf("snapshot: %.140q cannot be the ID of a message", id)
		}
		if err := remove(s.disk, filepath.Join(dir, id)); err != nil {
			return fmt.Errorf("snapshot: inbox of run %s: %w", runID, err)
		}
	}
	if err := s.disk.SyncDir(dir); err != nil {
		return fmt.Errorf("snapshot: inbox of run %s: %w", runID, err)
	}
	return nil
}

// encodeMessage returns the content of a message's file.
func encodeMessage(runID string, m *snapshot.Message) ([]byte, error) {
	info := snapshot.Info{RunID: runID, Status: snapshot.StatusRunning, Generation: m.Generation, Created: m.Record.Time, Updated: m.Record.Time}
	data, err := appendHeader(nil, &header{info: info})
	if err != nil {
		return nil, err
	}
	at := len(data)
	data, err = snapshot.AppendRecord(beginFrame(data, frameRecords), &m.Record)
	if err != nil {
		return nil, err
	}
	return endFrame(data, at, int64(at), int64(at))
}

// errNotMessage means that a file does not consist of the frames of a message.
var errNotMessage = errors.New("it does not hold exactly one record")

// decodeMessage decodes the content of a message's file. The error is ErrFormat if the file has a
// newer version. It is another error if the file is not the message with the given ID for the given
// run.
func decodeMessage(runID, id string, data []byte) (snapshot.Message, error) {
	in := frameReaderOf(id, data)
	h, _, err := in.header(runID)
	if err != nil {
		return snapshot.Message{}, err
	}
	var frames []frame
	for f, err := range in.frames() {
		if err != nil {
			return snapshot.Message{}, err
		}
		frames = append(frames, *f)
	}
	switch {
	case in.end < in.size:
		return snapshot.Message{}, fmt.Errorf("its end is missing from byte %d", in.end)
	case len(frames) != 1 || frames[0].kind != frameRecords:
		return snapshot.Message{}, errNotMessage
	}
	rec, err := snapshot.DecodeRecord(frames[0].body)
	if err != nil {
		return snapshot.Message{}, err
	}
	if rec.Seq != 0 {
		return snapshot.Message{}, errNotMessage
	}
	rec.RunID = runID
	m := snapshot.Message{Generation: h.info.Generation, Record: rec}
	if err := m.Check(runID); err != nil {
		return snapshot.Message{}, err
	}
	if m.ID() != id {
		return snapshot.Message{}, fmt.Errorf("it holds the message %s", m.ID())
	}
	return m, nil
}
