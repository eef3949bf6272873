package filestore_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/reprise-go/reprise/snapshot/filestore"
)

// A crashDisk fails after a given number of operations, and knows what the disk would hold after a
// power cut at that time.
type crashDisk struct {
	filestore.Disk // for reading
	root           string

	mu      sync.Mutex
	left    int // number of operations left before it fails
	done    []string
	now     tree // as processes see it
	durable tree // what is certain to survive a power cut
	removed tree // removed names; the removal may reach the disk before other changes
}

// A tree holds files by name, relative to the root. Directories are nil.
type tree map[string]*content

type content struct {
	data   []byte
	synced []byte // certain to be on the disk
	writes []span // after the last sync
}

// A span is a part of a file.
type span struct{ from, to int }

var errStopped = errors.New("the process has ended")

func newCrashDisk(root string, operations int) *crashDisk {
	return &crashDisk{Disk: fastDisk{filestore.OSDisk}, root: root, left: operations, now: tree{}, durable: tree{".": nil}, removed: tree{}}
}

// step counts an operation, and reports whether the crash interrupts it.
func (d *crashDisk) step(format string, args ...any) (cut bool, err error) {
	if d.left < 0 {
		return false, errStopped
	}
	d.left--
	if d.left < 0 {
		return true, errStopped
	}
	d.done = append(d.done, fmt.Sprintf(format, args...))
	return false, nil
}

func (d *crashDisk) rel(name string) string {
	rel, err := filepath.Rel(d.root, name)
	if err != nil {
		panic(err)
	}
	return rel
}

func (d *crashDisk) Create(name string) (filestore.DiskFile, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step("create %s", d.rel(name)); err != nil {
		return nil, err
	}
	f, err := fastDisk{filestore.OSDisk}.Create(name)
	if err != nil {
		return nil, err
	}
	c := new(content)
	d.now[d.rel(name)] = c
	return &crashFile{f, d, c, d.rel(name)}, nil
}

func (d *crashDisk) OpenToWrite(name string) (filestore.DiskFile, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step("open %s to write", d.rel(name)); err != nil {
		return nil, err
	}
	f, err := fastDisk{filestore.OSDisk}.OpenToWrite(name)
	if err != nil {
		return nil, err
	}
	return &crashFile{f, d, d.now[d.rel(name)], d.rel(name)}, nil
}

func (d *crashDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step("rename %s to %s", d.rel(from), d.rel(to)); err != nil {
		return err
	}
	from, to = d.rel(from), d.rel(to)
	moved := tree{}
	for name, c := range d.now {
		if rest, ok := strings.CutPrefix(name, from); ok && (rest == "" || rest[0] == '/') {
			moved[to+rest] = c
			delete(d.now, name)
		}
	}
	maps.Copy(d.now, moved)
	return fastDisk{filestore.OSDisk}.Rename(filepath.Join(d.root, from), filepath.Join(d.root, to))
}

func (d *crashDisk) Link(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step("link %s to %s", d.rel(from), d.rel(to)); err != nil {
		return err
	}
	if err := (fastDisk{filestore.OSDisk}).Link(from, to); err != nil {
		return err
	}
	d.now[d.rel(to)] = d.now[d.rel(from)]
	return nil
}

func (d *crashDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step("remove %s", d.rel(name)); err != nil {
		return err
	}
	delete(d.now, d.rel(name))
	d.removed[d.rel(name)] = nil
	return fastDisk{filestore.OSDisk}.Remove(name)
}

func (d *crashDisk) Mkdir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step("mkdir %s", d.rel(name)); err != nil {
		return err
	}
	d.now[d.rel(name)] = nil
	return fastDisk{filestore.OSDisk}.Mkdir(name)
}

// SyncDir makes the names in a directory durable, but not those in its subdirectories.
func (d *crashDisk) SyncDir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step("sync directory %s", d.rel(name)); err != nil {
		return err
	}
	dir := d.rel(name)
	inDir := func(name string, _ *content) bool { return filepath.Dir(name) == dir && name != "." }
	maps.DeleteFunc(d.durable, inDir)
	maps.DeleteFunc(d.removed, inDir)
	for name, c := range d.now {
		if inDir(name, c) {
			d.durable[name] = c
		}
	}
	return nil
}

type crashFile struct {
	filestore.DiskFile
	disk *crashDisk
	c    *content
	name string
}

func (f *crashFile) WriteAt(data []byte, offset int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	cut, err := f.disk.step("write %d bytes to %s", len(data), f.name)
	if cut {
		data = data[:len(data)/2]
	} else if err != nil {
		return 0, err
	}
	f.c.resize(max(len(f.c.data), int(offset)+len(data)))
	copy(f.c.data[offset:], data)
	f.c.writes = append(f.c.writes, span{int(offset), int(offset) + len(data)})
	n, _ := f.DiskFile.WriteAt(data, offset)
	return n, err
}

func (f *crashFile) Allocate(offset, size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if _, err := f.disk.step("allocate %d bytes of %s", size, f.name); err != nil {
		return err
	}
	if err := f.DiskFile.Allocate(offset, size); err != nil {
		return err
	}
	f.c.resize(max(len(f.c.data), int(offset+size)))
	return nil
}

func (f *crashFile) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if _, err := f.disk.step("truncate %s to %d bytes", f.name, size); err != nil {
		return err
	}
	f.c.resize(int(size))
	return f.DiskFile.Truncate(size)
}

// resize changes the size of the content. If it grows, zeros are added at the end.
func (c *content) resize(size int) {
	c.data = append(c.data[:min(size, len(c.data))], make([]byte, max(0, size-len(c.data)))...)
}

func (f *crashFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if _, err := f.disk.step("sync %s", f.name); err != nil {
		return err
	}
	f.c.synced, f.c.writes = slices.Clone(f.c.data), nil
	return nil
}

// reordered, in place of a percentage, means that every other write was kept.
const reordered = -1

// found returns the content after a crash that kept the given percentage of the unsynced data.
func (c *content) found(percent int) []byte {
	same := 0
	for same < min(len(c.data), len(c.synced)) && c.data[same] == c.synced[same] {
		same++
	}
	n := same + (len(c.data)-same)*percent/100
	switch {
	case percent == reordered:
		return c.reordered()
	case percent == 100:
		return c.data
	case n < len(c.synced):
		return slices.Concat(c.data[:n], c.synced[n:])
	}
	return c.data[:n]
}

// reordered returns the content after a crash that kept every other write, counted back from the
// last one. This can happen because blocks reach the disk in any order.
func (c *content) reordered() []byte {
	found := slices.Clone(c.data)
	for i, w := range c.writes {
		if (len(c.writes)-i)%2 == 1 || w.from >= len(found) {
			continue
		}
		lost := found[w.from:min(w.to, len(found))]
		clear(lost)
		if w.from < len(c.synced) {
			copy(lost, c.synced[w.from:])
		}
	}
	return found
}

// worlds returns directories that hold the states the disk may be in after the crash.
func (d *crashDisk) worlds(t *testing.T) map[string]string {
	dirs := make(map[string]string)
	for name, w := range d.found() {
		dirs[name] = filepath.Join(memoryDir(t), "world")
		w.write(t, dirs[name])
	}
	return dirs
}

// found returns the states the disk may be in after the crash. The names are the durable ones, the
// durable ones without those removed since, or all names. Each file contains what was synced, plus
// none, half, every other write or all of the rest. If only the process ended, all names and all
// data remain.
func (d *crashDisk) found() map[string]world {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := maps.Clone(d.durable)
	maps.DeleteFunc(left, func(name string, _ *content) bool { _, gone := d.removed[name]; return gone })
	worlds := make(map[string]world)
	for names, found := range map[string]tree{"durable names": d.durable, "durable names without removed ones": left, "all names": d.now} {
		for _, percent := range []int{0, 50, reordered, 100} {
			if len(left) == len(d.durable) && names == "durable names without removed ones" || (percent == 50 || percent == reordered) && names == "durable names" {
				continue // equal to another world
			}
			worlds[fmt.Sprintf("%s, %d%% of the data", names, percent)] = found.world(percent)
		}
	}
	return worlds
}

// world returns the tree after a crash that kept the given percentage of the unsynced data.
func (tr tree) world(percent int) world {
	w := make(world)
	for _, name := range slices.Sorted(maps.Keys(tr)) { // directories come before their contents
		if _, ok := w[filepath.Dir(name)]; !ok && filepath.Dir(name) != "." {
			continue // the directory was lost
		}
		w[name] = nil
		if c := tr[name]; c != nil {
			w[name] = append([]byte{}, c.found(percent)...) // not nil, even if empty
		}
	}
	return w
}
