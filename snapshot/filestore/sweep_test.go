package filestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storekit"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// A sweptRun is a run with every kind of file that a store has.
type sweptRun struct {
	files    map[string][]byte // by name, relative to the store
	records  int
	promised int
	status   snapshot.Status
	reports  bool // any loss of records must be reported, since all were confirmed
}

// treeOf returns the files in a directory, by name.
func treeOf(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	for name, what := range seen(t, dir) {
		if data, err := os.ReadFile(name); err == nil && what != "" {
			rel, err := filepath.Rel(dir, name)
			require.NoError(t, err)
			if strings.HasSuffix(rel, ".journal") && !*long {
				data = append(framesAlone(t, data), make([]byte, 20)...)
			}
			files[rel] = data
		}
	}
	return files
}

// sweptRuns returns runs in the states in which a store may leave them: completed, stopped by a
// crash, and stopped in the middle of a compaction.
func sweptRuns(t testing.TB, records int) map[string]sweptRun {
	t.Helper()
	all := make(map[string]sweptRun)
	for name, status := range map[string]snapshot.Status{"complete": snapshot.StatusCompleted, "crashed": snapshot.StatusInterrupted, "compacting": snapshot.StatusInterrupted} {
		dir := memoryDir(t)
		disk := newFaultyDisk()
		s := newFileStore(t, dir, filestore.WithDisk(disk), filestore.WithCompactFrom(int64(records)*20), filestore.WithWarnings(func(string, error) {}))
		j := begin(t, s)
		require.NoError(t, j.Append(storetest.Records(1, records/2)...))
		filestore.WaitForCompaction(j)
		require.NoError(t, closeAs(j, snapshot.StatusPaused))
		j = begin(t, s)
		if name == "compacting" {
			disk.rename = func(to string) error {
				if strings.HasSuffix(to, ".snapshot") {
					return errShort
				}
				return nil
			}
		}
		for seq := records/2 + 1; seq <= records; seq++ {
			require.NoError(t, j.Append(storetest.Records(uint64(seq), 1)...))
			filestore.WaitForCompaction(j)
		}
		require.NoError(t, j.Sync(t.Context(), uint64(records-1)))
		if name == "complete" {
			require.NoError(t, closeAs(j, status))
		} else {
			filestore.Abandon(j)
		}
		require.NoError(t, s.Post(t.Context(), "run", storetest.Answer("waiting", "true")))
		ref, err := s.Put(t.Context(), []byte("an output"))
		require.NoError(t, err)
		require.NotEmpty(t, ref)
		all[name] = sweptRun{treeOf(t, dir), records, records, status, name == "complete"}
	}
	return all
}

// The sweep cuts every file of every run at every byte, and changes each byte in two ways. The
// short form uses shorter runs, makes only one of these three changes at each byte, and repairs the
// run after only a few of them.
func TestNoDamageIsMistakenForValidData(t *testing.T) {
	records, repairs := 8, 29
	if *long {
		records, repairs = 40, 1
	}
	for name, run := range sweptRuns(t, records) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := memoryDir(t)
			for file, data := range run.files {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), data, 0o600))
			}
			s := newFileStore(t, dir, filestore.WithWarnings(func(string, error) {}))
			n, last := 0, ""
			defer func() {
				if t.Failed() {
					t.Log(last)
				}
			}()
			for file, whole := range run.files {
				for at := range whole {
					if !testkit.Sampled(at) {
						continue
					}
					changes := [][]byte{whole[:at], flipBits(whole, at, 0x01), flipBits(whole, at, 0xff)}
					if !*long {
						changes = changes[at%3 : at%3+1]
					}
					for _, data := range changes {
						last = fmt.Sprintf("%s, %d of %d bytes, byte %d", file, len(data), len(whole), at)
						require.NoError(t, os.WriteFile(filepath.Join(dir, file), data, 0o600))
						damaged := run.check(t, s, file)
						if n++; damaged && n%repairs == 0 {
							run.repair(t, dir, file, data)
						}
					}
				}
				restore(t, dir, file, whole)
			}
			t.Logf("%d files, %d changes", len(run.files), n)
		})
	}
}

// flipBits returns a copy of data in which some bits of a byte are changed.
func flipBits(data []byte, at int, bits byte) []byte {
	data = slices.Clone(data)
	data[at] ^= bits
	return data
}

// restore writes a file again, and removes the copies of it that were set aside as refused.
func restore(t testing.TB, dir, file string, data []byte) {
	t.Helper()
	aside, err := filepath.Glob(filepath.Join(dir, file+".refused*"))
	require.NoError(t, err)
	for _, name := range aside {
		require.NoError(t, os.Remove(name))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), data, 0o600))
}

// check reads everything from a store with one damaged file. It reports whether
// the run is damaged.
func (run *sweptRun) check(t testing.TB, s *filestore.Store, file string) (damaged bool) {
	found, err := s.Load(t.Context(), "run")
	switch {
	case errors.Is(err, snapshot.ErrCorrupt):
		damaged = true
	case errors.Is(err, snapshot.ErrFormat):
		t.Errorf("taken for another version: %v", err)
	default:
		require.NoError(t, err)
		requireStored(t, found, found.Len())
		require.Equal(t, run.status, found.Status)
		lost := run.records - found.Len()
		require.True(t, lost == 0 || !run.reports && strings.HasSuffix(file, ".journal"), "%d records are lost", lost)
	}
	waiting, err := s.Messages(t.Context(), "run")
	require.NoError(t, err)
	for i := range waiting {
		want := storetest.Answer("waiting", "true")
		want.Record.RunID = "run"
		require.Equal(t, want, waiting[i])
	}
	require.True(t, len(waiting) == 1 || strings.Contains(file, "inbox"))
	output := []byte("an output")
	got, err := s.Get(t.Context(), storekit.Reference(output))
	if err != nil {
		require.ErrorIs(t, err, snapshot.ErrCorrupt)
		require.Contains(t, file, "artifacts")
	} else {
		require.True(t, bytes.Equal(output, got))
	}
	_, err = s.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	return damaged
}

// repair repairs a copy of the run in another directory.
func (run *sweptRun) repair(t testing.TB, from, file string, data []byte) {
	dir := from + "-repair"
	defer func() { _ = os.RemoveAll(dir) }()
	for name, content := range run.files {
		if name == file {
			content = data
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	s := newFileStore(t, dir, filestore.WithWarnings(func(string, error) {}))
	report, err := s.Repair(t.Context(), "run")
	require.NoError(t, err)
	require.Equal(t, report.Damage.LastSeq, report.Kept)
	found, err := s.Load(t.Context(), "run")
	require.NoError(t, err)
	require.Equal(t, report.Kept, uint64(found.Len()))
	requireStored(t, found, found.Len())
	if run.reports {
		require.Equal(t, uint64(run.records), report.Kept+report.Lost)
	}
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(report.Kept+1, 1)...))
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
}
