package filestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot/filestore"
)

// sector is the number of bytes that a disk writes as a unit.
const sector = 512

// A powerDisk works like any other disk, but also knows what may be found on it after a power cut.
// Each change that was not synced may have reached the disk or not, independently of the others.
// Every sector of a file may be as it was after any of the writes to it, and the size of a file as
// it was after any change. Each change of a name may be there or not.
type powerDisk struct {
	filestore.Disk
	root string
	cut  func(what string)       // called after every change
	fail func(name string) error // returns the error for the sync of a file; if nil, no sync fails

	together bool // whether the next SyncTogether syncs; toggled by each call

	mu      sync.Mutex
	now     map[string]*inode // by name, relative to the root
	durable map[string]*inode
	pending []nameChange
}

// An inode is a file or, with isDir, a directory.
type inode struct {
	isDir bool
	data  []byte           // as processes see it
	disk  []byte           // what is on the disk for certain
	parts map[int][][]byte // contents of each sector after each later write
	sizes []int            // sizes after each later change
	stuck bool             // a sync has failed: the system treats the data as written, and no later sync writes it
}

// A nameChange is a change of a name in one directory, or a rename from one directory to another.
// It reaches the disk as a whole or not at all.
type nameChange struct {
	dirs   []string
	remove string
	name   string // the name that is added; empty for none
	node   *inode
}

func newPowerDisk(root string, cut func(string)) *powerDisk {
	return &powerDisk{
		Disk: fastDisk{filestore.OSDisk}, root: root, cut: cut,
		now: make(map[string]*inode), durable: map[string]*inode{".": {isDir: true}},
	}
}

func (d *powerDisk) rel(name string) string {
	rel, err := filepath.Rel(d.root, name)
	if err != nil {
		panic(err)
	}
	return rel
}

// change applies a change of a name, and calls cut.
func (d *powerDisk) change(c nameChange) {
	d.mu.Lock()
	c.apply(d.now)
	for _, name := range []string{c.remove, c.name} {
		if dir := filepath.Dir(name); name != "" && !slices.Contains(c.dirs, dir) {
			c.dirs = append(c.dirs, dir)
		}
	}
	d.pending = append(d.pending, c)
	d.mu.Unlock()
	d.cut(fmt.Sprintf("-%s +%s", c.remove, c.name))
}

func (c *nameChange) apply(names map[string]*inode) {
	if c.remove != "" {
		delete(names, c.remove)
	}
	if c.name != "" {
		names[c.name] = c.node
	}
}

func (d *powerDisk) Create(name string) (filestore.DiskFile, error) {
	f, err := d.Disk.Create(name)
	if err != nil {
		return nil, err
	}
	node := &inode{parts: make(map[int][][]byte)}
	d.change(nameChange{name: d.rel(name), node: node})
	return &powerFile{f, d, node, d.rel(name)}, nil
}

func (d *powerDisk) OpenToWrite(name string) (filestore.DiskFile, error) {
	f, err := d.Disk.OpenToWrite(name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return &powerFile{f, d, d.now[d.rel(name)], d.rel(name)}, nil
}

func (d *powerDisk) Rename(from, to string) error {
	if err := d.Disk.Rename(from, to); err != nil {
		return err
	}
	from, to = d.rel(from), d.rel(to)
	d.mu.Lock()
	moved := make(map[string]*inode) // includes the contents of a directory
	for name, node := range d.now {
		if rest, ok := strings.CutPrefix(name, from+"/"); ok {
			moved[to+"/"+rest] = node
			delete(d.now, name)
		}
	}
	maps.Copy(d.now, moved)
	node := d.now[from]
	d.mu.Unlock()
	d.change(nameChange{remove: from, name: to, node: node})
	return nil
}

func (d *powerDisk) Link(from, to string) error {
	if err := d.Disk.Link(from, to); err != nil {
		return err
	}
	d.mu.Lock()
	node := d.now[d.rel(from)]
	d.mu.Unlock()
	d.change(nameChange{name: d.rel(to), node: node})
	return nil
}

func (d *powerDisk) Remove(name string) error {
	if err := d.Disk.Remove(name); err != nil {
		return err
	}
	d.change(nameChange{remove: d.rel(name)})
	return nil
}

func (d *powerDisk) Mkdir(name string) error {
	if err := d.Disk.Mkdir(name); err != nil {
		return err
	}
	d.mu.Lock()
	known := d.now[d.rel(name)]
	d.mu.Unlock()
	if known == nil {
		d.change(nameChange{name: d.rel(name), node: &inode{isDir: true}})
	}
	return nil
}

func (d *powerDisk) SyncDir(name string) error {
	d.mu.Lock()
	dir := d.rel(name)
	d.pending = slices.DeleteFunc(d.pending, func(c nameChange) bool {
		if slices.Contains(c.dirs, dir) {
			c.apply(d.durable)
			return true
		}
		return false
	})
	d.mu.Unlock()
	d.cut("sync " + dir)
	return nil
}

func (d *powerDisk) SyncTogether(filestore.DiskFile) bool {
	d.mu.Lock()
	together := d.together
	d.together = !together
	if together {
		for _, node := range d.now {
			node.sync()
		}
		for _, c := range d.pending {
			c.apply(d.durable)
		}
		d.pending = nil
	}
	d.mu.Unlock()
	if together {
		d.cut("sync together")
	}
	return together
}

type powerFile struct {
	filestore.DiskFile
	disk *powerDisk
	node *inode
	name string
}

// resize changes the size that processes see.
func (n *inode) resize(size int) {
	if size == len(n.data) {
		return
	}
	n.data = append(n.data[:min(size, len(n.data))], make([]byte, max(0, size-len(n.data)))...)
	n.sizes = append(n.sizes, size)
}

// sync makes all written data durable, unless an earlier sync has failed.
func (n *inode) sync() {
	if !n.stuck && !n.isDir {
		n.disk, n.parts, n.sizes = slices.Clone(n.data), make(map[int][][]byte), nil
	}
}

func (f *powerFile) WriteAt(data []byte, offset int64) (int, error) {
	n, err := f.DiskFile.WriteAt(data, offset)
	f.disk.mu.Lock()
	from, to := int(offset), int(offset)+n
	f.node.resize(max(len(f.node.data), to))
	copy(f.node.data[from:], data[:n])
	for s := from / sector; s*sector < to; s++ {
		part := make([]byte, sector)
		copy(part, f.node.data[s*sector:])
		f.node.parts[s] = append(f.node.parts[s], part)
	}
	f.disk.mu.Unlock()
	f.disk.cut(fmt.Sprintf("write %d bytes at %d of %s", n, from, f.name))
	return n, err
}

func (f *powerFile) Allocate(offset, size int64) error {
	if err := f.DiskFile.Allocate(offset, size); err != nil {
		return err
	}
	f.disk.mu.Lock()
	f.node.resize(max(len(f.node.data), int(offset+size)))
	f.disk.mu.Unlock()
	f.disk.cut("allocate " + f.name)
	return nil
}

func (f *powerFile) Truncate(size int64) error {
	if err := f.DiskFile.Truncate(size); err != nil {
		return err
	}
	f.disk.mu.Lock()
	f.node.resize(int(size))
	f.disk.mu.Unlock()
	f.disk.cut("truncate " + f.name)
	return nil
}

func (f *powerFile) Sync() error {
	f.disk.mu.Lock()
	if f.disk.fail != nil && !f.node.stuck {
		if err := f.disk.fail(f.name); err != nil {
			f.node.stuck = true
			f.disk.mu.Unlock()
			return err
		}
	}
	f.node.sync()
	f.disk.mu.Unlock()
	f.disk.cut("sync " + f.name)
	return nil
}

// A choice is one part of what may or may not have reached the disk.
type choice struct {
	node   *inode // nil for a change of a name
	sector int    // -1 for the size
	change int
	of     int // number of changes; from none to all of them may have reached the disk
}

func (d *powerDisk) choices() (all []choice) {
	nodes := make(map[*inode]bool)
	add := func(n *inode) {
		if n == nil || nodes[n] || n.isDir {
			return
		}
		nodes[n] = true
		for _, s := range slices.Sorted(maps.Keys(n.parts)) {
			all = append(all, choice{node: n, sector: s, of: len(n.parts[s])})
		}
		if len(n.sizes) > 0 {
			all = append(all, choice{node: n, sector: -1, of: len(n.sizes)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.durable)) {
		add(d.durable[name])
	}
	for i, c := range d.pending {
		add(c.node)
		all = append(all, choice{change: i, of: 1})
	}
	return all
}

// A world is what may be found after a power cut. It maps the names of files to their contents, and
// the names of directories to nil.
type world map[string][]byte

// found returns the world in which the first made[i] changes of each choice all[i] have reached the disk.
func (d *powerDisk) found(all []choice, made []int) world {
	names, contents := maps.Clone(d.durable), make(map[*inode][]byte)
	for i, c := range all {
		if c.node == nil {
			if made[i] > 0 {
				d.pending[c.change].apply(names)
			}
			continue
		}
		data, ok := contents[c.node]
		if !ok {
			data = slices.Clone(c.node.disk)
		}
		switch n := made[i]; {
		case n == 0:
		case c.sector < 0: // the size, which comes after the sectors
			size := c.node.sizes[n-1]
			data = append(data[:min(size, len(data))], make([]byte, max(0, size-len(data)))...)
		default:
			end := (c.sector + 1) * sector
			data = append(data, make([]byte, max(0, end-len(data)))...)
			copy(data[c.sector*sector:], c.node.parts[c.sector][n-1])
		}
		contents[c.node] = data
	}
	for i, c := range all { // cut off what is beyond the end of a file
		if c.node != nil && c.sector < 0 && made[i] == 0 {
			contents[c.node] = contents[c.node][:min(len(contents[c.node]), len(c.node.disk))]
		}
	}
	w := make(world)
	for name, node := range names {
		for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
			if names[dir] == nil {
				node = nil // the directory was lost
			}
		}
		switch {
		case node == nil:
		case node.isDir:
			w[name] = nil
		case contents[node] != nil:
			w[name] = contents[node]
		default:
			w[name] = append([]byte{}, node.disk...) // not nil, even if empty
		}
	}
	return w
}

// worlds yields the worlds that may be found. If there are more than most of them, it yields only
// some random ones and those in which at most one choice is partial, while all others are nothing
// or all others are everything.
func (d *powerDisk) worlds(most int, random *rand.Rand, yield func(world)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.choices()
	made, number := make([]int, len(all)), 1
	for _, c := range all {
		number = min(number*(c.of+1), most+1)
	}
	if number <= most {
		for {
			yield(d.found(all, made))
			i := 0
			for ; i < len(all) && made[i] == all[i].of; i++ {
				made[i] = 0
			}
			if i == len(all) {
				return
			}
			made[i]++
		}
	}
	for _, everything := range []bool{false, true} {
		base := make([]int, len(all))
		for i := range all {
			if everything {
				base[i] = all[i].of
			}
		}
		yield(d.found(all, base))
		for i := range all {
			was := base[i]
			for base[i] = range all[i].of + 1 {
				yield(d.found(all, base))
			}
			base[i] = was
		}
	}
	for range most {
		for i := range all {
			made[i] = random.IntN(all[i].of + 1)
		}
		yield(d.found(all, made))
	}
}

// key returns a hash of the world.
func (w world) key() uint64 {
	h := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(w)) {
		fmt.Fprintf(h, "%s %d %t\n", name, len(w[name]), w[name] == nil)
		_, _ = h.Write(w[name])
	}
	return h.Sum64()
}

// write replaces a directory with the files of the world.
func (w world) write(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Mkdir(dir, 0o700))
	for _, name := range slices.Sorted(maps.Keys(w)) { // directories come before their contents
		path := filepath.Join(dir, name)
		if w[name] == nil {
			if err := os.Mkdir(path, 0o700); !errors.Is(err, fs.ErrExist) {
				require.NoError(t, err)
			}
			continue
		}
		require.NoError(t, os.WriteFile(path, w[name], 0o600))
	}
}

// memoryDir returns a temporary directory, which is in memory if the system supports that.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "reprise-test-") //nolint:usetesting // TempDir is not in memory
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (w world) String() string {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(w)) {
		fmt.Fprintf(&b, "%s %d bytes, frames at %v\n", name, len(w[name]), filestore.Frames(w[name]))
	}
	return b.String()
}
