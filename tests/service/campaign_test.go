package service

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"serve": serve, "agents": serveAgents, "share": shareDirectory})
}

// serve serves the directory until its standard input is closed. It prints a line for each effect,
// and for each run that has ended. The second argument is the number of effects after which calls
// block.
func serve(args ...string) error {
	effects, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	r, err := newRunner(args[0], effects, func(e runner.Notice) {
		switch {
		case e.Type == runner.NoticeClosed && e.Status == snapshot.StatusPaused:
		case e.Type == runner.NoticeClosed:
			fmt.Println("ended", e.RunID, e.Status)
		case e.Type == runner.NoticeTrouble:
			fmt.Println("trouble", e)
		}
	})
	if err != nil {
		return err
	}
	ctx, cancel := process.UntilStdinEnds()
	defer cancel()
	return r.Serve(ctx)
}

// Work is the input of a run.
type Work struct {
	Name  string `json:"name"`
	Steps int    `json:"steps"`
}

func newRunner(dir string, effects int, observe func(runner.Notice)) (*runner.Runner, error) {
	store, err := filestore.New(dir)
	if err != nil {
		return nil, err
	}
	r, err := runner.New(store, runner.Options{
		Limit: 2000, MaxRestarts: 1000, SweepEvery: 100 * time.Millisecond, ParkAfter: time.Millisecond, Observe: observe,
	})
	if err != nil {
		return nil, err
	}
	ledger, err := os.OpenFile(filepath.Join(dir, "ledger"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	var had atomic.Int64
	effect := decorators.Tool("effect", "", func(ctx context.Context, in Work) (string, error) {
		if had.Add(1) > int64(effects) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		s := core.ScopeOf(ctx)
		// A single write of less than a page, so that no line is torn.
		_, err := fmt.Fprintf(ledger, "%s %s %d\n", in.Name, s.Address(), s.Attempt())
		fmt.Println("effect")
		return in.Name, err
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited, InitialDelay: core.NoDelay}))
	runner.Register(r, decorators.Agent("work", "", func(ctx context.Context, in Work) (int, error) {
		for n := range in.Steps {
			if _, err := effect.Call(ctx, in); err != nil {
				return 0, err
			}
			if n%2 == 0 { // long enough for the run to be parked
				if err := core.Sleep(ctx, 50*time.Millisecond); err != nil {
					return 0, err
				}
			}
		}
		return in.Steps, nil
	}))
	return r, nil
}

// of returns a number from the environment variable name, or def if the variable is not set.
func of(t *testing.T, name string, def int) int {
	if text := os.Getenv(name); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, name)
		return n
	}
	return def
}

// TestKilledServiceLosesAndRepeatsNothing starts many runs and repeatedly kills their service, each
// time after a different number of effects. All runs must end, no call with an outcome may be
// repeated, and nothing may be lost.
func TestKilledServiceLosesAndRepeatsNothing(t *testing.T) {
	runs, kills := of(t, "REPRISE_RUNS", 40), of(t, "REPRISE_KILLS", 5)
	dir := t.TempDir()
	r, err := newRunner(dir, 0, nil) // this runner is used only to start runs
	require.NoError(t, err)
	const steps = 6
	for i := range runs {
		name := fmt.Sprint("run-", i)
		_, err := r.Start(t.Context(), "work", name, Work{name, steps}, runner.StartOptions{})
		require.NoError(t, err)
	}
	rng := rand.New(rand.NewPCG(1, uint64(runs)))
	for range kills {
		// All services together get at most half of the effects, so that each service gets some.
		effects := 1 + rng.IntN(runs*steps/2/kills)
		service := begin(t, dir, effects)
		for range effects {
			service.Await("effect")
		}
		service.Kill()
	}
	service := begin(t, dir, math.MaxInt)
	for i := 0; i < runs; {
		info, err := r.Info(t.Context(), fmt.Sprint("run-", i))
		require.NoError(t, err)
		if info.Status == snapshot.StatusCompleted || info.Status == snapshot.StatusFailed {
			i++
			continue
		}
		for ended := false; !ended; {
			line, ok := service.Line()
			require.True(t, ok, "the service ended")
			ended = strings.HasPrefix(line, "ended ")
		}
	}
	service.Stop()
	check(t, r, dir, runs, steps)
}

// check compares the records of the runs with the ledger.
func check(t *testing.T, r *runner.Runner, dir string, runs, steps int) {
	effects := readLedger(t, dir)
	all := 0
	for _, attempts := range effects {
		for _, n := range attempts {
			all += n
		}
	}
	assert.Len(t, effects, runs*steps, "each call has had an effect, and nothing else has")
	generations := uint64(0)
	for i := range runs {
		name := fmt.Sprint("run-", i)
		out, err := r.Result(t.Context(), name)
		require.NoError(t, err, name)
		assert.Equal(t, steps, out)
		run, err := r.Store().Load(t.Context(), name)
		require.NoError(t, err)
		generations += run.Generation
		checkRun(t, run, effects)
	}
	t.Logf("%d runs, %d effects for %d calls, %d openings", runs, all, runs*steps, generations)
}

// checkRun checks that an attempt was repeated only if the process ended during it, that it had at
// most one effect for each time it began, that an attempt that completed its call had an effect,
// and that a call has no records after its outcome. It also checks that the records were written by
// one owner at a time.
func checkRun(t *testing.T, run *snapshot.Run, effects map[string]map[int]int) {
	generation := uint64(0)
	begun := make(map[record.Address]map[int]int)
	outcomes := make(map[record.Address]bool)
	for rec, err := range run.Records() {
		require.NoError(t, err)
		assert.GreaterOrEqual(t, rec.Generation, generation)
		generation = rec.Generation
		if rec.Kind != record.KindTool {
			continue
		}
		assert.False(t, outcomes[rec.Address], "%s: record %d comes after the outcome of %s", run.RunID, rec.Seq, rec.Address)
		if rec.Status == record.StatusStarted {
			if begun[rec.Address] == nil {
				begun[rec.Address] = make(map[int]int)
			}
			if begun[rec.Address][rec.Attempt]++; begun[rec.Address][rec.Attempt] > 1 {
				assert.Equal(t, record.ReasonLost, rec.Reason, "%s: attempt %d of %s began again", run.RunID, rec.Attempt, rec.Address)
			}
		}
		if rec.IsOutcome() {
			outcomes[rec.Address] = true
			had := effects[run.RunID+" "+rec.Address.String()]
			assert.Positive(t, had[rec.Attempt], "%s: attempt %d of %s completed", run.RunID, rec.Attempt, rec.Address)
			for attempt, n := range had {
				assert.LessOrEqual(t, n, begun[rec.Address][attempt], "%s: attempt %d of %s had more effects than it began", run.RunID, attempt, rec.Address)
			}
		}
	}
}

func begin(t *testing.T, dir string, effects int) *process.Process {
	return process.Start(t, process.Command(t, "serve", dir, strconv.Itoa(effects)))
}
