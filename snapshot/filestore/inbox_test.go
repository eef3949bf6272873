//go:build unix

package filestore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func inboxOf(dir string, elem ...string) string {
	return filepath.Join(append([]string{dir, "runs", "run", "inbox"}, elem...)...)
}

// warnings collects the warnings of a store.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) option() filestore.Option {
	return filestore.WithWarnings(func(runID string, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = append(w.all, runID+": "+err.Error())
	})
}

func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// storeWithPausedRun returns a store that contains a paused run.
func storeWithPausedRun(t testing.TB, dir string, opts ...filestore.Option) *filestore.Store {
	t.Helper()
	s := newFileStore(t, dir, opts...)
	j := begin(t, s)
	require.NoError(t, j.Append(storetest.Records(1, 2)...))
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	return s
}

func messages(t testing.TB, s *filestore.Store) []snapshot.Message {
	t.Helper()
	all, err := s.Messages(t.Context(), "run")
	require.NoError(t, err)
	return all
}

func TestOnlyTheOwnerCanReadMessages(t *testing.T) {
	dir := t.TempDir()
	s := storeWithPausedRun(t, dir)
	m := storetest.Answer("a?1", "yes")
	require.NoError(t, s.Post(t.Context(), "run", m))
	require.Equal(t, []string{m.ID()}, names(t, inboxOf(dir)), "no temporary file is left")
	for name, want := range map[string]fs.FileMode{"": 0o700, m.ID(): 0o600} {
		stat, err := os.Stat(inboxOf(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, stat.Mode().Perm())
	}
}

func TestADamagedMessageIsReportedAndIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var warned warnings
	s := storeWithPausedRun(t, dir, warned.option())
	good, bad := storetest.Answer("good?1", "yes"), storetest.Answer("bad?1", "no")
	whole := filestore.EncodeMessage(t, "run", bad)
	broken := func(data []byte, what string) {
		t.Helper()
		require.NoError(t, s.Post(t.Context(), "run", good))
		require.NoError(t, os.WriteFile(inboxOf(dir, bad.ID()), data, 0o600))
		require.Len(t, messages(t, s), 1, what)
		warnings := warned.take()
		require.Len(t, warnings, 1, what)
		require.Contains(t, warnings[0], "run: snapshot: run run: "+bad.ID()+" in its inbox is not a message and is renamed to "+bad.ID()+".refused: ", what)
		require.Len(t, messages(t, s), 1, what)
		require.Empty(t, warned.take(), "the message is reported once")
		kept, err := os.ReadFile(inboxOf(dir, bad.ID()+".refused"))
		require.NoError(t, err)
		require.Equal(t, data, kept, "the message is kept unchanged")
		require.NoError(t, s.Post(t.Context(), "run", bad), "the question can be answered again")
		require.Len(t, messages(t, s), 2, what)
		require.NoError(t, os.RemoveAll(inboxOf(dir)))
	}
	for cut := range whole {
		broken(whole[:cut], fmt.Sprint("cut at ", cut))
	}
	for at := range whole {
		data := append([]byte{}, whole...)
		data[at] ^= 1 << (at % 8)
		broken(data, fmt.Sprint("changed at ", at))
	}
	broken(append(whole, whole...), "twice")
	broken(append(whole, 0), "one byte more")
	broken([]byte("yes\n"), "text")
	broken(filestore.EncodeMessage(t, "another", bad), "a message for another run")
	broken(filestore.EncodeMessage(t, "run", storetest.Answer("other?1", "no")), "an answer to another question")
	broken(filestore.EncodeMessage(t, "run", storetest.Interrupt(1, "stop")), "an interrupt")
	twice := filestore.Bodies(whole)
	broken(filestore.FramesOf(0, twice[0], append(twice[1], twice[1][1:]...)), "two records")
	broken(filestore.FramesOf(0, twice[0]), "no record")
	broken(filestore.FramesOf(0, twice[0], twice[1], twice[1]), "two frames")
	broken(filestore.FramesOf(0, twice[0], []byte{3, 0x80}), "an end")
}

func TestAMessageOfANewerVersionIsSetAside(t *testing.T) {
	dir := t.TempDir()
	var warned warnings
	s := storeWithPausedRun(t, dir, warned.option())
	require.NoError(t, os.MkdirAll(inboxOf(dir), 0o700))
	m := storetest.Answer("a?1", "yes")
	bodies := filestore.Bodies(filestore.EncodeMessage(t, "run", m))
	format := append([]byte("\xa6format"), snapshot.FormatVersion)
	require.Equal(t, 1, bytes.Count(bodies[0], format))
	bodies[0] = bytes.Replace(bodies[0], format, append([]byte("\xa6format"), snapshot.FormatVersion+1), 1)
	require.NoError(t, os.WriteFile(inboxOf(dir, m.ID()), filestore.FramesOf(0, bodies...), 0o600))
	require.Empty(t, messages(t, s))
	require.ErrorContains(t, errors.New(strings.Join(warned.take(), "")), "has format 2, and this version of Reprise reads up to 1")
}

func TestOtherEntriesOfAnInboxAreSetAside(t *testing.T) {
	dir := t.TempDir()
	var warned warnings
	s := storeWithPausedRun(t, dir, warned.option())
	require.NoError(t, s.Post(t.Context(), "run", storetest.Answer("a?1", "yes")))
	require.NoError(t, os.Mkdir(inboxOf(dir, "answer-1"), 0o700))
	require.NoError(t, syscall.Mkfifo(inboxOf(dir, "answer-2"), 0o600))
	require.NoError(t, os.Symlink("/etc/hostname", inboxOf(dir, "answer-3")))
	require.NoError(t, os.WriteFile(inboxOf(dir, "answer-4"), nil, 0o600))
	require.NoError(t, os.Truncate(inboxOf(dir, "answer-4"), 1<<40))
	require.NoError(t, os.WriteFile(inboxOf(dir, "notes.txt"), nil, 0o600))
	require.NoError(t, os.WriteFile(inboxOf(dir, ".nfs0001"), nil, 0o600), "NFS creates such files")
	require.Len(t, messages(t, s), 1)
	require.Len(t, warned.take(), 5)
	require.Len(t, messages(t, s), 1)
	require.Empty(t, warned.take())
	require.Len(t, names(t, inboxOf(dir)), 7, "all other files are kept")
}

func TestOldTemporaryMessagesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	s := storeWithPausedRun(t, dir)
	require.NoError(t, s.Post(t.Context(), "run", storetest.Answer("a?1", "yes")))
	for name, age := range map[string]time.Duration{"old.tmp": 2 * time.Hour, "young.tmp": time.Minute} {
		require.NoError(t, os.WriteFile(inboxOf(dir, name), nil, 0o600))
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(inboxOf(dir, name), at, at))
	}
	require.Len(t, messages(t, s), 1)
	require.Contains(t, names(t, inboxOf(dir)), "young.tmp")
	require.NotContains(t, names(t, inboxOf(dir)), "old.tmp")
}

func TestInboxThatIsNotADirectoryIsAnErrorThatNamesTheRun(t *testing.T) {
	dir := t.TempDir()
	s := storeWithPausedRun(t, dir)
	require.NoError(t, os.WriteFile(inboxOf(dir), nil, 0o600))
	_, err := s.Messages(t.Context(), "run")
	require.ErrorContains(t, err, "inbox of run run")
	require.ErrorContains(t, s.Post(t.Context(), "run", storetest.Answer("a?1", "yes")), "message for run run")
}

func TestAMessageThatIsTooLargeIsRefused(t *testing.T) {
	s := storeWithPausedRun(t, t.TempDir())
	err := s.Post(t.Context(), "run", storetest.Answer("a?1", strings.Repeat("x", 16<<20)))
	require.ErrorContains(t, err, "want at most 16777216")
	require.Empty(t, messages(t, s))
	large := strings.Repeat("x", 15<<20)
	require.NoError(t, s.Post(t.Context(), "run", storetest.Answer("a?1", large)))
	require.Len(t, messages(t, s)[0].Record.Encoded(), len(large))
}

func TestAMessageThatCannotBeWrittenIsNotPosted(t *testing.T) {
	dir := t.TempDir()
	d := newFaultyDisk()
	s := storeWithPausedRun(t, dir, filestore.WithDisk(d))
	full := errors.New("no space left on device")
	m := storetest.Answer("a?1", "yes")
	d.write = func(name string) error {
		if strings.HasPrefix(name, "answer-") {
			return full
		}
		return nil
	}
	require.ErrorIs(t, s.Post(t.Context(), "run", m), full)
	require.Empty(t, messages(t, s))
	require.Empty(t, names(t, inboxOf(dir)), "no file of the message is left")
	d.write = func(string) error { return nil }
	require.NoError(t, s.Post(t.Context(), "run", m))
}

// Messages are handled as in a run: the effect is synced, and then the message is removed. After a
// crash at any point, either the message or its effect exists.
func TestNoMessageIsLostWhereverACrashStopsIt(t *testing.T) {
	t.Parallel()
	m := storetest.Answer("a?1", "yes")
	script := func(d *crashDisk) (promised bool, err error) {
		s, err := filestore.New(d.root, filestore.WithDisk(d))
		if err != nil {
			return false, err
		}
		j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
		if err != nil {
			return false, err
		}
		defer filestore.Abandon(j)
		if err := s.Post(t.Context(), "run", m); err != nil {
			return false, err
		}
		effect := m.Record
		effect.Seq = 1
		err = errors.Join(j.Append(effect), j.Sync(t.Context(), 1))
		if err == nil {
			err = s.Remove(t.Context(), "run", m.ID())
		}
		return true, err
	}
	whole := newCrashDisk(t.TempDir(), 1<<20)
	_, err := script(whole)
	require.NoError(t, err)
	for stop := range len(whole.done) + 1 {
		d := newCrashDisk(t.TempDir(), stop)
		promised, _ := script(d)
		for name, dir := range d.worlds(t) {
			t.Run(fmt.Sprintf("%d, %s", stop, name), func(t *testing.T) {
				s := newFileStore(t, dir, filestore.WithWarnings(func(string, error) {}))
				waiting, err := s.Messages(t.Context(), "run")
				if !errors.Is(err, snapshot.ErrNotFound) {
					require.NoError(t, err)
				}
				found, err := s.Load(t.Context(), "run")
				if promised {
					require.NoError(t, err)
					require.Positive(t, len(waiting)+found.Len())
				}
				if len(waiting) > 0 {
					require.Equal(t, m.Record.Encoded(), waiting[0].Record.Encoded())
				}
			})
		}
	}
}

func TestOneSystemWatcherServesAllRuns(t *testing.T) {
	s := newFileStore(t, t.TempDir())
	const n = 20
	asking := make(chan struct{}, n)
	filestore.OnWatch(s, func() { asking <- struct{}{} })
	journals := make(map[string]snapshot.Journal)
	for i := range n {
		id := fmt.Sprint("run-", i)
		j, err := s.Open(t.Context(), id, snapshot.OpenOptions{Create: true})
		require.NoError(t, err)
		journals[id] = j
	}
	for range n { // each run asks the system once it has been open for a while
		<-asking
	}
	watching, asked := filestore.Watching(s)
	require.Equal(t, n, watching)
	require.True(t, asked)
	for id, j := range journals {
		select {
		case <-j.Notify(): // may be ready already
		default:
		}
		require.NoError(t, s.Post(t.Context(), id, storetest.Answer("a?1", "yes")))
		<-j.Notify()
		require.NoError(t, closeAs(j, snapshot.StatusPaused))
	}
	watching, asked = filestore.Watching(s)
	require.Zero(t, watching)
	require.False(t, asked)
}

func TestAWatchWithoutASystemWatcherPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storeWithPausedRun(t, t.TempDir(), filestore.WithPolling(time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		start, events := time.Now(), new(atomic.Int32)
		var wait sync.WaitGroup
		wait.Go(func() {
			for _, err := range s.Watch(ctx, snapshot.WatchOptions{RunID: "run"}) {
				if err == nil {
					events.Add(1)
				}
			}
		})
		synctest.Wait()
		require.EqualValues(t, 1, events.Load())
		require.NoError(t, s.Post(t.Context(), "run", storetest.Answer("a?1", "yes")))
		<-time.After(1500 * time.Millisecond)
		require.EqualValues(t, 2, events.Load())
		<-time.After(time.Hour)
		require.EqualValues(t, 2, events.Load(), "nothing has changed")
		require.NoError(t, closeAs(begin(t, s), snapshot.StatusPaused))
		<-time.After(1500 * time.Millisecond)
		require.EqualValues(t, 3, events.Load(), "the run was opened and closed between two polls")
		require.Greater(t, time.Since(start), time.Hour)
		cancel()
		wait.Wait()
	})
	_, err := filestore.New(t.TempDir(), filestore.WithPolling(0))
	require.ErrorContains(t, err, "WithPolling(0s): want a duration above 0")
}

// FuzzMessage checks that reading a message never panics, and that a message is unchanged after it
// is written and read again.
func FuzzMessage(f *testing.F) {
	answer, interrupt := storetest.Answer("a?1", "yes"), storetest.Interrupt(7, "deploy")
	for _, m := range []snapshot.Message{answer, interrupt} {
		bodies := filestore.Bodies(filestore.EncodeMessage(f, "run", m))
		f.Add(bodies[0], bodies[1])
	}
	f.Add([]byte{1, 0x80}, []byte{2, 0x90})
	// The frames are built here, because a fuzzer cannot guess their checksums.
	f.Fuzz(func(t *testing.T, head, rec []byte) {
		data := filestore.FramesOf(0, head, rec)
		for _, id := range []string{answer.ID(), interrupt.ID()} {
			m, err := filestore.DecodeMessage("run", id, data)
			if err != nil {
				continue
			}
			again, err := filestore.DecodeMessage("run", m.ID(), filestore.EncodeMessage(t, "run", m))
			require.NoError(t, err)
			require.Equal(t, m.ID(), again.ID())
			require.Equal(t, m.Record.Encoded(), again.Record.Encoded())
		}
	})
}
