package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/runcopy"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
	"github.com/reprise-go/reprise/state"
)

const (
	patience = 2 * time.Minute
	nap      = 2 * time.Second
)

// ledger records the effects that have taken place.
type ledger struct {
	mu    sync.Mutex
	lines []string
}

func (l *ledger) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *ledger) count(line string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, other := range l.lines {
		if other == line {
			n++
		}
	}
	return n
}

type job struct {
	Run  string `json:"run"`
	Kind string `json:"kind"`
}

// register registers a program with two effects and something between them that depends on the kind
// of job. The output of the first effect is an artifact.
func (l *ledger) register(r *runner.Runner) {
	runner.Register(r, decorators.Agent("job", "", func(ctx context.Context, in job) (string, error) {
		large, err := core.Step(ctx, "first", func(context.Context) ([]byte, error) {
			l.add(in.Run + " first")
			return bytes.Repeat([]byte(in.Run), 50_000), nil
		})
		if err != nil {
			return "", err
		}
		answer := "-"
		switch in.Kind {
		case "ask":
			if answer, err = core.Await[string](ctx, "who?"); err != nil {
				return "", err
			}
		case "sleep":
			if err := core.Sleep(ctx, nap); err != nil {
				return "", err
			}
		case "fail":
			return "", errors.New("it fails")
		}
		return core.Step(ctx, "last", func(context.Context) (string, error) {
			l.add(in.Run + " last")
			return string(large[:len(in.Run)]) + " " + answer, nil
		})
	}))
}

// runner returns a runner that is not serving yet.
func (l *ledger) runner(t *testing.T, store snapshot.Store) *runner.Runner {
	t.Helper()
	o := runner.Options{ParkAfter: time.Millisecond, SweepEvery: 200 * time.Millisecond, Observe: func(e runner.Notice) {
		if e.Type == runner.NoticeTrouble {
			t.Log(e)
		}
	}}
	if js, ok := store.(*jetstream.Store); ok {
		var err error
		o.Queue, err = jetstream.OpenQueue(t.Context(), js)
		require.NoError(t, err)
	}
	r, err := runner.New(store, o)
	require.NoError(t, err)
	l.register(r)
	return r
}

// serve executes the runs of a store until the returned function is called.
func (l *ledger) serve(t *testing.T, store snapshot.Store) (*runner.Runner, func()) {
	t.Helper()
	r := l.runner(t, store)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- r.Serve(ctx) }()
	return r, func() {
		cancel()
		assert.NoError(t, <-served)
	}
}

// await waits until a run has the given status.
func await(t *testing.T, s snapshot.Store, id string, status snapshot.Status) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, err := range s.Watch(ctx, snapshot.WatchOptions{RunID: id}) {
		require.NoError(t, err, "run %s", id)
		info, err := s.Info(ctx, id)
		require.NoError(t, err)
		if info.Status == status && !info.Open {
			return
		}
	}
}

// fill creates runs of every kind in a store, all of them closed, and an archive of
// one of them.
func (l *ledger) fill(t *testing.T, s snapshot.Store) (archive string) {
	t.Helper()
	r, stop := l.serve(t, s)
	ctx := t.Context()
	start := func(id, kind string, o runner.StartOptions) {
		t.Helper()
		_, err := r.Start(ctx, "job", id, job{id, kind}, o)
		require.NoError(t, err)
	}
	start("completed", "", runner.StartOptions{Metadata: snapshot.Metadata{Tags: []string{"kept"}}})
	start("pinned", "", runner.StartOptions{Pinned: true})
	start("archived", "", runner.StartOptions{})
	start("failed", "fail", runner.StartOptions{})
	start("asked", "ask", runner.StartOptions{})
	start("answered", "ask", runner.StartOptions{})
	start("cancelled", "ask", runner.StartOptions{})
	start("later", "", runner.StartOptions{At: time.Now().Add(time.Hour), Priority: 3})
	for _, id := range []string{"completed", "pinned", "archived"} {
		await(t, s, id, snapshot.StatusCompleted)
	}
	await(t, s, "failed", snapshot.StatusFailed)
	for _, id := range []string{"asked", "answered", "cancelled"} {
		await(t, s, id, snapshot.StatusPaused)
	}
	require.NoError(t, r.Cancel(ctx, "cancelled", snapshot.Stop{By: "me", Message: "enough"}))
	await(t, s, "cancelled", snapshot.StatusCancelled)
	start("parked", "sleep", runner.StartOptions{})
	await(t, s, "parked", snapshot.StatusPaused)
	stop()
	r = l.runner(t, s)
	start("queued", "", runner.StartOptions{})
	require.NoError(t, state.Answer(ctx, s, "answered", questionOf(t, r, "answered"), "me", "you"))
	for rec, err := range s.Records(ctx, "completed", 0) {
		require.NoError(t, err)
		if rec.Name == "last" {
			require.NoError(t, state.Fork(ctx, s, "completed", rec.Address, "forked", state.ForkOptions{}))
			break
		}
	}

	dir := t.TempDir()
	run, err := s.Load(ctx, "archived")
	require.NoError(t, err)
	require.NoError(t, runner.ArchiveTo(dir)(ctx, run))
	require.NoError(t, s.Delete(ctx, "archived"))
	return filepath.Join(dir, "archived.reprise")
}

func questionOf(t *testing.T, r *runner.Runner, id string) string {
	t.Helper()
	questions, err := r.Questions(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, questions, 1)
	return questions[0].ID
}

// copied lists the runs that fill creates, with the status that they have in both stores.
var copied = map[string]snapshot.Status{
	"completed": snapshot.StatusCompleted, "pinned": snapshot.StatusCompleted, "failed": snapshot.StatusFailed,
	"asked": snapshot.StatusPaused, "answered": snapshot.StatusPaused, "cancelled": snapshot.StatusCancelled,
	"later": snapshot.StatusQueued, "parked": snapshot.StatusPaused, "queued": snapshot.StatusQueued, "forked": snapshot.StatusInterrupted,
}

// check compares runs with their originals, lets them continue until they end, and uses the ledger
// to check that no call with an outcome has run again.
func (l *ledger) check(t *testing.T, to, from snapshot.Store) {
	t.Helper()
	ctx := t.Context()
	for id, status := range copied {
		was, err := from.Load(ctx, id)
		require.NoError(t, err)
		now, err := to.Load(ctx, id)
		require.NoError(t, err)
		assert.Equal(t, status, now.Status, id)
		want, got := was.Info, now.Info
		want.Owner = ""
		assert.Equal(t, want, got, id)
		require.Equal(t, was.Len(), now.Len(), id)
		for seq := uint64(1); seq <= uint64(was.Len()); seq++ {
			assert.Equal(t, was.Encoded(seq), now.Encoded(seq), id)
		}
	}
	r, stop := l.serve(t, to)
	defer stop()
	require.NoError(t, r.Answer(ctx, "asked", questionOf(t, r, "asked"), "me", "you"))
	require.NoError(t, r.Resume(ctx, "forked"))
	result := func(id string) any {
		t.Helper()
		await(t, to, id, snapshot.StatusCompleted)
		out, err := r.Result(ctx, id)
		require.NoError(t, err)
		return out
	}
	for _, id := range []string{"completed", "pinned", "parked", "queued"} {
		assert.Equal(t, id+" -", result(id))
	}
	assert.Equal(t, "completed -", result("forked"))
	for _, id := range []string{"asked", "answered"} {
		assert.Equal(t, id+" you", result(id))
	}
	_, err := r.Result(ctx, "failed")
	require.ErrorContains(t, err, "it fails")
	archived, err := to.Info(ctx, "archived")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusCompleted, archived.Status)
	for _, id := range []string{"completed", "pinned", "asked", "answered", "parked", "queued", "archived"} {
		assert.Equal(t, 1, l.count(id+" first"), id)
	}
	for _, id := range []string{"pinned", "asked", "answered", "parked", "queued", "archived"} {
		assert.Equal(t, 1, l.count(id+" last"), id)
	}
	assert.Equal(t, 2, l.count("completed last"), "one more, in the fork")
	assert.Zero(t, l.count("later first"))
}

// openStore opens the store on a server, until the end of the test.
func openStore(t *testing.T, conn *nats.Conn, name string) *jetstream.Store {
	t.Helper()
	s, err := jetstream.Open(t.Context(), conn, jetstream.Options{Name: name})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// TestRunsOfEveryKindContinueInAnotherStore copies runs from a directory to a server, and from a
// server to a directory. Everything is copied twice; the second copy must change nothing.
func TestRunsOfEveryKindContinueInAnotherStore(t *testing.T) {
	server := jstest.Start(t)
	command := func(t *testing.T, args ...string) {
		t.Helper()
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), append([]string{"-url", server.URL()}, args...), &out, &out))
	}
	t.Run("onto a server", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		from, err := filestore.New(dir)
		require.NoError(t, err)
		var l ledger
		archive := l.fill(t, from)
		command(t, "-store", "onto", "copy-from", dir)
		command(t, "-store", "onto", "copy-from", dir)
		command(t, "-store", "onto", "import", archive)
		l.check(t, openStore(t, server.Connect(), "onto"), from)
	})
	t.Run("from a server", func(t *testing.T) {
		t.Parallel()
		from := openStore(t, server.Connect(), "from")
		var l ledger
		archive := l.fill(t, from)
		dir := filepath.Join(t.TempDir(), "runs")
		command(t, "-store", "from", "copy-to", dir)
		command(t, "-store", "from", "copy-to", dir)
		imported := exec.CommandContext(t.Context(), "go", "run", "-C", "../../../..", "./cmd/reprise", "--dir", dir, "import", archive)
		out, err := imported.CombinedOutput()
		require.NoError(t, err, "%s", out)
		to, err := filestore.New(dir)
		require.NoError(t, err)
		l.check(t, to, from)
	})
}

// An interrupted store fails after a given number of changes, either before or after it makes the
// last of them.
type interrupted struct {
	snapshot.Store
	left  int
	after bool
}

var errInterrupted = errors.New("interrupted")

func (s *interrupted) change(do func() error) error {
	if s.left--; s.left >= 0 {
		return do()
	}
	if s.after && s.left == -1 {
		if err := do(); err != nil {
			return err
		}
	}
	return errInterrupted
}

func (s *interrupted) Put(ctx context.Context, data []byte) (ref string, err error) {
	err = s.change(func() error { ref, err = s.Store.Put(ctx, data); return err })
	return ref, err
}

func (s *interrupted) Create(ctx context.Context, run *snapshot.Run) (info snapshot.Info, err error) {
	err = s.change(func() error { info, err = s.Store.Create(ctx, run); return err })
	return info, err
}

func (s *interrupted) Post(ctx context.Context, id string, m snapshot.Message) error {
	return s.change(func() error { return s.Store.Post(ctx, id, m) })
}

// waiting creates a run with an artifact and two messages that wait for it.
func waiting(t *testing.T, s snapshot.Store) {
	t.Helper()
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	_, err = core.Step(st.Context(t.Context()), "large", func(context.Context) ([]byte, error) { return make([]byte, 200_000), nil })
	require.NoError(t, err)
	require.NoError(t, st.Close())
	for _, question := range []string{"a?1", "a?2"} {
		require.NoError(t, s.Post(t.Context(), "run-1", storetest.Answer(question, "yes")))
	}
}

func TestCopyThatWasInterruptedIsContinued(t *testing.T) {
	from, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	waiting(t, from)
	server := jstest.Start(t)
	conn := server.Connect()
	directory := func() snapshot.Store {
		s, err := filestore.New(t.TempDir())
		require.NoError(t, err)
		return s
	}
	n := 0
	onServer := func() snapshot.Store {
		n++
		return openStore(t, conn, "s"+string(rune('a'+n)))
	}
	for name, open := range map[string]func() snapshot.Store{"directory": directory, "server": onServer} {
		for _, after := range []bool{false, true} {
			const changes = 4 // an artifact, the run, and two messages
			for left := range changes {
				to := open()
				err := runcopy.Run(t.Context(), &interrupted{to, left, after}, from, "run-1")
				require.ErrorIs(t, err, errInterrupted)
				require.NoError(t, runcopy.Run(t.Context(), to, from, "run-1"), "%s, after %d changes", name, left)
				messages, err := to.Messages(t.Context(), "run-1")
				require.NoError(t, err)
				assert.Len(t, messages, 2, "%s, after %d changes", name, left)
				run, err := to.Load(t.Context(), "run-1")
				require.NoError(t, err)
				sn, err := run.Snapshot()
				require.NoError(t, err)
				for _, reference := range sn.Artifacts() {
					_, err := to.Get(t.Context(), reference)
					require.NoError(t, err)
				}
			}
		}
	}
}

// TestCopyOntoAnotherRunIsRefused copies onto a copy that has continued, and onto a different run
// with the same ID.
func TestCopyOntoAnotherRunIsRefused(t *testing.T) {
	from, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	waiting(t, from)
	to := openStore(t, jstest.Start(t).Connect(), "s")
	require.NoError(t, runcopy.Run(t.Context(), to, from, "run-1"))
	st, err := state.Open(t.Context(), to, "run-1")
	require.NoError(t, err)
	refused := func() {
		t.Helper()
		before, err := to.Load(t.Context(), "run-1")
		require.NoError(t, err)
		err = runcopy.Run(t.Context(), to, from, "run-1")
		require.ErrorIs(t, err, snapshot.ErrExists)
		require.ErrorContains(t, err, "the two copies differ")
		now, err := to.Load(t.Context(), "run-1")
		require.NoError(t, err)
		assert.Equal(t, before.Info, now.Info)
	}
	refused() // while the run is open
	require.NoError(t, st.Close())
	refused()
	require.NoError(t, to.Delete(t.Context(), "run-1"))
	other, err := snapshot.NewRun(snapshot.Info{RunID: "run-1", Status: snapshot.StatusCompleted}, func(yield func(record.Record, error) bool) {})
	require.NoError(t, err)
	_, err = to.Create(t.Context(), other)
	require.NoError(t, err)
	refused()
}

// TestDamagedDocumentIsNotImported also checks documents that are truncated anywhere.
func TestDamagedDocumentIsNotImported(t *testing.T) {
	server := jstest.Start(t)
	s := openStore(t, server.Connect(), "reprise")
	j, err := s.Open(t.Context(), "run-1", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	require.NoError(t, j.Append(storetest.Records(1, 20)...))
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	file := filepath.Join(t.TempDir(), "run")
	require.NoError(t, export(t.Context(), s, "run-1", file))
	document, err := os.ReadFile(file)
	require.NoError(t, err)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".*"))
	require.NoError(t, err)
	assert.Empty(t, left)
	to := openStore(t, server.Connect(), "to")
	refused := func(document []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, document, 0o600))
		var out bytes.Buffer
		err := importRuns(t.Context(), to, []string{file, filepath.Join(t.TempDir(), "none")}, &out)
		require.ErrorContains(t, err, file+" was not imported")
		require.ErrorIs(t, err, os.ErrNotExist, "the other file is tried, too")
		assert.Empty(t, out.String())
		_, err = to.Info(t.Context(), "run-1")
		require.ErrorIs(t, err, snapshot.ErrNotFound)
	}
	for n := 0; n < len(document); n += 37 {
		refused(document[:n])
		damaged := slices.Clone(document)
		damaged[n] ^= 0x40
		refused(damaged)
	}
	refused(append(slices.Clone(document), 0))
	require.NoError(t, os.WriteFile(file, document, 0o600))
	var out bytes.Buffer
	require.NoError(t, importRuns(t.Context(), to, []string{file}, &out))
	require.ErrorIs(t, importRuns(t.Context(), to, []string{file}, &out), snapshot.ErrExists)
}
