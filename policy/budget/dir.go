package budget

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// A Dir is a storage in a directory. It outlives the process and can be shared by
// several processes on one machine. Add returns after the amount has been synced to
// disk. A Dir is safe for concurrent use. Create one with [OpenDir].
//
// Each account is a file to which Add appends a line. The file grows by about 200 bytes
// per call. [Dir.Prune] removes accounts that are no longer used, such as those of past
// days.
type Dir struct {
	root *os.Root

	mu    sync.Mutex
	files map[string]*file
}

// A file holds what has been read from an account's file.
type file struct {
	read int64
	sum  Amount
	last []byte // the last line read
}

// OpenDir opens the directory at path and creates it if it does not exist. Symbolic
// links that lead out of the directory are not followed. The caller must call Close.
func OpenDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("budget: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("budget: %w", err)
	}
	return &Dir{root: root, files: make(map[string]*file)}, nil
}

// Close releases the directory. The storage must not be used afterwards.
func (d *Dir) Close() error { return d.root.Close() }

// Prune removes the accounts to which nothing has been added since the given time, and returns
// their number. Since a removed account counts as zero, the time must be before everything that a
// limit still counts: before the current day for a daily budget, and at least two minutes ago for a
// limiter of package ratelimit. The budget of a run that can be resumed must not be pruned. Prune
// does not touch files that are not accounts.
func (d *Dir) Prune(ctx context.Context, before time.Time) (removed int, err error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return 0, fmt.Errorf("budget: %w", err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return removed, fmt.Errorf("budget: %w", err)
		}
		ok, err := d.pruneFile(e.Name(), before)
		if err != nil {
			return removed, fmt.Errorf("budget: %w", err)
		}
		if ok {
			removed++
		}
	}
	return removed, nil
}

func (d *Dir) pruneFile(name string, before time.Time) (bool, error) {
	if !isAccountFile(name) {
		return false, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	info, err := d.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // another process was faster
		delete(d.files, name)
		return false, nil
	case err != nil:
		return false, err
	case !info.Mode().IsRegular() || !info.ModTime().Before(before):
		return false, nil
	}
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	delete(d.files, name)
	return true, nil
}

// A line is one line of an account's file.
type line struct {
	Account string    `json:"account"`
	At      time.Time `json:"at"`
	Amount
}

// Add implements Storage.
func (d *Dir) Add(_ context.Context, account string, a Amount) (Amount, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := nameOf(account)
	flags := os.O_RDWR | os.O_APPEND
	if !a.IsZero() {
		flags |= os.O_CREATE
	}
	f, err := d.root.OpenFile(name, flags, 0o600)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		delete(d.files, name)
		return Amount{}, nil
	case err != nil:
		return Amount{}, fmt.Errorf("budget: account %q: %w", account, err)
	}
	sum, err := d.addTo(f, name, account, a)
	if err = errors.Join(err, f.Close()); err != nil {
		return Amount{}, fmt.Errorf("budget: account %q: %w", account, err)
	}
	return sum, nil
}

func (d *Dir) addTo(f *os.File, name, account string, a Amount) (Amount, error) {
	if !a.IsZero() {
		data, err := json.Marshal(line{account, time.Now(), a})
		if err != nil {
			return Amount{}, err
		}
		// Begin with a line break, which ends a line that another process left incomplete.
		if _, err := f.Write(append(append([]byte{'\n'}, data...), '\n')); err != nil {
			return Amount{}, err
		}
		if err := f.Sync(); err != nil {
			return Amount{}, err
		}
	}
	known := d.files[name]
	if known == nil || !known.isPartOf(f) {
		known = new(file)
		d.files[name] = known
	}
	return known.readNew(f, account)
}

// isPartOf reports whether the file still contains the lines that have been read. The result is
// false if another process has pruned the account and created the file again. Comparing the last
// line is enough: no two lines are equal, since each contains the time at which it was written.
func (k *file) isPartOf(f *os.File) bool {
	last := make([]byte, len(k.last))
	_, err := f.ReadAt(last, k.read-int64(len(last)))
	return err == nil && bytes.Equal(last, k.last)
}

// readNew reads the complete lines that have been added. A line that was cut off by a crash does
// not count, since the Add that wrote it did not return.
func (k *file) readNew(f *os.File, account string) (Amount, error) {
	data, err := io.ReadAll(io.NewSectionReader(f, k.read, 1<<62))
	if err != nil {
		return Amount{}, err
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	last := k.last
	for text := range bytes.Lines(data[:end]) {
		last = text
		var l line
		if json.Unmarshal(text, &l) != nil {
			continue
		}
		if l.Account != account {
			return Amount{}, fmt.Errorf("its file contains a line for account %q", l.Account)
		}
		k.sum = k.sum.Plus(l.Amount)
	}
	k.read += int64(end)
	k.last = bytes.Clone(last)
	return k.sum, nil
}

// nameOf returns the file name of an account. The account may be any string.
func nameOf(account string) string {
	sum := sha256.Sum256([]byte(account))
	return hex.EncodeToString(sum[:16]) + suffix
}

const suffix = ".account"

func isAccountFile(name string) bool {
	id, ok := strings.CutSuffix(name, suffix)
	raw, err := hex.DecodeString(id)
	return ok && err == nil && len(raw) == 16
}
