package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/ports"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/postgres"
	"github.com/reprise-go/reprise/postgres/internal/pgserver"
)

// TestCampaign does random things to three workers and their server while runs are started:
// workers are killed, stopped beyond their lease and continued, cut off, and lose what the
// server answers; the server is killed and restarted, lets nobody in, ends connections, and
// others lock what the workers write, in orders that make deadlocks. In the end each run has
// ended, its history is without gaps, and what has an outcome has not run again.
//
// REPRISE_CAMPAIGN is "<seed> <runs> <faults>"; see CONTRIBUTING.md.
func TestCampaign(t *testing.T) {
	t.Parallel()
	seed, runs, faults := rand.Uint64(), 24, 8
	if set := os.Getenv("REPRISE_CAMPAIGN"); set != "" {
		_, err := fmt.Sscan(set, &seed, &runs, &faults)
		require.NoError(t, err, "REPRISE_CAMPAIGN is %q; want <seed> <runs> <faults>", set)
	}
	t.Logf("REPRISE_CAMPAIGN=\"%d %d %d\"", seed, runs, faults)
	c := newCampaign(t, rand.New(rand.NewPCG(seed, 0)))
	for i := range runs {
		c.site.start(fmt.Sprint("r", i), 5)
		for n := faults * i / runs; n < faults*(i+1)/runs; n++ {
			c.fault()
		}
	}
	for i := range runs {
		c.site.check(fmt.Sprint("r", i), 5, c.stops)
	}
	for _, w := range c.workers {
		w.process.Stop()
	}
	c.site.checkHistory(runs)
	t.Logf("%v", c.done)
}

type campaign struct {
	t       *testing.T
	rng     *rand.Rand
	site    *site
	dir     string // of the server
	port    int
	server  *pgserver.Server
	workers []*campaigner
	stops   int            // how often a worker was stopped
	done    map[string]int // faults by name
}

// A campaigner is a worker behind a proxy.
type campaigner struct {
	process *process.Process
	command *exec.Cmd
	proxy   *proxy
}

// startServer starts a server that tests may kill, with the tables of a schema.
func startServer(t *testing.T, dir string, port int) *pgserver.Server {
	t.Helper()
	server, err := pgserver.Start(t.Context(), dir, port, "idle_in_transaction_session_timeout=100ms")
	require.NoError(t, err)
	return server
}

func newCampaign(t *testing.T, rng *rand.Rand) *campaign {
	serverURL(t) // it skips the test, or not
	c := &campaign{t: t, rng: rng, done: map[string]int{}}
	var err error
	c.dir, err = os.MkdirTemp("", "reprise-postgres") //nolint:usetesting // others than the present user must reach it
	require.NoError(t, err)
	free, err := ports.Free(1)
	require.NoError(t, err)
	c.port = free[0]
	c.server = startServer(t, c.dir, c.port)
	t.Cleanup(func() {
		require.NoError(t, c.server.Stop())
		require.NoError(t, os.RemoveAll(c.dir))
	})
	c.asAdmin(`create role reprise_app login`)
	admin, err := pgx.Connect(t.Context(), c.server.URL)
	require.NoError(t, err)
	require.NoError(t, prepare(t.Context(), admin, "reprise"))
	require.NoError(t, admin.Close(t.Context()))
	app, err := asApp(c.server.URL)
	require.NoError(t, err)
	c.site = newSite(t, app, postgres.Options{Schema: "reprise", Lease: lease})
	for range 3 {
		w := &campaigner{proxy: newProxy(t, app)}
		c.begin(w)
		c.workers = append(c.workers, w)
	}
	return c
}

func (c *campaign) begin(w *campaigner) {
	w.command = c.site.worker(w.proxy.url())
	w.process = process.Start(c.t, w.command)
	w.process.Await("ready")
}

// asAdmin does statements as a superuser. They may fail: others are in the way on purpose.
func (c *campaign) asAdmin(statements ...string) {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.server.URL)
	require.NoError(c.t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	for _, s := range statements {
		if _, err := conn.Exec(c.t.Context(), s); err != nil {
			c.t.Logf("%s: %v", s, err)
		}
	}
}

// pause is a time around a lease.
func (c *campaign) pause() {
	<-time.After(time.Duration(c.rng.Int64N(int64(3 * lease / 2))))
}

// fault does one thing, and undoes it after a while.
func (c *campaign) fault() {
	w := c.workers[c.rng.IntN(len(c.workers))]
	kinds := []struct {
		name  string
		stops bool // an effect may be under way when a lease ends
		do    func()
	}{
		{"kill a worker", false, func() {
			w.process.Kill()
			c.begin(w)
		}},
		{"stop a worker", true, func() {
			require.NoError(c.t, w.command.Process.Signal(syscall.SIGSTOP))
			c.pause()
			require.NoError(c.t, w.command.Process.Signal(syscall.SIGCONT))
		}},
		{"cut a worker off", true, func() {
			w.proxy.set(true, false)
			c.pause()
			w.proxy.set(false, false)
		}},
		{"lose answers", true, func() {
			w.proxy.set(false, true)
			c.pause()
			w.proxy.set(false, false)
		}},
		{"kill the server", true, func() {
			require.NoError(c.t, c.server.Kill())
			c.server = startServer(c.t, c.dir, c.port)
		}},
		{"restart the server", true, func() {
			require.NoError(c.t, c.server.Stop())
			c.server = startServer(c.t, c.dir, c.port)
		}},
		{"end all connections", true, func() {
			c.asAdmin(`select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = 'reprise_app'`)
		}},
		{"let nobody in", true, func() {
			c.asAdmin(`alter role reprise_app connection limit 0`, `select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = 'reprise_app'`)
			c.pause()
			c.asAdmin(`alter role reprise_app connection limit -1`)
		}},
		{"lock rows", true, func() {
			for range 10 {
				c.asAdmin(`do $$ declare locked text; begin for locked in select uid from reprise.runs order by random() limit 20 loop
					perform 1 from reprise.runs where uid = locked for update; perform pg_sleep(0.005); end loop; end $$`)
			}
		}},
	}
	kind := kinds[c.rng.IntN(len(kinds))]
	if kind.stops {
		c.stops++
	}
	kind.do()
	c.done[kind.name]++
}
