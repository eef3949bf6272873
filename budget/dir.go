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
	"sync"
)

// Dir is a storage in a directory, which outlives the process and which several
// processes of one machine can use. An amount is on the disk when Add returns. It
// is for many goroutines. Make one with [OpenDir].
//
// An account is a file to which each Add appends a line. It grows by about 200
// bytes for each call; the accounts of days that are over can be removed.
type Dir struct {
	root *os.Root

	mu    sync.Mutex
	files map[string]*file
}

// file is what was read of an account so far.
type file struct {
	read int64
	sum  Amount
}

// OpenDir opens the directory, which is made if there is none. No link leads out of
// it.
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

// Close frees the directory. The storage must not be used after it.
func (d *Dir) Close() error { return d.root.Close() }

// line is one line of an account.
type line struct {
	Account string `json:"account"`
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
		data, err := json.Marshal(line{account, a})
		if err != nil {
			return Amount{}, err
		}
		// The line break comes first: what another process has not finished is then
		// a line of its own.
		if _, err := f.Write(append(append([]byte{'\n'}, data...), '\n')); err != nil {
			return Amount{}, err
		}
		if err := f.Sync(); err != nil {
			return Amount{}, err
		}
	}
	known := d.files[name]
	if known == nil {
		known = new(file)
		d.files[name] = known
	}
	return known.readOn(f, account)
}

// readOn reads the whole lines that have been added. A line that was cut off by a
// crash was never on account: Add had not returned.
func (k *file) readOn(f *os.File, account string) (Amount, error) {
	data, err := io.ReadAll(io.NewSectionReader(f, k.read, 1<<62))
	if err != nil {
		return Amount{}, err
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	for text := range bytes.Lines(data[:end]) {
		var l line
		if json.Unmarshal(text, &l) != nil {
			continue
		}
		if l.Account != account {
			return Amount{}, fmt.Errorf("its file has a line of account %q", l.Account)
		}
		k.sum = k.sum.Plus(l.Amount)
	}
	k.read += int64(end)
	return k.sum, nil
}

// nameOf is the name of the file of an account, which may be any text.
func nameOf(account string) string {
	sum := sha256.Sum256([]byte(account))
	return hex.EncodeToString(sum[:16]) + ".account"
}
