package jetstream_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	kit "github.com/reprise-go/reprise/internal/testkit/campaign"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/snapshot"
)

// TestCampaign injects random faults into three workers and their server while runs are started.
// Workers are killed, are stopped for longer than their lease and then continued, are cut off, and
// lose answers from the server. The server is killed, accepts only small messages for a while, and
// has no room for artifacts. With REPRISE_CLUSTER there are three servers: one of them is killed,
// stopped or cut off from the others, or all are killed at once. With REPRISE_CLOCKS, the clock of
// one worker is an hour ahead and that of another an hour behind; for this, the test is built with
// a changed clock. At the end, each run must have ended, its history must have no gaps, each
// generation must belong to one process, and no call with an outcome may have run again.
//
// REPRISE_CAMPAIGN is "<seed> <runs> <faults>"; see CONTRIBUTING.md.
func TestCampaign(t *testing.T) {
	t.Parallel()
	rng, runs, faults := kit.Length(t, 24, 6)
	c := newCampaign(t, rng)
	id := func(i int) string {
		if i%4 == 0 {
			return fmt.Sprint("large", i)
		}
		return fmt.Sprint("r", i)
	}
	for i := range runs {
		c.site.start(id(i), 5)
		for n := faults * i / runs; n < faults*(i+1)/runs; n++ {
			c.fault()
		}
	}
	for i := range runs {
		c.site.check(id(i), 5, c.stops)
	}
	page, err := c.site.client.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	assert.Len(t, page.Runs, runs)
	for _, w := range c.workers {
		w.process.Stop()
	}
	t.Logf("%v", c.done)
}

type campaign struct {
	t       *testing.T
	rng     *rand.Rand
	site    *site
	group   *group
	workers []*campaigner
	skewed  string         // the binary of the workers whose clock is wrong
	stops   int            // how many times an effect may have been in progress when a lease expired
	done    map[string]int // faults by name
}

// A campaigner is a worker that reaches each server through a proxy.
type campaigner struct {
	process *process.Process
	command *exec.Cmd
	proxies []*proxy
	clock   string // how many seconds the worker's clock is ahead
}

// set calls [kit.Proxy.Set] for all proxies of the worker.
func (w *campaigner) set(cut, deaf bool) {
	for _, p := range w.proxies {
		p.Set(cut, deaf)
	}
}

func newCampaign(t *testing.T, rng *rand.Rand) *campaign {
	c := &campaign{t: t, rng: rng, done: map[string]int{}}
	o := jetstream.Options{Lease: lease}
	if os.Getenv("REPRISE_CLUSTER") == "" {
		c.group = startOne(t)
	} else {
		c.group, o.Replicas = startGroup(t), 3
		c.group.await()
	}
	c.site = newSite(t, c.group.url(), o)
	clocks := [3]string{}
	if os.Getenv("REPRISE_CLOCKS") != "" {
		c.skewed = skewedBinary(t)
		clocks = [3]string{"", "3600", "-3600"}
	}
	for i := range 3 {
		w := &campaigner{clock: clocks[i]}
		for server := range c.group.servers {
			w.proxies = append(w.proxies, newProxy(t, c.group.urlOf(server)))
		}
		c.begin(w)
		c.workers = append(c.workers, w)
	}
	return c
}

func (c *campaign) begin(w *campaigner) {
	var urls []string
	for _, p := range w.proxies {
		urls = append(urls, p.url())
	}
	w.command = c.site.workerCommand("quiet", strings.Join(urls, ","))
	if w.clock != "" {
		w.command.Path = c.skewed
		w.command.Env = append(w.command.Env, "REPRISE_SKEW="+w.clock)
	}
	w.process = process.Start(c.t, w.command)
	w.process.Await("ready")
}

func (c *campaign) pause() { <-time.After(kit.Pause(c.rng, lease)) }

// restart kills all servers and starts them again, with a limit on the size of messages or with the
// default limit.
func (c *campaign) restart(maxPayload int32) {
	c.stops++
	c.group.kill(c.group.all()...)
	for i := range c.group.settings {
		c.group.settings[i].MaxPayload = maxPayload
	}
	c.group.revive(c.group.all()...)
	c.awaitLeader()
}

// awaitLeader waits until the servers process requests.
func (c *campaign) awaitLeader() {
	if len(c.group.servers) > 1 {
		c.group.leaderOf(c.site.conn)
	}
}

// limitBucket sets the maximum size of the artifact bucket, in bytes.
func (c *campaign) limitBucket(bytes int64) {
	js, err := njs.New(c.site.conn)
	require.NoError(c.t, err)
	c.site.patiently("limit the bucket", func(ctx context.Context) error {
		once, cancel := context.WithTimeout(ctx, 5*time.Second) // a request is lost if the leader fails
		defer cancel()
		stream, err := js.Stream(once, "OBJ_RPA_reprise")
		if err == nil {
			config := stream.CachedInfo().Config
			config.MaxBytes = bytes
			_, err = js.UpdateStream(once, config)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("%w: %w", snapshot.ErrUnavailable, err) // the server was just started
		}
		return err
	})
}

// fault injects one fault and removes it after a while.
func (c *campaign) fault() {
	w := c.workers[c.rng.IntN(len(c.workers))]
	name := "kill a worker"
	switch n := c.rng.IntN(13); {
	case n < 3:
		w.process.Kill()
		c.begin(w)
	case n < 5:
		name = "stop a worker"
		c.stops++
		require.NoError(c.t, w.command.Process.Signal(syscall.SIGSTOP))
		c.pause()
		require.NoError(c.t, w.command.Process.Signal(syscall.SIGCONT))
	case n < 7:
		name = "cut a worker off"
		c.stops++ // the worker may be in the middle of an effect when its lease expires
		w.set(true, false)
		c.pause()
		w.set(false, false)
	case n < 8:
		name = "lose answers"
		c.stops++
		w.set(false, true)
		c.pause()
		w.set(false, false)
	case n < 10:
		name = c.attackServer()
	case n < 11:
		name = "small messages" // large outputs now become artifacts
		c.restart(32 << 10)
		c.pause()
		c.restart(0)
	default:
		name = "full bucket" // large outputs now cannot be stored
		c.limitBucket(1)
		c.pause()
		c.limitBucket(-1)
	}
	c.done[name]++
}

// attackServer kills one or all servers, or injects another fault into one server of a cluster,
// which may be the leader of the stream of records.
func (c *campaign) attackServer() (name string) {
	c.stops++
	i := c.rng.IntN(len(c.group.servers))
	kind := c.rng.IntN(4)
	switch {
	case len(c.group.servers) == 1 || kind == 0:
		name = "kill all servers"
		c.restart(0)
	case kind == 1:
		name = "kill a server"
		c.group.kill(i)
		c.pause()
		c.group.revive(i)
	case kind == 2:
		name = "stop a server"
		require.NoError(c.t, c.group.commands[i].Process.Signal(syscall.SIGSTOP))
		c.pause()
		require.NoError(c.t, c.group.commands[i].Process.Signal(syscall.SIGCONT))
	default:
		name = "cut a server off"
		c.group.part(i, true)
		c.pause()
		c.group.part(i, false)
	}
	c.awaitLeader()
	return name
}
