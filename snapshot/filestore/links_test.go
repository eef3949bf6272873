//go:build unix

package filestore_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// Another user who can write to the directory of a store puts links and pipes into it.

// everything calls store methods that read or change a run, and returns their errors.
func everything(t testing.TB, s *filestore.Store) map[string]error {
	ctx := t.Context()
	errs := make(map[string]error)
	_, errs["load"] = s.Load(ctx, "run")
	_, errs["info"] = s.Info(ctx, "run")
	_, errs["list"] = s.List(ctx, snapshot.Filter{})
	_, errs["messages"] = s.Messages(ctx, "run")
	errs["post"] = s.Post(ctx, "run", storetest.Answer("posted", "true"))
	errs["remove"] = s.Remove(ctx, "run", waitingID())
	_, errs["update"] = s.Update(ctx, "run", func(info *snapshot.Info) error { info.Pinned = true; return nil })
	_, errs["garbage"] = s.GC(ctx, 0)
	soon, stop := context.WithCancelCause(ctx)
	stop(errLooked)
	for _, err := range s.Follow(soon, "run", snapshot.Cursor{}) {
		if !errors.Is(err, errLooked) {
			errs["follow"] = err
		}
	}
	_, errs["repair"] = s.Repair(ctx, "run")
	j, err := s.Open(ctx, "run", snapshot.OpenOptions{Create: true})
	if errs["open"] = err; err == nil {
		errs["append"] = j.Append(storetest.Records(uint64(j.Restored().Len())+1, 50)...)
		errs["close"] = closeAs(j, snapshot.StatusPaused)
	}
	run, err := snapshot.NewRun(snapshot.Info{RunID: "run", Status: snapshot.StatusPaused}, nil)
	require.NoError(t, err)
	_, errs["create"] = s.Create(ctx, run)
	errs["delete"] = s.Delete(ctx, "run")
	maps.DeleteFunc(errs, func(_ string, err error) bool { return err == nil })
	return errs
}

// notHeldUp fails the test if f hangs because it waits for another process to open a pipe.
func notHeldUp(t testing.TB, name string, f func() map[string]error) map[string]error {
	t.Helper()
	done := make(chan map[string]error, 1)
	go func() { done <- f() }()
	held := time.NewTimer(30 * time.Second) // more than a slow machine needs
	defer held.Stop()
	select {
	case errs := <-done:
		return errs
	case <-held.C:
		require.FailNow(t, "a call waits because of "+name)
		return nil
	}
}

func TestLinksAndPipesAreRefusedAndNothingOutsideIsTouched(t *testing.T) {
	for name, refused := range map[string][]string{
		".":                     {"load", "info", "messages", "post", "remove", "update", "repair", "open", "create", "delete"},
		"00000001.snapshot":     {"load", "repair", "open"},
		"00000002.journal":      {"load", "repair", "open"},
		"lock":                  {"load", "repair", "open", "update", "delete"},
		"inbox":                 {"messages", "post", "remove"},
		"inbox/" + waitingID():  nil,
		"meta":                  nil,
		"meta.tmp":              nil,
		"00000003.journal.tmp":  nil,
		"00000003.snapshot.tmp": nil,
	} {
		for _, kind := range []string{"link", "link to nothing", "pipe"} {
			t.Run(name+" is a "+kind, func(t *testing.T) {
				dir, outside := t.TempDir(), t.TempDir()
				s := newFileStore(t, dir, filestore.WithWarnings(func(string, error) {}))
				j := begin(t, s)
				require.NoError(t, j.Append(storetest.Records(1, 200)...))
				require.NoError(t, closeAs(j, snapshot.StatusPaused))
				j = begin(t, s)
				require.NoError(t, j.Append(storetest.Records(201, 2)...))
				require.NoError(t, closeAs(j, snapshot.StatusPaused))
				require.NoError(t, s.Post(t.Context(), "run", storetest.Answer("waiting", "true")))
				path := filepath.Join(dir, "runs", "run", name)
				target := filepath.Join(outside, "target")
				err := os.Rename(path, target)
				if errors.Is(err, fs.ErrNotExist) {
					require.Equal(t, ".tmp", filepath.Ext(name), "every run has the file %s", name)
					err = os.WriteFile(target, []byte("of another user"), 0o600)
				}
				require.NoError(t, err)
				switch kind {
				case "link":
					require.NoError(t, os.Symlink(target, path))
				case "link to nothing":
					require.NoError(t, os.Symlink(filepath.Join(outside, "nothing"), path))
				case "pipe":
					require.NoError(t, syscall.Mkfifo(path, 0o600))
				}
				before := seen(t, outside)
				errs := notHeldUp(t, path, func() map[string]error { return everything(t, s) })
				require.Equal(t, before, seen(t, outside))
				for _, op := range refused {
					require.Error(t, errs[op], op)
					if op == "load" || op == "open" {
						require.ErrorContains(t, errs[op], "run run: ")
						require.ErrorContains(t, errs[op], strings.TrimSuffix(path, "/."))
						want := "it is a link, and a store never contains links"
						if kind == "pipe" {
							want = "; want a "
						}
						require.ErrorContains(t, errs[op], want)
					}
				}
				if refused == nil {
					for _, op := range []string{"load", "info", "list", "messages", "post", "remove", "update", "repair", "open", "append", "close", "delete"} {
						require.NoError(t, errs[op], "%s: %v", op, slices.Sorted(maps.Keys(errs)))
					}
				}
			})
		}
	}
}

func TestDirectoriesOfAStoreMustNotBeLinks(t *testing.T) {
	for _, name := range []string{"runs", "artifacts"} {
		dir, outside := t.TempDir(), t.TempDir()
		require.NoError(t, os.Symlink(outside, filepath.Join(dir, name)))
		_, err := filestore.New(dir)
		require.ErrorContains(t, err, "it is a link", name)
		require.Len(t, seen(t, outside), 1, "nothing was added to the directory")
	}
	dir, outside := t.TempDir(), t.TempDir()
	s := newFileStore(t, dir)
	require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "old"), nil, 0o600))
	age := time.Now().Add(-1000 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(outside, "old"), age, age))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "trash")))
	before := seen(t, outside)
	require.ErrorContains(t, s.Delete(t.Context(), "run"), "it is a link")
	require.Equal(t, before, seen(t, outside))
	require.NoError(t, os.Remove(filepath.Join(dir, "trash")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "trash"), 0o700))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "trash", "link")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "runs", "run", "link")))
	require.NoError(t, s.Delete(t.Context(), "run"))
	require.Equal(t, before, seen(t, outside))
}

func TestArtifactMustNotBeALink(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	s := newFileStore(t, dir)
	ref, err := s.Put(t.Context(), []byte("an output"))
	require.NoError(t, err)
	path := artifactFile(dir, ref)
	target := filepath.Join(outside, "target")
	require.NoError(t, os.Rename(path, target))
	require.NoError(t, os.Symlink(target, path))
	before := seen(t, outside)
	_, err = s.Get(t.Context(), ref)
	require.ErrorContains(t, err, "it is a link")
	_, err = s.Put(t.Context(), []byte("an output"))
	require.NoError(t, err, "the artifact replaces the link")
	_, err = s.Get(t.Context(), ref)
	require.NoError(t, err)

	require.NoError(t, os.Rename(filepath.Dir(path), filepath.Join(outside, "directory")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "directory"), filepath.Dir(path)))
	require.Equal(t, before[target], seen(t, outside)[target])
	before = seen(t, outside)
	_, err = s.Get(t.Context(), ref)
	require.ErrorContains(t, err, "it is a link")
	_, err = s.Put(t.Context(), []byte("an output"))
	require.ErrorContains(t, err, "it is a link")
	_, err = s.GC(t.Context(), -time.Hour)
	require.NoError(t, err)
	require.Equal(t, before, seen(t, outside))
}
