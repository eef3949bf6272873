package cache

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"strings"
	"time"
)

// Dir is a storage in a directory, which outlives the process and which several
// processes of one machine can use. A value is there as a whole or not at all,
// also after a crash; nothing is synced to the disk, since a cache may lose what
// it has. It is for many goroutines. Make one with [OpenDir].
type Dir struct{ root *os.Root }

// OpenDir opens the directory, which is made if there is none. It can be one
// inside that of a filestore.Store, such as its "cache". No link leads out of
// it.
func OpenDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return &Dir{root}, nil
}

// Close frees the directory. The storage must not be used after it.
func (d *Dir) Close() error { return d.root.Close() }

// Get implements Storage. A file that is damaged is an error.
func (d *Dir) Get(ctx context.Context, key string) ([]byte, bool, error) {
	name, err := nameOf(key)
	if err != nil {
		return nil, false, err
	}
	file, err := d.root.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("cache: %w", err)
	}
	value, until, err := decode(file)
	switch {
	case err != nil:
		return nil, false, errors.Join(fmt.Errorf("cache: %s: %w", name, err), d.Delete(ctx, key))
	case isOver(until):
		return nil, false, d.Delete(ctx, key)
	}
	return value, true, nil
}

// Put implements Storage.
func (d *Dir) Put(_ context.Context, key string, value []byte, until time.Time) error {
	name, err := nameOf(key)
	if err != nil {
		return err
	}
	folder, _, _ := strings.Cut(name, "/")
	if err := d.root.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cache: %w", err)
	}
	fresh := name + "." + rand.Text() + temporary
	f, err := d.root.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	_, err = f.Write(encode(value, until))
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.root.Rename(fresh, name)
	}
	if err != nil {
		return fmt.Errorf("cache: %w", errors.Join(err, d.root.Remove(fresh)))
	}
	return nil
}

// Delete implements Storage.
func (d *Dir) Delete(_ context.Context, key string) error {
	name, err := nameOf(key)
	if err != nil {
		return err
	}
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cache: %w", err)
	}
	return nil
}

// Purge deletes what is out of date or damaged, and what crashes have left
// behind more than an hour ago. It returns how many files it deleted.
func (d *Dir) Purge(ctx context.Context) (deleted int, err error) {
	var problems []error
	err = fs.WalkDir(d.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // somebody else deleted it
			return nil
		case err != nil || ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case !entry.Type().IsRegular() || !d.isOld(name, entry):
			return nil
		}
		if err := d.root.Remove(name); err == nil {
			deleted++
		} else if !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
		return nil
	})
	if err = errors.Join(append(problems, err)...); err != nil {
		return deleted, fmt.Errorf("cache: %w", err)
	}
	return deleted, nil
}

// isOld reports whether the file can be deleted.
func (d *Dir) isOld(name string, entry fs.DirEntry) bool {
	if strings.HasSuffix(name, temporary) {
		info, err := entry.Info()
		return err == nil && time.Since(info.ModTime()) > time.Hour
	}
	if len(name) != len("ab/")+2*keyBytes-2 {
		return false // of somebody else
	}
	file, err := d.root.ReadFile(name)
	if err != nil {
		return false
	}
	_, until, err := decode(file)
	return err != nil || isOver(until)
}

const (
	temporary = ".tmp"
	keyBytes  = 32
)

// nameOf is the file of a key.
func nameOf(key string) (string, error) {
	if b, err := hex.DecodeString(key); err != nil || len(b) != keyBytes || key != strings.ToLower(key) {
		return "", fmt.Errorf("cache: the key %q is not %d hexadecimal digits", key, 2*keyBytes)
	}
	return key[:2] + "/" + key[2:], nil
}

func isOver(until time.Time) bool { return !until.IsZero() && !time.Now().Before(until) }

// A file is the CRC-32C of the rest in 4 bytes; when it is out of date, in
// nanoseconds since 1970 in 8 bytes, 0 for never; and the value.
const headBytes = 12

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encode(value []byte, until time.Time) []byte {
	file := make([]byte, headBytes, headBytes+len(value))
	if !until.IsZero() {
		binary.BigEndian.PutUint64(file[4:], uint64(until.UnixNano()))
	}
	file = append(file, value...)
	binary.BigEndian.PutUint32(file, crc32.Checksum(file[4:], castagnoli))
	return file
}

var errDamaged = errors.New("it is damaged")

func decode(file []byte) (value []byte, until time.Time, err error) {
	if len(file) < headBytes || binary.BigEndian.Uint32(file) != crc32.Checksum(file[4:], castagnoli) {
		return nil, time.Time{}, errDamaged
	}
	if at := binary.BigEndian.Uint64(file[4:]); at != 0 {
		until = time.Unix(0, int64(at))
	}
	return file[headBytes:], until, nil
}
