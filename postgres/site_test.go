package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/postgres"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

// lease is for tests in which one has to be over. A busy machine gives a process no time for
// a second or two, which must not end it.
const lease = 3 * time.Second

type task struct {
	Run   string `json:"run"`
	Steps int    `json:"steps"`
}

type step struct {
	Run string `json:"run"`
	N   int    `json:"n"`
}

// A settings is what a worker is started with.
type settings struct {
	URL, Dir, Schema string
	Lease            time.Duration
}

// work runs tasks until its standard input ends.
func work(args ...string) error {
	var set settings
	if err := json.Unmarshal([]byte(args[0]), &set); err != nil {
		return err
	}
	ctx, cancel := process.UntilStdinEnds()
	defer cancel()
	pool, err := poolOf(set.URL, 12)
	if err != nil {
		return err
	}
	defer pool.Close()
	var store *postgres.Store
	for store == nil && ctx.Err() == nil { // the server may be away
		if store, err = postgres.Open(ctx, pool, postgres.Options{Schema: set.Schema, Lease: set.Lease}); err != nil && !errors.Is(err, snapshot.ErrUnavailable) {
			return err
		}
	}
	fmt.Println("ready")
	for err = snapshot.ErrUnavailable; errors.Is(err, snapshot.ErrUnavailable) && ctx.Err() == nil; {
		err = serveWork(ctx, store, set.Dir)
	}
	_ = store.Close() // the server may be away
	return err
}

func serveWork(ctx context.Context, store *postgres.Store, dir string) error {
	r, err := runner.New(store, runner.Options{
		Queue: store.Queue(), Grace: -1, MaxRestarts: 1000, SweepEvery: time.Second, ParkAfter: time.Millisecond,
		Observe: func(e runner.Event) {
			if e.Type == runner.EventTrouble {
				_ = appendTo(dir, "trouble", fmt.Sprintf("%s %d %s", time.Now().Format(time.TimeOnly), os.Getpid(), e))
			}
		},
	})
	if err != nil {
		return err
	}
	registerWork(r, dir)
	return r.Serve(ctx)
}

// registerWork registers a program whose steps each add a line to a ledger, and return it.
func registerWork(r *runner.Runner, dir string) {
	var lines atomic.Int64
	note := decorators.Tool("note", "", func(_ context.Context, in step) (string, error) {
		line := fmt.Sprintf("%s %d by %d/%d", in.Run, in.N, os.Getpid(), lines.Add(1))
		return line, appendTo(dir, "ledger", line)
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited}))
	runner.Register(r, decorators.Agent("work", "", func(ctx context.Context, in task) (string, error) {
		var all []string
		for n := range in.Steps {
			line, err := note.Call(ctx, step{in.Run, n})
			if err != nil {
				return "", err
			}
			all = append(all, line)
			if n == 2 {
				if err := core.Sleep(ctx, 50*time.Millisecond); err != nil {
					return "", err
				}
			}
		}
		return strings.Join(all, "\n"), nil
	}))
}

func appendTo(dir, file, line string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// A site is a database, a ledger, and a client that starts runs and looks.
type site struct {
	t       testing.TB
	url     string
	dir     string
	options postgres.Options
	client  *runner.Runner
}

func newSite(t testing.TB, url string, o postgres.Options) *site {
	t.Helper()
	s := &site{t: t, url: url, dir: t.TempDir(), options: o}
	pool, err := poolOf(url, 8)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	store := openOn(t, pool, o)
	s.client, err = runner.New(store, runner.Options{Queue: store.Queue()})
	require.NoError(t, err)
	registerWork(s.client, s.dir)
	return s
}

// worker is a command that runs tasks, with a URL of its own.
func (s *site) worker(url string) *exec.Cmd {
	set, err := json.Marshal(settings{url, s.dir, s.options.Schema, s.options.Lease})
	require.NoError(s.t, err)
	return process.Command(s.t, "work", string(set))
}

// patiently does something until the server answers.
func (s *site) patiently(what string, do func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for {
		err := do(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			trouble, _ := os.ReadFile(filepath.Join(s.dir, "trouble"))
			s.t.Logf("workers: %s", trouble[max(0, len(trouble)-20_000):])
		}
		require.ErrorIs(s.t, err, snapshot.ErrUnavailable, what)
	}
}

// start starts a run. Where no server answers, it is started again, which makes no other.
func (s *site) start(id string, steps int) {
	s.t.Helper()
	s.patiently("start run "+id, func(ctx context.Context) error {
		_, err := s.client.Start(ctx, "work", id, task{id, steps}, runner.StartOptions{})
		return err
	})
}

// ended waits until the run has ended, and returns the lines of its steps.
func (s *site) ended(id string) []string {
	s.t.Helper()
	var result any
	s.patiently("the end of run "+id, func(ctx context.Context) error {
		for event, err := range s.client.Store().Watch(ctx, snapshot.WatchOptions{RunID: id}) {
			if err != nil {
				return fmt.Errorf("%s: %w", event.Info.Status, err)
			}
			if event.Info.Status == snapshot.StatusCompleted {
				break
			}
		}
		var err error
		result, err = s.client.Result(ctx, id)
		return err
	})
	return strings.Split(result.(string), "\n")
}

// check compares the outcomes of a run with the ledger: what has an outcome has not run
// again. Each of the late may have one line after the outcome of another, as a process that
// was stopped in the middle of an effect has.
func (s *site) check(id string, steps, late int) {
	s.t.Helper()
	outcomes := s.ended(id)
	require.Len(s.t, outcomes, steps)
	ledger, err := os.ReadFile(filepath.Join(s.dir, "ledger"))
	require.NoError(s.t, err)
	last, seen := map[string]string{}, map[string]bool{}
	for line := range strings.Lines(string(ledger)) {
		line = strings.TrimSpace(line)
		if what, _, _ := strings.Cut(line, " by "); strings.HasPrefix(what, id+" ") {
			last[what], seen[line] = line, true
		}
	}
	wrong := 0
	for n, outcome := range outcomes {
		assert.True(s.t, seen[outcome], "%s is not in the ledger", outcome)
		if last[fmt.Sprintf("%s %d", id, n)] != outcome {
			wrong++
		}
	}
	assert.LessOrEqual(s.t, wrong, late, "run %s: steps with an outcome ran again", id)
}

// checkHistory looks at what is stored: the records of each run follow each other, also from
// batch to batch, their generations only rise, and nothing belongs to no run.
func (s *site) checkHistory(runs int) {
	s.t.Helper()
	store := s.client.Store()
	n := 0
	for info, err := range snapshot.Runs(s.t.Context(), store, snapshot.Filter{}) {
		require.NoError(s.t, err)
		n++
		last, generation := uint64(0), uint64(0)
		for rec, err := range store.Records(s.t.Context(), info.RunID, 0) {
			require.NoError(s.t, err)
			require.Equal(s.t, last+1, rec.Seq, "run %s", info.RunID)
			require.GreaterOrEqual(s.t, rec.Generation, generation, "run %s: record %d", info.RunID, rec.Seq)
			last, generation = rec.Seq, rec.Generation
		}
		assert.Equal(s.t, info.LastSeq, last, "run %s", info.RunID)
	}
	assert.Equal(s.t, runs, n)
	conn, err := pgx.Connect(s.t.Context(), s.url)
	require.NoError(s.t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	in := func(table string) string { return pgx.Identifier{s.options.Schema, table}.Sanitize() }
	var orphans, jobs int
	require.NoError(s.t, conn.QueryRow(s.t.Context(), `select count(*) from `+in("batches")+` b where not exists (select from `+in("runs")+` r where r.uid = b.uid)`).Scan(&orphans))
	require.NoError(s.t, conn.QueryRow(s.t.Context(), `select count(*) from `+in("jobs")).Scan(&jobs))
	assert.Zero(s.t, orphans)
	s.t.Logf("%d jobs are left of %d runs", jobs, runs)
}
