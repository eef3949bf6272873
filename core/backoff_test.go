package core_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

var strategies = []core.Backoff{core.Constant, core.Linear, core.Exponential, core.Fibonacci}

const never = time.Duration(math.MaxInt64)

// random returns a random source whose seed is logged if the test fails.
func random(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// anyDuration returns a duration of any magnitude.
func anyDuration(r *rand.Rand) time.Duration {
	return time.Duration(r.Uint64()>>(1+r.IntN(62))) + 1
}

// plainDelays computes the delays of a configuration without jitter.
type plainDelays struct{ retries engine.Retries }

func policy(t *testing.T, c core.RetryConfig) plainDelays {
	t.Helper()
	c.Jitter = core.NoJitter
	p, err := c.Policy()
	if err != nil {
		t.Fatal(err)
	}
	return plainDelays{p.Retries}
}

// Delay returns the delay before retry n, from 1.
func (d plainDelays) Delay(n int) time.Duration { return d.retries.Delay(n, 0, 0) }

// model returns a function that yields the delays of a strategy, one after another. The multiplier
// is given in eighths.
func model(b core.Backoff, initial, most time.Duration, eighths int64) func() *big.Int {
	d, limit := big.NewInt(int64(initial)), big.NewInt(int64(most))
	capped := func(x *big.Int) *big.Int {
		if x.Cmp(limit) > 0 {
			return limit
		}
		return x
	}
	n := int64(0)
	fa, fb := big.NewInt(1), big.NewInt(1)
	power := new(big.Rat).SetInt(d)
	factor := big.NewRat(eighths, 8)
	return func() *big.Int {
		n++
		switch b {
		case core.Linear:
			return capped(new(big.Int).Mul(d, big.NewInt(n)))
		case core.Fibonacci:
			x := capped(new(big.Int).Mul(d, fa))
			if x != limit { // keep the numbers small
				fa, fb = fb, new(big.Int).Add(fa, fb)
			}
			return x
		case core.Exponential:
			x := capped(new(big.Int).Quo(power.Num(), power.Denom()))
			if x != limit {
				power = new(big.Rat).Mul(power, factor)
			}
			return x
		}
		return capped(new(big.Int).Set(d))
	}
}

func TestDelayEqualsTheModel(t *testing.T) {
	r := random(t)
	for _, b := range strategies {
		for range 30 {
			c := core.RetryConfig{Backoff: b, InitialDelay: anyDuration(r), MaxDelay: anyDuration(r), Jitter: core.NoJitter}
			eighths := int64(8 + r.IntN(40))
			c.Multiplier = float64(eighths) / 8
			p, next := policy(t, c), model(b, c.InitialDelay, c.MaxDelay, eighths)
			for n := 1; n <= 200; n++ {
				got, want := p.Delay(n), time.Duration(next().Int64())
				// A float64 is exact for delays of up to 104 days; longer delays are compared to 15
				// digits.
				if diff := (got - want).Abs(); diff > want>>50+1 || diff > 0 && want < 1<<53 && b != core.Exponential {
					t.Fatalf("%v, %v·%v up to %v: delay %d is %d, the model's %d", b, c.InitialDelay, c.Multiplier, c.MaxDelay, n, got, want)
				}
			}
		}
	}
}

func TestDelayIsWithinTheCapAndNeverFalls(t *testing.T) {
	r := random(t)
	configs := []core.RetryConfig{
		{InitialDelay: never, MaxDelay: never, Multiplier: math.MaxFloat64},
		{InitialDelay: 1, MaxDelay: never, Multiplier: math.MaxFloat64},
		{InitialDelay: 1, MaxDelay: 1},
		{InitialDelay: never, MaxDelay: 1},
		{InitialDelay: 1, MaxDelay: never, Multiplier: 1},
		{InitialDelay: 1, MaxDelay: never, Multiplier: math.Nextafter(1, 2)},
		{},
	}
	for range 20 {
		configs = append(configs, core.RetryConfig{InitialDelay: anyDuration(r), MaxDelay: anyDuration(r), Multiplier: 1 + r.ExpFloat64()})
	}
	for _, b := range strategies {
		for _, c := range configs {
			c.Backoff, c.Jitter = b, core.NoJitter
			p, last := policy(t, c), time.Duration(0)
			most := c.MaxDelay
			if most == 0 {
				most = time.Minute
			}
			for n := 1; n <= 10_000; n++ {
				d := p.Delay(n)
				if d < last || d > most || d <= 0 {
					t.Fatalf("%v, %v·%v up to %v: delay %d is %v after %v", b, c.InitialDelay, c.Multiplier, c.MaxDelay, n, d, last)
				}
				last = d
			}
			for _, n := range []int{math.MaxInt32, math.MaxInt} {
				if d := p.Delay(n); d < last || d > most {
					t.Fatalf("%v: delay %d is %v after %v", b, n, d, last)
				}
			}
		}
	}
}

func TestDelaysOfTheStrategies(t *testing.T) {
	for b, want := range map[core.Backoff][8]time.Duration{
		core.Constant:    {1, 1, 1, 1, 1, 1, 1, 1},
		core.Linear:      {1, 2, 3, 4, 5, 6, 7, 8},
		core.Exponential: {1, 2, 4, 8, 16, 32, 60, 60},
		core.Fibonacci:   {1, 1, 2, 3, 5, 8, 13, 21},
		0:                {1, 2, 4, 8, 16, 32, 60, 60}, // the default
	} {
		p := policy(t, core.RetryConfig{Backoff: b})
		for i, seconds := range want {
			assert.Equal(t, seconds*time.Second, p.Delay(i+1), "%v, delay %d", b, i+1)
		}
	}
}

func TestNoDelayMeansNoWaitForEveryStrategy(t *testing.T) {
	for _, b := range strategies {
		p := policy(t, core.RetryConfig{Backoff: b, InitialDelay: core.NoDelay, Multiplier: 1e300})
		for _, n := range []int{1, 2, 100, 10_000} {
			assert.Equal(t, time.Duration(0), p.Delay(n), b.String())
		}
	}
}

// drawn makes a call that fails n times in a run with the given seed, and returns the delays of
// that call.
func drawn(t *testing.T, seed uint64, n int, c core.RetryConfig) []time.Duration {
	t.Helper()
	c.MaxAttempts = n + 1
	st, ctx := testkit.Run(t, state.WithSeed(seed))
	out, err := testkit.Call(ctx, testkit.Tool(t, "tool", c, testkit.Failing(n, errFlaky)))
	testkit.Completed(t, out, err)
	return delays(t, st)
}

func TestJitterStaysWithinItsBounds(t *testing.T) {
	r := random(t)
	for _, b := range strategies {
		for _, c := range []core.RetryConfig{
			{Jitter: 0},
			{Jitter: 0.1},
			{Jitter: 1},
			{Jitter: core.FullJitter},
			{Jitter: 1, InitialDelay: time.Hour, MaxDelay: time.Hour},
			{Jitter: core.FullJitter, InitialDelay: 1, MaxDelay: 1},
			{Jitter: 1, InitialDelay: 1, MaxDelay: 2},
			{Jitter: 0.5, InitialDelay: time.Hour, MaxDelay: 1},
		} {
			testkit.Bubble(t, func(t *testing.T) {
				c.Backoff = b
				p := policy(t, c)
				for i, d := range drawn(t, r.Uint64(), 300, c) {
					plain := float64(p.Delay(i + 1))
					low, high := 0.0, plain
					if c.Jitter >= 0 {
						j := float64(c.Jitter)
						if j == 0 {
							j = 0.25
						}
						low, high = plain*(1-j)-1, plain*(1+j)
					}
					most := c.MaxDelay
					if most == 0 {
						most = time.Minute
					}
					if float64(d) < low || float64(d) > high || d > most || d < 0 {
						t.Fatalf("%v, jitter %v: delay %d is %v; without jitter it is %v, and the maximum is %v", b, c.Jitter, i+1, d, time.Duration(plain), most)
					}
				}
			})
		}
	}
}

// Nobody can wait for centuries, but such a delay is recorded before the wait.
func TestJitterAtTheLongestDelayStaysFinite(t *testing.T) {
	r := random(t)
	for _, j := range []core.Jitter{0, 1, core.FullJitter, core.DecorrelatedJitter} {
		for range 100 {
			var st *state.ExecutionState
			st, ctx := testkit.Run(t, state.WithSeed(r.Uint64()), state.WithPublisher(on(record.StatusRetrying, func(record.Record) { st.Interrupt(snapshot.Stop{}) })))
			_, err := testkit.Call(ctx, testkit.Tool(t, "tool", core.RetryConfig{InitialDelay: never, MaxDelay: never, Jitter: j}, testkit.Fail(errFlaky)))
			testkit.Interrupted(t, err, record.InterruptUser)
			if d := delays(t, st)[0]; d < 0 {
				t.Fatalf("jitter %v: delay %v", j, d)
			}
		}
	}
}

func TestDecorrelatedJitterStaysWithinItsBounds(t *testing.T) {
	r := random(t)
	for _, c := range []core.RetryConfig{
		{Jitter: core.DecorrelatedJitter},
		{Jitter: core.DecorrelatedJitter, InitialDelay: time.Millisecond, MaxDelay: time.Hour},
		{Jitter: core.DecorrelatedJitter, InitialDelay: time.Hour, MaxDelay: time.Minute},
		{Jitter: core.DecorrelatedJitter, InitialDelay: 1, MaxDelay: 3},
	} {
		testkit.Bubble(t, func(t *testing.T) {
			base, most := c.InitialDelay, c.MaxDelay
			if base == 0 {
				base, most = time.Second, time.Minute
			}
			last := base
			for i, d := range drawn(t, r.Uint64(), 300, c) {
				if d < min(base, most*3/4) || d > most || d > 3*last {
					t.Fatalf("delay %d is %v after %v; from %v, at most %v", i+1, d, last, base, most)
				}
				last = d
			}
		})
	}
}

// If their delays were equal, calls that have reached MaxDelay would all be retried at the same
// time.
func TestNoTwoOfAThousandDelaysAtTheCapAreEqual(t *testing.T) {
	r := random(t)
	for _, b := range strategies {
		for _, j := range []core.Jitter{0, 0.1, 1, core.FullJitter, core.DecorrelatedJitter} {
			for _, c := range []core.RetryConfig{
				{InitialDelay: time.Hour, MaxDelay: time.Hour},
				{InitialDelay: 24 * time.Hour, MaxDelay: time.Hour},
				{InitialDelay: time.Hour - 1, MaxDelay: time.Hour},
			} {
				testkit.Bubble(t, func(t *testing.T) {
					c.Backoff, c.Jitter = b, j
					seen := make(map[time.Duration]bool)
					for _, d := range drawn(t, r.Uint64(), 1000, c) {
						if seen[d] || d >= time.Hour {
							t.Fatalf("%v, jitter %v, from %v: delay %v appears twice, or equals MaxDelay", b, j, c.InitialDelay, d)
						}
						seen[d] = true
					}
				})
			}
		}
	}
}

func TestJitterSpreadsEvenly(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		const n = 4000
		var tenths [10]int
		// From 0 to 1000s in ten steps.
		for _, d := range drawn(t, random(t).Uint64(), n, core.RetryConfig{Backoff: core.Constant, Jitter: core.FullJitter, InitialDelay: 1000 * time.Second, MaxDelay: time.Hour}) {
			tenths[d/(100*time.Second)]++
		}
		for i, k := range tenths {
			if k < n/10*3/4 || k > n/10*5/4 { // five standard deviations
				t.Errorf("%d of %d delays are in interval %d of 10", k, n, i+1)
			}
		}
	})
}

func TestSeedRepeatsTheDelays(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		seed := random(t).Uint64()
		for _, j := range []core.Jitter{0, 1, core.FullJitter, core.DecorrelatedJitter} {
			c := core.RetryConfig{Jitter: j}
			one, two, other := fmt.Sprint(drawn(t, seed, 20, c)), fmt.Sprint(drawn(t, seed, 20, c)), fmt.Sprint(drawn(t, seed+1, 20, c))
			assert.Equal(t, two, one, "delays")
			if one == other {
				t.Errorf("seeds %d and %d have the same delays", seed, seed+1)
			}
		}
	})
}

func TestSeedRepeatsTheDelaysOfCallsInParallel(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		seed := random(t).Uint64()
		all := func(order *rand.Rand) map[string]string {
			st, ctx := testkit.Run(t, state.WithSeed(seed))
			d := testkit.Tool(t, "tool", core.RetryConfig{MaxAttempts: 5}, func(ctx context.Context, _ string) (string, error) {
				// This makes the order of events differ from run to run.
				return "", core.Retryable(pauseOr(ctx, time.Duration(core.ScopeOf(ctx).Attempt()+1)*time.Millisecond, errBoom))
			})
			prepared := make([]*core.PreparedCall[string, string], 50)
			for i := range prepared {
				prepared[i] = d.Event().Prepare(ctx, "in")
			}
			order.Shuffle(len(prepared), func(i, j int) { prepared[i], prepared[j] = prepared[j], prepared[i] })
			var wg sync.WaitGroup
			for _, p := range prepared {
				wg.Go(func() { _, _ = p.Execute(ctx) })
			}
			wg.Wait()
			found := make(map[string]string)
			for _, r := range calls(t, st) {
				if r.Status == record.StatusRetrying {
					found[fmt.Sprint(r.Address, " ", r.Attempt)] = r.Delay.String()
				}
			}
			return found
		}
		one, two := all(rand.New(rand.NewPCG(1, 1))), all(rand.New(rand.NewPCG(2, 2)))
		assert.Len(t, one, 200, "retries")
		if !maps.Equal(one, two) {
			t.Errorf("the same seed gave different delays:\n%v\n%v", one, two)
		}
		distinct := make(map[string]bool)
		for _, d := range one {
			distinct[d] = true
		}
		if len(distinct) < 190 {
			t.Errorf("only %d of 200 delays are distinct", len(distinct))
		}
	})
}

// pauseOr returns err after waiting for d.
func pauseOr(ctx context.Context, d time.Duration, err error) error {
	if ended := testkit.Pause(ctx, d); ended != nil {
		return ended
	}
	return err
}

func TestRunsWithoutASeedDrawTheirOwn(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		one, ctx := testkit.Run(t)
		_, _ = testkit.Call(ctx, testkit.Tool(t, "tool", core.RetryConfig{}, testkit.Fail(errFlaky)))
		two, ctx := testkit.Run(t)
		_, _ = testkit.Call(ctx, testkit.Tool(t, "tool", core.RetryConfig{}, testkit.Fail(errFlaky)))
		if fmt.Sprint(delays(t, one)) == fmt.Sprint(delays(t, two)) {
			t.Error("two runs have the same delays")
		}
	})
}

func TestWaitTakesTheDelayThatIsRecorded(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		elapsed := testkit.Stopwatch()
		_, _ = testkit.Call(ctx, testkit.Tool(t, "tool", core.RetryConfig{MaxAttempts: 10}, testkit.Fail(errFlaky)))
		var sum time.Duration
		for _, d := range delays(t, st) {
			sum += d
		}
		assert.Equal(t, sum, elapsed(), "time")
	})
}

func TestNoDelayMeansNoWaitAfterRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		d := testkit.Tool(t, "tool", core.RetryConfig{InitialDelay: core.NoDelay, Jitter: core.DecorrelatedJitter},
			testkit.Attempts(testkit.Fail(core.Retryable(core.WithRetryAfter(errBoom, time.Second))), testkit.Fail(core.Retryable(errBoom)), testkit.Succeed))
		out, err := testkit.Call(ctx, d)
		testkit.Completed(t, out, err)
		var delays []time.Duration
		for _, r := range testkit.Records(t, st) {
			if r.Status == record.StatusRetrying {
				delays = append(delays, r.Delay)
			}
		}
		assert.Equal(t, []time.Duration{time.Second, 0}, delays)
	})
}
