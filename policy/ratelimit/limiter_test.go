package ratelimit_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/budget"
	"github.com/reprise-go/reprise/policy/ratelimit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

var question = actors.Request{Messages: []actors.Message{actors.User("How are you?")}}

func newLimiter() *ratelimit.Limiter { return ratelimit.New(ratelimit.Options{Name: "service"}) }

// patient is a retry configuration with no limit on attempts.
var patient = actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited, InitialDelay: time.Second, MaxDelay: 5 * time.Second})

// Fifty agents together exceed the limit of a service. After the first minute, no request is
// refused, and at least 90% of the limit is used.
func TestNothingIsRefusedAfterTheFirstMinute(t *testing.T) {
	for algorithm, style := range map[string]string{"fixed": "openai", "sliding": "draft", "bucket": "anthropic"} {
		for _, s := range []*service{
			{requests: 120},
			{requests: 120, takes: 10 * time.Second},
			{tokens: 60_000, each: 500, takes: 3 * time.Second},
			{requests: 1000, tokens: 10_000, each: 170, takes: time.Second},
		} {
			s.algorithm, s.style, s.window = algorithm, style, time.Minute
			t.Run(fmt.Sprintf("%s %s %v requests %v tokens in %v", algorithm, style, s.requests, s.tokens, s.takes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testManyAgents(t, s) })
			})
		}
	}
}

func testManyAgents(t *testing.T, s *service) {
	const agents, minutes = 50, 5
	l := newLimiter()
	llm := s.llm(l, patient)
	var all sync.WaitGroup
	var runs []*state.ExecutionState
	for range agents {
		st := state.New()
		runs = append(runs, st)
		all.Go(func() {
			for {
				if _, err := llm.Call(st.Context(t.Context()), question); err != nil {
					assert.ErrorIs(t, err, core.ErrInterrupted)
					return
				}
			}
		})
	}
	time.Sleep(minutes * time.Minute) //nolint:forbidigo // on the fake clock
	for _, st := range runs {
		st.Interrupt(snapshot.Stop{})
	}
	all.Wait()
	for _, st := range runs {
		require.NoError(t, st.Close())
	}
	assert.Zero(t, s.refusedAfter(t))
	assert.Zero(t, l.Waiting())
	requests, tokens := 0.0, 0.0
	for _, g := range s.granted {
		if g.at.Sub(s.began) >= time.Minute {
			requests, tokens = requests+1, tokens+g.tokens
		}
	}
	most := s.requests
	if perToken := s.tokens / float64(max(s.each, 1)); s.tokens > 0 && (most == 0 || perToken < most) {
		most = float64(int(perToken))
	}
	assert.GreaterOrEqual(t, requests, 0.9*most*(minutes-1), "%v of %v tokens", tokens, s.tokens*(minutes-1))
}

// Calls that take longer than the period of a limit use the whole limit in each period.
func TestLongCallsCountForOnePeriod(t *testing.T) {
	for name, o := range map[string]ratelimit.Options{
		"requests": {Name: "service", Requests: 2},
		"tokens":   {Name: "service", Tokens: 20, EstimateTokens: func([]byte) int { return 10 }},
		"shared":   {Name: "service", Requests: 2, Storage: budget.NewMemory()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &service{requests: 2, window: time.Minute, algorithm: "sliding", takes: 9 * time.Minute, each: 10}
				llm := s.llm(ratelimit.New(o))
				_, ctx := testkit.Run(t)
				var all sync.WaitGroup
				for range 6 {
					all.Go(func() {
						_, err := llm.Call(ctx, question)
						assert.NoError(t, err)
					})
				}
				all.Wait()
				assert.Empty(t, s.refused)
				assert.Len(t, s.granted, 6)
				assert.Less(t, s.granted[5].at.Sub(s.began), 2*time.Minute+15*time.Second)
			})
		})
	}
}

// If requests hang and no response reports them, they do not hold back other calls once the service
// has reset its limit.
func TestRequestsThatHangCountUntilTheReset(t *testing.T) {
	for algorithm, style := range map[string]string{"fixed": "openai", "sliding": "draft", "bucket": "anthropic"} {
		t.Run(algorithm, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &service{requests: 10, window: time.Minute, algorithm: algorithm, style: style}
				llm := s.llm(newLimiter())
				_, ctx := testkit.Run(t)
				_, err := llm.Call(ctx, question)
				require.NoError(t, err)
				s.takes = time.Hour
				var hanging sync.WaitGroup
				for range 9 {
					hanging.Go(func() { _, _ = llm.Call(ctx, question) })
				}
				synctest.Wait()
				s.takes = 0
				for range 20 {
					_, err := llm.Call(ctx, question)
					require.NoError(t, err)
				}
				assert.Less(t, time.Since(s.began), 3*time.Minute)
				assert.Empty(t, s.refused)
				hanging.Wait()
			})
		})
	}
}

// A run that makes forty calls at once does not make another run wait for all of them.
func TestRunsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{requests: 10, window: time.Minute, algorithm: "sliding", style: "openai"}
		l := ratelimit.New(ratelimit.Options{Name: "service", Requests: 10})
		llm := s.llm(l, patient)
		big, small := state.New(), state.New()
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				_, err := llm.Call(big.Context(t.Context()), question)
				assert.NoError(t, err)
			})
		}
		synctest.Wait()
		began := time.Now()
		var own sync.WaitGroup
		for range 5 {
			own.Go(func() {
				_, err := llm.Call(small.Context(t.Context()), question)
				assert.NoError(t, err)
			})
		}
		own.Wait()
		assert.Equal(t, time.Minute, time.Since(began), "30 calls of the other run come first")
		all.Wait()
		assert.Equal(t, 4*time.Minute, time.Since(began))
		assert.Empty(t, s.refused)
		require.NoError(t, big.Close())
		require.NoError(t, small.Close())
	})
}

// The wait is visible, is not an attempt, and does not count against the attempt
// timeout.
func TestWaitIsSeenAndDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{requests: 1, window: time.Minute, algorithm: "fixed", style: "openai", takes: time.Second}
		l := newLimiter()
		llm := s.llm(l, actors.WithAttemptTimeout(5*time.Second), actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
		st, ctx := testkit.Run(t)
		for range 2 {
			_, err := llm.Call(ctx, question)
			require.NoError(t, err)
		}
		var lines []string
		var paced any
		for _, r := range testkit.Records(t, st) {
			if r.Kind == record.KindLog {
				lines = append(lines, r.Address.String()+": "+r.Message())
			}
			if r.Status == record.StatusCompleted && r.Kind == record.KindLLM {
				assert.Equal(t, 0, r.Attempt)
				if r.Detail != nil && r.Detail.Metadata != nil {
					paced = r.Detail.Metadata["paced"]
				}
			}
		}
		assert.Equal(t, []string{`model#2: waits 1m0s for the "service" limit of 1 request in 1m0s`}, lines)
		assert.Equal(t, "1m0s", paced)
	})
}

func TestInterruptEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{requests: 1, window: time.Minute, algorithm: "fixed", style: "openai"}
		l := newLimiter()
		llm := s.llm(l)
		st, ctx := testkit.Run(t)
		_, err := llm.Call(ctx, question)
		require.NoError(t, err)
		began := time.Now()
		time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{}) })
		_, err = llm.Call(ctx, question)
		require.ErrorIs(t, err, core.ErrInterrupted)
		assert.Equal(t, time.Second, time.Since(began))
		assert.Zero(t, l.Waiting())
		assert.Len(t, s.granted, 1)
	})
}

// A daily limit parks the run that meets it, and also the other runs that are already waiting.
func TestDailyLimitParksRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{requests: 1, window: 24 * time.Hour, algorithm: "fixed", style: "draft", takes: 30 * time.Second}
		l := ratelimit.New(ratelimit.Options{Name: "service", Requests: 1})
		llm := s.llm(l, patient)
		store := memstore.New()
		call := func(id string) (*state.ExecutionState, error) {
			st, err := state.Open(t.Context(), store, id, state.WithParking(10*time.Minute))
			require.NoError(t, err)
			_, err = llm.Call(st.Context(t.Context()), question)
			return st, err
		}
		began := time.Now()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			st, err := call("first")
			assert.NoError(t, err)
			assert.NoError(t, st.Close())
		})
		synctest.Wait()
		for _, id := range []string{"second", "third"} { // the limiter does not know of the daily limit yet, so they expect to wait for a minute
			waiting.Go(func() {
				st, err := call(id)
				assert.ErrorIs(t, err, core.ErrInterrupted)
				assert.NoError(t, st.Close())
			})
		}
		waiting.Wait()
		assert.Equal(t, 30*time.Second, time.Since(began), "the runs are parked when the service reports the limit")
		for _, id := range []string{"second", "third"} {
			info, err := store.Info(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, snapshot.StatusPaused, info.Status)
			assert.WithinDuration(t, began.Add(24*time.Hour), info.Due, 25*time.Hour)
			assert.Greater(t, time.Until(info.Due), 23*time.Hour)
		}
		time.Sleep(49 * time.Hour) //nolint:forbidigo // on the fake clock
		st, err := call("second")
		require.NoError(t, err)
		require.NoError(t, st.Close())
		assert.Empty(t, s.refused)
	})
}

// A service that has no rate limit headers sends Retry-After. No request is sent before the time
// that it gives.
func TestRetryAfterHoldsAllCallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		answers := &service{requests: 1000, window: time.Minute, algorithm: "sliding"}
		llm := answers.llm(l)
		l.Learn(http.StatusServiceUnavailable, http.Header{"Retry-After": {"30"}})
		l.Learn(http.StatusBadRequest, http.Header{"Retry-After": {"3000"}}) // unrelated to the rate limit
		st, ctx := testkit.Run(t)
		began := time.Now()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				_, err := llm.Call(ctx, question)
				assert.NoError(t, err)
			})
		}
		all.Wait()
		assert.Equal(t, 30*time.Second, time.Since(began))
		_ = st
	})
}

// The service reports less left than this process alone would have left, since others use the
// account too.
func TestOthersUseTheAccountToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{requests: 10, window: time.Minute, algorithm: "fixed", style: "openai"}
		l := newLimiter()
		llm := s.llm(l, patient)
		_, ctx := testkit.Run(t)
		for i := range 30 {
			if i%2 == 0 {
				_ = s.admit(time.Now())
			}
			_, err := llm.Call(ctx, question)
			require.NoError(t, err)
		}
		assert.LessOrEqual(t, len(s.refused), 5, "of others")
	})
}

func TestBadOptionsPanicAndSayWhatIsAllowed(t *testing.T) {
	for want, o := range map[string]ratelimit.Options{
		`ratelimit: Options.Name is ""; want 1 to 128 bytes of printable text`:                               {},
		"ratelimit: Options.Requests is -1; want 1 or more per minute, or 0 to use what the service reports": {Name: "a", Requests: -1},
		"ratelimit: Options.Tokens is -2; want 1 or more per minute, or 0 to use what the service reports":   {Name: "a", Tokens: -2},
		"ratelimit: Options.Storage is set without a limit; want Requests or Tokens, which it shares":        {Name: "a", Storage: budget.NewMemory()},
	} {
		assert.PanicsWithValue(t, want, func() { ratelimit.New(o) })
	}
}

// A limit of zero is ignored. A call that exceeds the whole limit is made when the whole limit is
// available.
func TestImpossibleLimitsDoNotStopCallsForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := ratelimit.New(ratelimit.Options{Name: "service", Tokens: 10, EstimateTokens: func(in []byte) int { return len(in) * 1000 }})
		l.Learn(http.StatusOK, http.Header{"X-Ratelimit-Limit-Requests": {"0"}, "X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"24h"}})
		assert.Equal(t, "service: 10 tokens in 1m0s", l.String())
		s := &service{requests: 1000, window: time.Minute, algorithm: "fixed", each: 50}
		llm := s.llm(l)
		_, ctx := testkit.Run(t)
		began := time.Now()
		for range 3 {
			_, err := llm.Call(ctx, question)
			require.NoError(t, err)
		}
		assert.Equal(t, 2*time.Minute, time.Since(began))
	})
}

func TestCallsOutsideARunWaitToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{requests: 1, window: time.Minute, algorithm: "fixed", style: "openai"}
		llm := s.llm(newLimiter(), actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
		began := time.Now()
		for range 2 {
			_, err := llm.Call(t.Context(), question)
			require.NoError(t, err)
		}
		assert.Equal(t, time.Minute, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := llm.Call(ctx, question)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, time.Since(began)-time.Minute, "a wait that cannot end in time does not begin")
	})
}
