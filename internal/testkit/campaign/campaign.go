package campaign

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit/process"
)

// Variable is the environment variable that sets the length of a campaign, as "<seed> <runs>
// <faults>".
const Variable = "REPRISE_CAMPAIGN"

// Steps is the number of steps of each run.
const Steps = 5

// A Fault is something that goes wrong in a worker or its server. Do causes the fault and undoes it
// before it returns.
type Fault struct {
	Name string
	Do   func()
}

// Options configure a campaign.
type Options struct {
	Site  *Site
	Lease time.Duration
	Rand  *rand.Rand

	Server string                         // the server's host and port; empty if the workers share files
	Worker func(address string) *exec.Cmd // prints "ready" when it works; address is its proxy's address

	Faults []Fault // faults of the server
}

type campaign struct {
	t       testing.TB
	o       Options
	workers []*worker
	stops   int            // how often an effect may have been in progress when the lease of its worker expired
	done    map[string]int // number of faults, by name
}

// A worker is a process that reaches the server through a proxy.
type worker struct {
	process *process.Process
	command *exec.Cmd
	proxy   *Proxy // nil if the workers have no server
}

// Length returns a random source and the numbers of runs and faults. [Variable] sets the seed and
// both numbers.
func Length(t testing.TB, runs, faults int) (*rand.Rand, int, int) {
	t.Helper()
	seed := rand.Uint64()
	if set := os.Getenv(Variable); set != "" {
		_, err := fmt.Sscan(set, &seed, &runs, &faults)
		require.NoError(t, err, "%s is %q; want <seed> <runs> <faults>", Variable, set)
	}
	t.Logf("%s=\"%d %d %d\"", Variable, seed, runs, faults)
	return rand.New(rand.NewPCG(seed, 0)), runs, faults
}

// Run starts runs, and meanwhile causes faults in three workers and in their server, if they have
// one. It checks that each run ends and that its outcomes are in the ledger. It returns the lines
// that Work.Also wrote, by run.
func Run(t testing.TB, o Options, runs, faults int) map[string][]string {
	t.Helper()
	c := &campaign{t: t, o: o, done: make(map[string]int)}
	for range 3 {
		w := &worker{}
		if o.Server != "" {
			w.proxy = NewProxy(t, o.Server)
		}
		c.begin(w)
		c.workers = append(c.workers, w)
	}
	for i := range runs {
		o.Site.Start(runID(i), Steps)
		for n := faults * i / runs; n < faults*(i+1)/runs; n++ {
			c.fault()
		}
	}
	also := make(map[string][]string, runs)
	for i := range runs {
		also[runID(i)] = o.Site.Check(runID(i), Steps, c.stops)
	}
	for _, w := range c.workers {
		w.process.Stop()
	}
	o.Site.CheckHistory(runs)
	t.Logf("%v", c.done)
	return also
}

func runID(i int) string { return fmt.Sprint("r", i) }

func (c *campaign) begin(w *worker) {
	address := ""
	if w.proxy != nil {
		address = w.proxy.Addr()
	}
	w.command = c.o.Worker(address)
	w.process = process.Start(c.t, w.command)
	w.process.Await("ready")
}

// pause waits for a random time of at most 1.5 leases.
func (c *campaign) pause() { <-time.After(Pause(c.o.Rand, c.o.Lease)) }

// Pause returns a random duration of at most 1.5 leases.
func Pause(rng *rand.Rand, lease time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(3 * lease / 2)))
}

// fault causes one random fault and undoes it after a while.
func (c *campaign) fault() {
	w := c.workers[c.o.Rand.IntN(len(c.workers))]
	all := append(c.faultsOf(w), c.o.Faults...)
	one := all[c.o.Rand.IntN(len(all))]
	if one.Name != killed {
		c.stops++
	}
	one.Do()
	c.done[one.Name]++
}

const killed = "kill a worker"

func (c *campaign) faultsOf(w *worker) []Fault {
	all := []Fault{
		{killed, func() {
			w.process.Kill()
			c.begin(w)
		}},
		{"stop a worker", func() {
			require.NoError(c.t, w.command.Process.Signal(syscall.SIGSTOP))
			c.pause()
			require.NoError(c.t, w.command.Process.Signal(syscall.SIGCONT))
		}},
	}
	if w.proxy == nil {
		return all
	}
	return append(all,
		Fault{"cut a worker off", func() {
			w.proxy.Set(true, false)
			c.pause()
			w.proxy.Set(false, false)
		}},
		Fault{"lose answers", func() {
			w.proxy.Set(false, true)
			c.pause()
			w.proxy.Set(false, false)
		}})
}
