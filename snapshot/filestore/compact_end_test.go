package filestore_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// An endDisk fails in one of the last steps of each compaction.
type endDisk struct {
	filestore.Disk
	step   string
	named  atomic.Bool // whether a snapshot was renamed to its final name
	failed atomic.Int64
}

func (d *endDisk) fails(step string) error {
	if d.step != step {
		return nil
	}
	d.failed.Add(1)
	return syscall.EIO
}

func (d *endDisk) Rename(from, to string) error {
	if !strings.HasSuffix(to, ".snapshot") {
		return d.Disk.Rename(from, to)
	}
	if err := d.fails("rename"); err != nil {
		return err
	}
	if err := d.Disk.Rename(from, to); err != nil {
		return err
	}
	d.named.Store(true)
	return d.fails("rename that took effect")
}

func (d *endDisk) SyncDir(name string) error {
	if d.named.Swap(false) {
		if err := d.fails("sync of the name"); err != nil {
			return err
		}
	}
	return d.Disk.SyncDir(name)
}

func (d *endDisk) Remove(name string) error {
	if filepath.Ext(name) != ".tmp" {
		if err := d.fails("removal"); err != nil {
			return err
		}
	}
	return d.Disk.Remove(name)
}

// kept returns the files of a run that contain records.
func kept(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, pattern := range []string{"*.journal", "*.snapshot"} {
		found, err := filepath.Glob(filepath.Join(dir, "runs", "run", pattern))
		require.NoError(t, err)
		for _, name := range found {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			all[filepath.Base(name)] = string(data)
		}
	}
	return all
}

func TestACompactionWhoseLastStepFailsDestroysNothing(t *testing.T) {
	for _, step := range []string{"rename", "rename that took effect", "sync of the name", "removal"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			crash := newCrashDisk(memoryDir(t), 1<<20)
			disk := &endDisk{Disk: crash}
			var warnings atomic.Int64
			s := newFileStore(t, crash.root, filestore.WithDisk(disk), filestore.WithCompactFrom(2<<10),
				filestore.WithWarnings(func(_ string, err error) {
					if !errors.Is(err, syscall.EIO) {
						t.Error(err)
					}
					warnings.Add(1)
				}))
			n := 0
			appendTo := func(j snapshot.Journal, more int) {
				for range more {
					require.NoError(t, j.Append(storetest.Records(uint64(n)+1, 1)...))
					n++
				}
				require.NoError(t, j.Sync(t.Context(), uint64(n)))
				filestore.WaitForCompaction(j)
			}
			j := begin(t, s)
			appendTo(j, 60)
			require.NoError(t, closeAs(j, snapshot.StatusPaused))
			require.Zero(t, warnings.Load())

			disk.step = step
			j = begin(t, s)
			for range 6 {
				before := kept(t, crash.root)
				appendTo(j, 60)
				after := kept(t, crash.root)
				for name, data := range before {
					require.Contains(t, after, name)
					if strings.HasSuffix(name, ".snapshot") {
						require.Equal(t, data, after[name], name)
					}
				}
				for world, dir := range crash.worlds(t) {
					run, err := newFileStore(t, dir).Load(t.Context(), "run")
					require.NoError(t, err, world)
					requireStored(t, run, n)
				}
			}
			require.NotZero(t, disk.failed.Load())
			require.Equal(t, step != "removal", warnings.Load() > 0)
			require.NoError(t, closeAs(j, snapshot.StatusCompleted), "all records are on the disk")
			for world, dir := range crash.worlds(t) {
				run, err := newFileStore(t, dir).Load(t.Context(), "run")
				require.NoError(t, err, world)
				requireStored(t, run, n)
				require.Equal(t, snapshot.StatusCompleted, run.Status, world)
			}

			disk.step = ""
			j = begin(t, s)
			requireStored(t, j.Restored(), n)
			appendTo(j, 600)
			require.NoError(t, closeAs(j, snapshot.StatusCompleted))
			run, err := s.Load(t.Context(), "run")
			require.NoError(t, err)
			requireStored(t, run, n)
			files := slices.Sorted(maps.Keys(kept(t, crash.root)))
			require.LessOrEqual(t, len(files), 2, "files of the failed compaction are left: %v", files)
			require.Contains(t, strings.Join(files, " "), ".snapshot")
		})
	}
}
