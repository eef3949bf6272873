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

// A Dir is a storage in a directory. The directory outlives the process, and several processes on
// one machine can share it. Writes are atomic, even in a crash, but are not synced to disk, since a
// cache may lose entries. A Dir is safe for concurrent use. Create one with [OpenDir].
type Dir struct{ root *os.Root }

// OpenDir opens the directory at path. If the directory does not exist, OpenDir creates it. The
// directory may be inside that of a filestore.Store, for example as "cache". Symbolic links that
// lead out of the directory are not followed. The caller must call Close.
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

// Close releases the directory. The storage must not be used afterwards.
func (d *Dir) Close() error { return d.root.Close() }

// Get implements Storage. If the file is damaged, Get deletes it and returns an error.
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
	value, expires, err := decode(file)
	switch {
	case err != nil:
		return nil, false, errors.Join(fmt.Errorf("cache: %s: %w", name, err), d.Delete(ctx, key))
	case hasExpired(expires):
		return nil, false, d.Delete(ctx, key)
	}
	return value, true, nil
}

// Put implements Storage.
func (d *Dir) Put(_ context.Context, key string, value []byte, expires time.Time) error {
	name, err := nameOf(key)
	if err != nil {
		return err
	}
	folder, _, _ := strings.Cut(name, "/")
	if err := d.root.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cache: %w", err)
	}
	temp := name + "." + rand.Text() + tempSuffix
	f, err := d.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	_, err = f.Write(encode(value, expires))
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.root.Rename(temp, name)
	}
	if err != nil {
		return fmt.Errorf("cache: %w", errors.Join(err, d.root.Remove(temp)))
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

// Purge deletes expired and damaged files, and temporary files older than an hour that
// crashes have left behind. It returns the number of deleted files.
func (d *Dir) Purge(ctx context.Context) (deleted int, err error) {
	var problems []error
	err = fs.WalkDir(d.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // deleted concurrently
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

// isOld reports whether Purge should delete the file.
func (d *Dir) isOld(name string, entry fs.DirEntry) bool {
	if strings.HasSuffix(name, tempSuffix) {
		info, err := entry.Info()
		return err == nil && time.Since(info.ModTime()) > time.Hour
	}
	if len(name) != len("ab/")+2*keyBytes-2 {
		return false // not a file of the cache
	}
	file, err := d.root.ReadFile(name)
	if err != nil {
		return false
	}
	_, expires, err := decode(file)
	return err != nil || hasExpired(expires)
}

const (
	tempSuffix = ".tmp"
	keyBytes   = 32
)

// nameOf returns the file name for a key.
func nameOf(key string) (string, error) {
	if b, err := hex.DecodeString(key); err != nil || len(b) != keyBytes || key != strings.ToLower(key) {
		return "", fmt.Errorf("cache: the key %q is not %d hexadecimal digits", key, 2*keyBytes)
	}
	return key[:2] + "/" + key[2:], nil
}

func hasExpired(expires time.Time) bool { return !expires.IsZero() && !time.Now().Before(expires) }

// A file consists of 4 bytes with the CRC-32C of the rest of the file, 8 bytes with the
// expiration time in nanoseconds since 1970 (0 means never), and the value.
const headerBytes = 12

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encode(value []byte, expires time.Time) []byte {
	file := make([]byte, headerBytes, headerBytes+len(value))
	if !expires.IsZero() {
		binary.BigEndian.PutUint64(file[4:], uint64(expires.UnixNano()))
	}
	file = append(file, value...)
	binary.BigEndian.PutUint32(file, crc32.Checksum(file[4:], castagnoli))
	return file
}

var errDamaged = errors.New("damaged file")

func decode(file []byte) (value []byte, expires time.Time, err error) {
	if len(file) < headerBytes || binary.BigEndian.Uint32(file) != crc32.Checksum(file[4:], castagnoli) {
		return nil, time.Time{}, errDamaged
	}
	if nanos := binary.BigEndian.Uint64(file[4:]); nanos != 0 {
		expires = time.Unix(0, int64(nanos))
	}
	return file[headerBytes:], expires, nil
}
