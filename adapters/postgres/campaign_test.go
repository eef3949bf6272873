package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/adapters/postgres/internal/pgserver"
	"github.com/reprise-go/reprise/internal/ports"
	"github.com/reprise-go/reprise/internal/testkit/campaign"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/snapshot"
)

// lease is for tests in which a lease must expire. On a busy machine, a process may get no CPU time
// for a second or two; this must not end its lease.
const lease = 3 * time.Second

// settings is the configuration of a worker.
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
	for store == nil && ctx.Err() == nil { // the server may be down
		if store, err = postgres.Open(ctx, pool, postgres.Options{Schema: set.Schema, Lease: set.Lease}); err != nil && !errors.Is(err, snapshot.ErrUnavailable) {
			return err
		}
	}
	fmt.Println("ready")
	err = workOf(store, set.Dir).Serve(ctx)
	_ = store.Close() // the server may be down
	return err
}

// workOf returns work in which each step uses Once to add a row to a table, and also adds a line to
// a ledger outside the database.
func workOf(s *postgres.Store, dir string) campaign.Work {
	return campaign.Work{
		Store: s, Queue: s.Queue(), Dir: dir,
		Also: func(ctx context.Context, in campaign.Step, line string) (string, error) {
			return postgres.Once(ctx, s, func(tx pgx.Tx) (string, error) {
				_, err := tx.Exec(ctx, `insert into steps (run, n, line) values ($1, $2, $3)`, in.Run, in.N, line)
				return line, err
			})
		},
		LookUp: postgres.LookUp[campaign.Step, string](s),
	}
}

// TestCampaign injects random faults into three workers and their server while runs are started.
// Workers are killed, are stopped for longer than their lease and then continued, are cut off, and
// lose answers from the server. The server is killed and restarted, refuses connections, is full,
// and ends connections and waiting transactions. Other clients lock rows that the workers write, in
// an order that leads to deadlocks. At the end, each run must have ended, its history must have no
// gaps, no call with an outcome may have run again, and the table that Once writes must contain
// each step once, as in its record.
//
// REPRISE_CAMPAIGN is "<seed> <runs> <faults>"; see CONTRIBUTING.md.
func TestCampaign(t *testing.T) {
	t.Parallel()
	serverURL(t) // skips the test if there is no server
	rng, runs, faults := campaign.Length(t, 24, 8)
	v := newVictim(t, rng, lease)
	also := campaign.Run(t, campaign.Options{
		Site: campaign.NewSite(t, v.work), Lease: lease, Rand: rng, Server: fmt.Sprint("127.0.0.1:", v.port), Worker: v.worker, Faults: v.faults(),
	}, runs, faults)
	v.check(also)
	log, err := os.ReadFile(filepath.Join(v.dir, "log"))
	require.NoError(t, err)
	deadlocks, full, idle := strings.Count(string(log), "deadlock detected"), strings.Count(string(log), "No space left"), strings.Count(string(log), "idle-in-transaction timeout")
	t.Logf("the server reported %d deadlocks, a full disk %d times, and %d waiting transactions", deadlocks, full, idle)
	if faults >= 100 { // with few faults, all of them may occur while nobody writes
		assert.Positive(t, deadlocks)
		assert.True(t, full > 0 || v.small == "")
	}
}

// A victim is a server that tests may kill.
type victim struct {
	t      *testing.T
	rng    *rand.Rand
	dir    string // of the server
	small  string // a small file system that holds the tables; empty if none can be mounted
	port   int
	server *pgserver.Server
	app    string // the URL of the role with few privileges
	work   campaign.Work
}

func newVictim(t *testing.T, rng *rand.Rand, lease time.Duration) *victim {
	v := &victim{t: t, rng: rng}
	var err error
	v.dir, err = os.MkdirTemp("", "reprise-postgres") //nolint:usetesting // other users must have access to it
	require.NoError(t, err)
	free, err := ports.Free(1)
	require.NoError(t, err)
	v.port = free[0]
	v.start()
	t.Cleanup(func() {
		require.NoError(t, v.server.Stop())
		v.unmount()
		require.NoError(t, os.RemoveAll(v.dir))
	})
	v.mount()
	v.asAdmin(`create role reprise_app login`, `alter role reprise_app set idle_in_transaction_session_timeout = '100ms'`, `create table steps (run text, n int, line text)`, `grant select, insert on steps to reprise_app`)
	admin, err := pgx.Connect(t.Context(), v.server.URL)
	require.NoError(t, err)
	require.NoError(t, prepare(t.Context(), admin, "reprise"))
	require.NoError(t, admin.Close(t.Context()))
	v.app, err = asApp(v.server.URL)
	require.NoError(t, err)
	v.work = workOf(openOn(t, v.pool(8), postgres.Options{Schema: "reprise", Lease: lease}), t.TempDir())
	return v
}

func (v *victim) start() {
	v.t.Helper()
	var err error
	v.server, err = pgserver.Start(v.t.Context(), v.dir, v.port, "deadlock_timeout=100ms")
	require.NoError(v.t, err)
}

// pool returns a pool for the role with few privileges. The pool is closed at the end of the test.
func (v *victim) pool(connections int32) *pgxpool.Pool {
	v.t.Helper()
	pool, err := poolOf(v.app, connections)
	require.NoError(v.t, err)
	v.t.Cleanup(pool.Close)
	return pool
}

// backup copies the server's data into a directory. If standby is set, the copy is for a replica.
func (v *victim) backup(dir string, standby bool) {
	v.t.Helper()
	v.moveTables()
	require.NoError(v.t, v.server.Stop())
	require.NoError(v.t, v.server.Backup(v.t.Context(), dir, standby))
	v.start()
}

// worker returns a command that executes runs and reaches the server through a proxy.
func (v *victim) worker(address string) *exec.Cmd {
	u, err := url.Parse(v.app)
	require.NoError(v.t, err)
	u.Host = address
	set, err := json.Marshal(settings{u.String(), v.work.Dir, "reprise", lease})
	require.NoError(v.t, err)
	return process.Command(v.t, "work", string(set))
}

// mount puts all tables that are created later into a small file system.
func (v *victim) mount() {
	small := v.dir + "-small"
	require.NoError(v.t, os.Mkdir(small, 0o755)) //nolint:gosec // the server reaches it
	if out, err := exec.CommandContext(v.t.Context(), "mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", small).CombinedOutput(); err != nil {
		v.t.Logf("no file system can be mounted here, so no disk becomes full: %v: %s", err, out)
		require.NoError(v.t, os.Remove(small))
		return
	}
	v.small = small
	info, err := os.Stat(v.dir)
	require.NoError(v.t, err)
	tables := filepath.Join(small, "tables")
	require.NoError(v.t, os.Mkdir(tables, 0o700))
	require.NoError(v.t, os.Chown(tables, int(info.Sys().(*syscall.Stat_t).Uid), -1)) //nolint:forcetypeassert // the type on all systems that mount
	v.asAdmin(`create tablespace small location '`+tables+`'`, `alter database postgres set default_tablespace = small`)
}

func (v *victim) unmount() {
	if v.small != "" {
		require.NoError(v.t, exec.CommandContext(context.Background(), "umount", v.small).Run())
		require.NoError(v.t, os.Remove(v.small))
	}
}

// fill uses up all space in the small file system for a while.
func (v *victim) fill() {
	if v.small != "" {
		remove := v.takeAllRoom()
		v.pause()
		remove()
	}
}

// takeAllRoom uses up all space in the small file system until remove is called.
func (v *victim) takeAllRoom() (remove func()) {
	v.t.Helper()
	name := filepath.Join(v.small, "filler")
	f, err := os.Create(name)
	require.NoError(v.t, err)
	for block := make([]byte, 1<<16); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			require.ErrorIs(v.t, err, syscall.ENOSPC)
			block = block[:len(block)/16]
		}
	}
	return func() { require.NoError(v.t, errors.Join(f.Close(), os.Remove(name))) }
}

// moveTables moves the tables out of the small file system, so that a backup does not have to map
// it.
func (v *victim) moveTables() {
	if v.small != "" {
		v.asAdmin(`alter database postgres reset default_tablespace`, `alter table all in tablespace small set tablespace pg_default`,
			`alter index all in tablespace small set tablespace pg_default`, `drop tablespace small`)
	}
}

func (v *victim) pause() { <-time.After(campaign.Pause(v.rng, lease)) }

// asAdmin executes statements as a superuser. They may fail because of other faults.
func (v *victim) asAdmin(statements ...string) {
	v.t.Helper()
	conn, err := pgx.Connect(v.t.Context(), v.server.URL)
	require.NoError(v.t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	for _, s := range statements {
		if _, err := conn.Exec(v.t.Context(), s); err != nil {
			v.t.Logf("%s: %v", s, err)
		}
	}
}

const endAll = `select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = 'reprise_app'`

func (v *victim) faults() []campaign.Fault {
	return []campaign.Fault{
		{Name: "kill the server", Do: func() {
			require.NoError(v.t, v.server.Kill())
			v.start()
		}},
		{Name: "restart the server", Do: func() {
			require.NoError(v.t, v.server.Stop())
			v.start()
		}},
		{Name: "end all connections", Do: func() { v.asAdmin(endAll) }},
		{Name: "refuse connections", Do: func() {
			v.asAdmin(`alter role reprise_app connection limit 0`, endAll)
			v.pause()
			v.asAdmin(`alter role reprise_app connection limit -1`)
		}},
		{Name: "fill the disk", Do: v.fill},
		{Name: "lock rows", Do: func() {
			for range 10 { // the workers lock the rows in ascending order and detect the deadlock
				v.asAdmin(`set deadlock_timeout = '10s'`, `do $$ declare locked text; begin
					for locked in select uid from reprise.runs where status in ('running', 'queued', 'paused') order by uid desc limit 30 loop
						perform 1 from reprise.runs where uid = locked for update;
						perform pg_sleep(0.02);
					end loop; end $$`)
			}
		}},
	}
}

// check compares the rows of the steps with their records, and looks for rows that
// belong to no run.
func (v *victim) check(also map[string][]string) {
	v.t.Helper()
	conn, err := pgx.Connect(v.t.Context(), v.server.URL)
	require.NoError(v.t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(v.t.Context(), `select run, array_agg(line order by n, line) from steps group by run`)
	require.NoError(v.t, err)
	made := make(map[string][]string)
	var run string
	var lines []string
	_, err = pgx.ForEachRow(rows, []any{&run, &lines}, func() error {
		made[run] = lines
		lines = nil
		return nil
	})
	require.NoError(v.t, err)
	assert.Equal(v.t, also, made)
	for _, table := range []string{"batches", "inbox", "figures", "words"} {
		var orphans int
		require.NoError(v.t, conn.QueryRow(v.t.Context(), `select count(*) from reprise.`+table+` b where not exists (select from reprise.runs r where r.uid = b.uid)`).Scan(&orphans))
		assert.Zero(v.t, orphans, table)
	}
	var without, jobs int
	require.NoError(v.t, conn.QueryRow(v.t.Context(), `select count(*) from reprise.runs r where not exists (select from reprise.figures f where r.uid = f.uid) or not exists (select from reprise.words w where r.uid = w.uid)`).Scan(&without))
	assert.Zero(v.t, without)
	require.NoError(v.t, conn.QueryRow(v.t.Context(), `select count(*) from reprise.jobs`).Scan(&jobs))
	v.t.Logf("%d jobs are left after %d runs", jobs, len(also))
}
