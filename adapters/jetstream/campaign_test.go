package jetstream_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/snapshot"
)

// TestCampaign does random things to three workers and their server while runs
// are started: workers are killed, stopped beyond their lease and continued, cut
// off, and lose what the server answers; the server is killed, takes only small messages for
// a while, and has no room for artifacts. With REPRISE_CLOCKS, one worker is an hour ahead
// and one an hour behind, which builds the test with another clock. In the end each
// run has ended, its history is without gaps, each generation is of one process,
// and what has an outcome has not run again.
//
// REPRISE_CAMPAIGN is "<seed> <runs> <faults>"; see CONTRIBUTING.md.
func TestCampaign(t *testing.T) {
	t.Parallel()
	seed, runs, faults := rand.Uint64(), 24, 6
	if set := os.Getenv("REPRISE_CAMPAIGN"); set != "" {
		_, err := fmt.Sscan(set, &seed, &runs, &faults)
		require.NoError(t, err, "REPRISE_CAMPAIGN is %q; want <seed> <runs> <faults>", set)
	}
	t.Logf("REPRISE_CAMPAIGN=\"%d %d %d\"", seed, runs, faults)
	c := newCampaign(t, rand.New(rand.NewPCG(seed, 0)))
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
	for _, w := range c.workers {
		w.process.Stop()
	}
	c.server.Stop()
	t.Logf("%v", c.done)
}

type campaign struct {
	t        *testing.T
	rng      *rand.Rand
	site     *site
	settings serverSettings
	server   *process.Process
	workers  []*campaigner
	skewed   string         // the binary of workers whose clock is wrong
	stops    int            // how often a worker was stopped
	done     map[string]int // faults by name
}

// A campaigner is a worker behind a proxy.
type campaigner struct {
	process *process.Process
	command *exec.Cmd
	proxy   *proxy
	clock   string // by how many seconds it is ahead
}

func newCampaign(t *testing.T, rng *rand.Rand) *campaign {
	c := &campaign{t: t, rng: rng, settings: oneServer(t), done: map[string]int{}}
	var url string
	c.server, _, url = startServer(t, c.settings)
	c.site = newSite(t, url, jetstream.Options{Lease: lease})
	clocks := [3]string{}
	if os.Getenv("REPRISE_CLOCKS") != "" {
		c.skewed = skewedBinary(t)
		clocks = [3]string{"", "3600", "-3600"}
	}
	for i := range 3 {
		w := &campaigner{proxy: newProxy(t, url), clock: clocks[i]}
		c.begin(w)
		c.workers = append(c.workers, w)
	}
	return c
}

func (c *campaign) begin(w *campaigner) {
	w.command = c.site.workerCommand("quiet", w.proxy.url())
	if w.clock != "" {
		w.command.Path = c.skewed
		w.command.Env = append(w.command.Env, "REPRISE_SKEW="+w.clock)
	}
	w.process = process.Start(c.t, w.command)
	w.process.Await("ready")
}

// pause is a time around a lease.
func (c *campaign) pause() {
	<-time.After(time.Duration(c.rng.Int64N(int64(3 * lease / 2))))
}

// restart kills the server, and starts it with a limit of messages, or with the default.
func (c *campaign) restart(maxPayload int32) {
	c.stops++
	c.server.Kill()
	c.settings.MaxPayload = maxPayload
	c.server, _, _ = startServer(c.t, c.settings)
}

// limitBucket sets what the bucket of the artifacts may have, in bytes.
func (c *campaign) limitBucket(bytes int64) {
	js, err := njs.New(c.site.conn)
	require.NoError(c.t, err)
	c.site.patiently("limit the bucket", func(ctx context.Context) error {
		stream, err := js.Stream(ctx, "OBJ_RPA_reprise")
		if err == nil {
			config := stream.CachedInfo().Config
			config.MaxBytes = bytes
			_, err = js.UpdateStream(ctx, config)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", snapshot.ErrUnavailable, err) // the server was just started
		}
		return nil
	})
}

// fault does one thing, and undoes it after a while.
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
		c.stops++ // an effect may be under way when its lease ends
		w.proxy.Set(true, false)
		c.pause()
		w.proxy.Set(false, false)
	case n < 8:
		name = "lose answers"
		c.stops++
		w.proxy.Set(false, true)
		c.pause()
		w.proxy.Set(false, false)
	case n < 10:
		name = "kill the server"
		c.restart(0)
	case n < 11:
		name = "small messages" // large outputs are artifacts now
		c.restart(32 << 10)
		c.pause()
		c.restart(0)
	default:
		name = "full bucket" // large outputs cannot be stored
		c.limitBucket(1)
		c.pause()
		c.limitBucket(-1)
	}
	c.done[name]++
}
