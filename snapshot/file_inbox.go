package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The inbox of a run is the directory runs/<run ID>/inbox. A message is a file
// in it, named by its ID: a header, and a frame with one record. It is written
// under a temporary name, synced, and linked to its own, which fails if that
// is taken: so it is whole from the beginning, and the first of its ID.

const (
	inboxName     = "inbox"
	refusedSuffix = ".refused"

	// messageMax is how many bytes a message may have as a file.
	messageMax = 16 << 20

	// abandonedAfter is how old a temporary file is that nobody writes any more.
	abandonedAfter = time.Hour
)

// Post implements [Inbox].
func (s *FileStore) Post(ctx context.Context, runID string, m Message) error {
	if err := checkMessage(ctx, runID, &m); err != nil {
		return err
	}
	data, err := encodeMessage(runID, &m)
	if err != nil {
		return err
	}
	if len(data) > messageMax {
		return fmt.Errorf("snapshot: a message of %d bytes for run %s: at most %d are allowed", len(data), runID, messageMax)
	}
	if err := s.mustBeThere(runID); err != nil {
		return err
	}
	switch err := s.post(runID, m.ID(), data); {
	case err == nil, errors.Is(err, ErrPosted):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return noRun(runID) // deleted meanwhile
	default:
		return fmt.Errorf("snapshot: message for run %s: %w", runID, err)
	}
}

func (s *FileStore) post(runID, id string, data []byte) error {
	dir := s.run(runID, inboxName)
	if err := mkdirSynced(s.disk, dir); err != nil {
		return err
	}
	name := filepath.Join(dir, id)
	tmp := fmt.Sprintf("%s.%d-%d%s", name, os.Getpid(), tmpNumber.Add(1), tmpSuffix)
	if err := writeSynced(s.disk, tmp, data); err != nil {
		return err
	}
	err := s.disk.Link(tmp, name)
	if removed := remove(s.disk, tmp); err == nil && removed != nil {
		s.warn(runID, fmt.Errorf("snapshot: message for run %s: %w", runID, removed)) // which is only litter
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return posted(runID, id)
	case err != nil:
		return err
	}
	return s.disk.SyncDir(dir)
}

// mustBeThere is ErrNotFound for a run that was never begun.
func (s *FileStore) mustBeThere(runID string) error {
	there, err := s.isThere(runID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("snapshot: run %s: %w", runID, err)
	}
	if !there {
		return noRun(runID)
	}
	return nil
}

// Messages implements [Inbox]. What is in the inbox and is no message is told
// to those who WithWarnings has called, and set aside as *.refused.
func (s *FileStore) Messages(ctx context.Context, runID string) ([]Message, error) {
	if err := check(ctx, runID); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.run(runID, inboxName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.mustBeThere(runID)
	} else if err != nil {
		return nil, fmt.Errorf("snapshot: inbox of run %s: %w", runID, err)
	}
	var all []Message
	for _, e := range entries {
		if s.isAside(runID, e) {
			continue
		}
		m, err := s.message(runID, e.Name())
		var refused *refusedError
		switch {
		case err == nil:
			all = append(all, m)
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		case errors.As(err, &refused):
			s.refuse(runID, e.Name(), refused)
		default:
			return nil, fmt.Errorf("snapshot: inbox of run %s: %w", runID, err)
		}
	}
	slices.SortFunc(all, func(a, b Message) int {
		return cmp.Or(a.Record.Time.Compare(b.Record.Time), cmp.Compare(a.ID(), b.ID()))
	})
	return all, nil
}

// isAside reports whether an entry of an inbox is none of the messages and
// known for it. Temporary files that a crash has left are removed.
func (s *FileStore) isAside(runID string, e fs.DirEntry) bool {
	name := e.Name()
	if filepath.Ext(name) == tmpSuffix {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandonedAfter {
			_ = remove(s.disk, s.run(runID, inboxName, name))
		}
		return true
	}
	return name[0] == '.' || strings.Contains(name, refusedSuffix)
}

// refusedError is a file in an inbox that is no message of its run.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// message reads one message. An error that is no *refusedError says nothing
// about it.
func (s *FileStore) message(runID, id string) (Message, error) {
	name := s.run(runID, inboxName, id)
	info, err := os.Lstat(name) // what a link refers to is not in the inbox
	switch {
	case err != nil:
		return Message{}, err
	case !info.Mode().IsRegular():
		return Message{}, &refusedError{errors.New("it is not a file")}
	case info.Size() > messageMax:
		return Message{}, &refusedError{fmt.Errorf("it has %d bytes, of at most %d", info.Size(), messageMax)}
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrPermission) {
		return Message{}, &refusedError{err}
	} else if err != nil {
		return Message{}, err
	}
	m, err := decodeMessage(runID, id, data)
	if err != nil {
		return Message{}, &refusedError{err}
	}
	return m, nil
}

// refuse sets aside what is no message, so that it is told once.
func (s *FileStore) refuse(runID, name string, err error) {
	from := s.run(runID, inboxName, name)
	aside := from + refusedSuffix
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); err != nil {
			break
		}
		aside = fmt.Sprintf("%s%s.%d", from, refusedSuffix, n)
	}
	err = fmt.Errorf("snapshot: run %s: %s in its inbox is no message, and is set aside as %s: %w", runID, name, filepath.Base(aside), err)
	if renamed := s.disk.Rename(from, aside); renamed != nil && !errors.Is(renamed, fs.ErrNotExist) {
		err = errors.Join(err, renamed)
	}
	s.warn(runID, err)
}

// Remove implements [Inbox].
func (s *FileStore) Remove(ctx context.Context, runID, id string) error {
	if err := check(ctx, runID); err != nil {
		return err
	}
	if err := CheckRunID(id); err != nil { // what it allows is no path
		return fmt.Errorf("snapshot: message %.140q is not allowed as an ID", id)
	}
	dir := s.run(runID, inboxName)
	err := s.disk.Remove(filepath.Join(dir, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = s.disk.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("snapshot: inbox of run %s: %w", runID, err)
	}
	return nil
}

// encodeMessage is the file of a message.
func encodeMessage(runID string, m *Message) ([]byte, error) {
	info := Info{RunID: runID, Generation: m.Generation, Created: m.Record.Time, Updated: m.Record.Time}
	data, err := appendFrame(nil, 0, frameHeader, header{Format: FormatVersion, Info: info})
	if err != nil {
		return nil, err
	}
	at := len(data)
	data, err = AppendRecord(beginFrame(data, frameRecords), &m.Record)
	if err != nil {
		return nil, err
	}
	return endFrame(data, at, int64(at))
}

// errNotOne is a file of other frames than a message has.
var errNotOne = errors.New("it does not hold one record")

// decodeMessage reads what encodeMessage made, for a run and under the name
// of its ID. Its error is ErrFormat for what a newer version has written, and
// anything for what is no message of that run.
func decodeMessage(runID, id string, data []byte) (Message, error) {
	p, err := split(runID, id, data)
	switch {
	case err != nil:
		return Message{}, err
	case p.err != nil:
		return Message{}, p.err
	case p.torn != nil:
		return Message{}, fmt.Errorf("its end is missing from byte %d", p.torn.offset)
	case len(p.frames) != 1 || p.frames[0].kind != frameRecords:
		return Message{}, errNotOne
	}
	records, err := p.frames[0].records(nil, runID)
	if err != nil {
		return Message{}, err
	}
	if len(records) != 1 || records[0].Seq != 0 {
		return Message{}, errNotOne
	}
	m := Message{Generation: p.head.Info.Generation, Record: records[0]}
	if err := m.check(); err != nil {
		return Message{}, err
	}
	if m.ID() != id {
		return Message{}, fmt.Errorf("it is %s", m.ID())
	}
	return m, nil
}
