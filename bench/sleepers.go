package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	sethvargo "github.com/sethvargo/go-retry"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

const (
	sleepersName = "Sleepers"
	sleepersPeer = "failsafe"
	sleepPasses  = 3               // processes for each contestant
	sleepFor     = time.Hour       // longer than any measurement
	settle       = time.Second / 2 // time from the last failure until all calls are asleep
)

// sleeperContestant is a contestant of Sleepers.
type sleeperContestant struct {
	lib string
	// start returns two functions: call makes a call that fails and then waits, and wake wakes all
	// calls that are waiting. handle counts the attempt and fails with err.
	start func(ctx context.Context, cancel func(), handle func(err error) (int, error)) (call func() (int, error), wake func())
}

func (s sleeperContestant) String() string { return s.lib }

var hourlyRetry = core.RetryConfig{
	MaxAttempts: attempts, Backoff: core.Constant, InitialDelay: sleepFor, MaxDelay: sleepFor, Jitter: core.NoJitter,
}

func sleepingTool(handle func(error) (int, error)) *core.Definition[int, int] {
	boom := core.Retryable(errBoom)
	return newTool(func(context.Context, int) (int, error) { return handle(boom) }, hourlyRetry, 0)
}

var sleeperContestants = []sleeperContestant{
	{"reprise", func(ctx context.Context, cancel func(), handle func(error) (int, error)) (func() (int, error), func()) {
		tool := sleepingTool(handle)
		return func() (int, error) { return tool.Event().Execute(ctx, answer) }, cancel
	}},
	{"reprise-run", func(ctx context.Context, _ func(), handle func(error) (int, error)) (func() (int, error), func()) {
		tool := sleepingTool(handle)
		st := state.New()
		ctx = st.Context(ctx)
		wake := func() { st.Interrupt(snapshot.Stop{By: "bench", Message: "enough"}) }
		return func() (int, error) { return tool.Event().Execute(ctx, answer) }, wake
	}},
	{"failsafe", func(ctx context.Context, cancel func(), handle func(error) (int, error)) (func() (int, error), func()) {
		policy := retrypolicy.NewBuilder[int]().WithMaxAttempts(attempts).WithDelay(sleepFor).Build()
		executor := failsafe.With(policy).WithContext(ctx)
		fn := func() (int, error) { return handle(errBoom) }
		return func() (int, error) { return executor.Get(fn) }, cancel
	}},
	{"cenkalti", func(ctx context.Context, cancel func(), handle func(error) (int, error)) (func() (int, error), func()) {
		// A ConstantBackOff has no state, so all calls can share it.
		options := []cenkalti.RetryOption{
			cenkalti.WithMaxTries(attempts), cenkalti.WithMaxElapsedTime(0),
			cenkalti.WithBackOff(cenkalti.NewConstantBackOff(sleepFor)),
		}
		fn := func() (int, error) { return handle(errBoom) }
		return func() (int, error) { return cenkalti.Retry(ctx, fn, options...) }, cancel
	}},
	{"avast", func(ctx context.Context, cancel func(), handle func(error) (int, error)) (func() (int, error), func()) {
		retrier := avast.NewWithData[int](avast.Context(ctx), avast.Attempts(attempts), avast.LastErrorOnly(true),
			avast.Delay(sleepFor), avast.DelayType(avast.FixedDelay))
		fn := func() (int, error) { return handle(errBoom) }
		return func() (int, error) { return retrier.Do(fn) }, cancel
	}},
	{"sethvargo", func(ctx context.Context, cancel func(), handle func(error) (int, error)) (func() (int, error), func()) {
		boom := sethvargo.RetryableError(errBoom)
		backoff := sethvargo.NewConstant(sleepFor)
		fn := func(context.Context) (int, error) { return handle(boom) }
		return func() (int, error) {
			return sethvargo.DoValue(ctx, sethvargo.WithMaxRetries(attempts-1, backoff), fn)
		}, cancel
	}},
	{"loop", func(ctx context.Context, cancel func(), handle func(error) (int, error)) (func() (int, error), func()) {
		fn := func(context.Context, int) (int, error) { return handle(errBoom) }
		return func() (int, error) { return loop(ctx, sleepFor, once, fn, answer, nil) }, cancel
	}},
}

// sleepTimes are the times that a child process prints.
type sleepTimes struct {
	BytesEach float64 `json:"bytes_each"`
	Release   float64 `json:"release"` // seconds
}

// sleep makes n calls wait in this process, and then wakes them.
func (s sleeperContestant) sleep(n int, settle time.Duration) (sleepTimes, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var failures, successes atomic.Int64
	allFailed := make(chan struct{})
	handle := func(err error) (int, error) {
		if failures.Add(1) == int64(n) {
			close(allFailed)
		}
		return 0, err
	}
	var calls sync.WaitGroup
	before := memory()
	call, wake := s.start(ctx, cancel, handle)
	for range n {
		calls.Go(func() {
			if _, err := call(); err == nil {
				successes.Add(1)
			}
		})
	}
	<-allFailed
	time.Sleep(settle)
	each := float64(memory()-before) / float64(n)
	start := time.Now()
	wake()
	calls.Wait()
	elapsed := time.Since(start)
	if f, s := failures.Load(), successes.Load(); f != int64(n) || s != 0 {
		return sleepTimes{}, fmt.Errorf("%d calls had %d attempts and %d successes", n, f, s)
	}
	return sleepTimes{each, elapsed.Seconds()}, nil
}

// memory returns the memory in use after two collections: the second one
// frees what pools and finalizers kept, and shrinks stacks.
func memory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// sleeperChild runs in the child process of [sleeperContestant.inChild].
func sleeperChild(lib string, n int) error {
	for _, s := range sleeperContestants {
		if s.lib == lib {
			r, err := s.sleep(n, settle)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(r)
		}
	}
	return fmt.Errorf("-sleeper-child %s: no such contestant", lib)
}

// inChild is like sleep, but measures in a new process, because the heap and the timers of a
// process that has already measured another contestant do not shrink completely.
func (s sleeperContestant) inChild(n int) (sleepTimes, error) {
	program, err := os.Executable()
	if err != nil {
		return sleepTimes{}, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program, "-sleeper-child", s.lib, "-sleepers", strconv.Itoa(n))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var r sleepTimes
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("%s/lib=%s: %w: %s", sleepersName, s.lib, err, &stderr)
	}
	err = json.Unmarshal(stdout.Bytes(), &r)
	return r, err
}

func measureSleepers(contestants []sleeperContestant, n int) (result, error) {
	r := make(result)
	for range sleepPasses {
		for _, s := range contestants {
			one, err := s.inChild(n)
			if err != nil {
				return nil, err
			}
			r.add(s.lib, bytesEach, one.BytesEach)
			r.add(s.lib, release, one.Release*1000)
		}
	}
	return r, nil
}
