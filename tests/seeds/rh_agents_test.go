package seeds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// The tests in this file follow the order of the sections in the retry specification of rh_agents.

// rhAgents returns the configuration that the document writes as RetryConfig(…).
func rhAgents(c core.RetryConfig) core.RetryConfig {
	c.Jitter = core.NoJitter
	return c
}

// delaysOf returns the delays before the retries of a tool that fails the given number
// of times.
func delaysOf(t *testing.T, c core.RetryConfig, failures int) (delays []time.Duration) {
	t.Helper()
	c.MaxAttempts = failures + 1
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		out, err := testkit.Call(ctx, testkit.Tool(t, "flaky", c, testkit.Failing(failures, errUnavailable)))
		testkit.Completed(t, out, err)
		for _, r := range testkit.Records(t, st) {
			if r.Status == record.StatusRetrying {
				delays = append(delays, r.Delay)
			}
		}
	})
	return delays
}

// attemptsOf returns the number of attempts of a tool that always fails with the given error, and
// the error of the call.
func attemptsOf(t *testing.T, c core.RetryConfig, failure error) (n int, err error) {
	t.Helper()
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		_, err = testkit.Call(ctx, testkit.Tool(t, "flaky", c, testkit.Counted(&n, testkit.Fail(failure))))
	})
	return n, err
}

// "BackoffStrategy Enum" and calculate_delay.
func TestRHAgentsBackoffStrategies(t *testing.T) {
	for backoff, want := range map[core.Backoff][]time.Duration{
		core.Constant:    milliseconds(1000, 1000, 1000, 1000, 1000, 1000),
		core.Linear:      milliseconds(1000, 2000, 3000, 4000, 5000, 6000),
		core.Exponential: milliseconds(1000, 2000, 4000, 8000, 16000, 32000),
		core.Fibonacci:   milliseconds(1000, 1000, 2000, 3000, 5000, 8000),
	} {
		assert.Equal(t, want, delaysOf(t, rhAgents(core.RetryConfig{Backoff: backoff}), 6), backoff)
	}
}

// "_fibonacci: Calculate nth fibonacci number (1-based)". Its loop returns the sequence that is in
// its comment: 1, 1, 2, 3, 5.
func TestRHAgentsFibonacciBeginsWithTwoOnes(t *testing.T) {
	assert.Equal(t, milliseconds(10, 10, 20, 30, 50, 80, 130),
		delaysOf(t, rhAgents(core.RetryConfig{Backoff: core.Fibonacci, InitialDelay: 10 * time.Millisecond}), 7))
}

// "Apply max delay cap".
func TestRHAgentsDelaysAreCapped(t *testing.T) {
	c := rhAgents(core.RetryConfig{InitialDelay: 2 * time.Second, MaxDelay: 5 * time.Second})
	assert.Equal(t, milliseconds(2000, 4000, 5000, 5000), delaysOf(t, c, 4))
}

// "Add ±25% jitter": 0.75 + random*0.5. Here, the result never exceeds the cap.
func TestRHAgentsJitterIsAQuarterEitherWay(t *testing.T) {
	low, high := time.Duration(math.MaxInt64), time.Duration(0)
	for _, d := range delaysOf(t, core.RetryConfig{Backoff: core.Constant, InitialDelay: time.Second}, 400) {
		low, high = min(low, d), max(high, d)
	}
	assert.GreaterOrEqual(t, low, 750*time.Millisecond)
	assert.Less(t, low, 800*time.Millisecond, "of 400")
	assert.LessOrEqual(t, high, 1250*time.Millisecond)
	assert.Greater(t, high, 1200*time.Millisecond, "of 400")
	for _, d := range delaysOf(t, core.RetryConfig{InitialDelay: time.Second, MaxDelay: time.Second}, 100) {
		assert.LessOrEqual(t, d, time.Second, "jitter does not exceed the maximum")
	}
}

// The defaults of RetryConfig.
func TestRHAgentsDefaultsOfRetryConfig(t *testing.T) {
	n, err := attemptsOf(t, core.RetryConfig{}, errUnavailable)
	assert.Equal(t, 3, n, "max_attempts=3, including the initial one")
	testkit.Failed(t, err, record.ReasonExhausted)
	delays := delaysOf(t, rhAgents(core.RetryConfig{}), 8)
	assert.Equal(t, milliseconds(1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000), delays, "exponential by 2.0, from 1.0 up to 60.0 seconds")
}

// "ge=1", "ge=0": the constraints of the fields.
func TestRHAgentsValidatesRetryConfig(t *testing.T) {
	for field, c := range map[string]core.RetryConfig{
		"MaxAttempts":  {MaxAttempts: -7},
		"InitialDelay": {InitialDelay: -time.Hour},
		"MaxDelay":     {MaxDelay: -time.Second},
		"Multiplier":   {Multiplier: 0.5},
		"RetryTimeout": {RetryTimeout: -time.Second},
	} {
		assert.ErrorContains(t, c.Validate(), field)
	}
}

// "enabled=False": one attempt.
func TestRHAgentsDisabledIsOneAttempt(t *testing.T) {
	n, err := attemptsOf(t, core.RetryConfig{MaxAttempts: 1}, errUnavailable)
	assert.Equal(t, 1, n)
	require.ErrorIs(t, err, errUnavailable)
}

// DEFAULT_RETRYABLE_EXCEPTIONS and DEFAULT_NON_RETRYABLE_EXCEPTIONS. Go has no types for
// programming errors, so every error that is not known to be transient counts as permanent.
func TestRHAgentsDefaultListsOfErrors(t *testing.T) {
	for _, transient := range []error{
		context.DeadlineExceeded, // TimeoutError, asyncio.TimeoutError
		&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET},
		&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNABORTED},
		errRefused,
		&net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}, // ConnectionError
		io.ErrUnexpectedEOF,
		status(429), errUnavailable,
	} {
		n, err := attemptsOf(t, core.RetryConfig{}, transient)
		assert.Equal(t, 3, n, transient)
		testkit.Failed(t, err, record.ReasonExhausted)
	}
	for _, permanent := range []error{
		errBusiness, errors.New("no such key"), status(400), status(401), status(403), status(404), core.Permanent(errUnavailable),
	} {
		n, err := attemptsOf(t, core.RetryConfig{}, permanent)
		assert.Equal(t, 1, n, permanent)
		testkit.Failed(t, err, record.ReasonPermanent)
	}
}

// should_retry: exclusions first, then the whitelist, then the default list.
func TestRHAgentsShouldRetry(t *testing.T) {
	business, unavailable := core.MatchIs(errBusiness), core.MatchIs(errUnavailable)
	for _, tt := range []struct {
		name    string
		config  core.RetryConfig
		failure error
		want    int
	}{
		{"whitelisted", core.RetryConfig{RetryOn: []core.Matcher{business}}, errBusiness, 3},
		{"a whitelist beats the default exclusions", core.RetryConfig{RetryOn: []core.Matcher{core.MatchClass(record.ClassClient)}}, status(404), 3},
		{"but not for a permanent error", core.RetryConfig{RetryOn: []core.Matcher{business}}, core.Permanent(errBusiness), 1},
		{"a whitelist replaces the defaults", core.RetryConfig{RetryOn: []core.Matcher{business}}, errUnavailable, 1},
		{"an empty whitelist retries nothing", core.RetryConfig{RetryOn: []core.Matcher{}}, errUnavailable, 1},
		{"excluded", core.RetryConfig{Exclude: []core.Matcher{unavailable}}, errUnavailable, 1},
		{"exclusions are merged with the defaults", core.RetryConfig{Exclude: []core.Matcher{unavailable}}, errBusiness, 1},
		{"exclusions leave the other defaults", core.RetryConfig{Exclude: []core.Matcher{unavailable}}, errRefused, 3},
		{"exclusions win", core.RetryConfig{RetryOn: []core.Matcher{unavailable}, Exclude: []core.Matcher{unavailable}}, errUnavailable, 1},
		{"by default", core.RetryConfig{}, errUnavailable, 3},
	} {
		n, _ := attemptsOf(t, tt.config, fmt.Errorf("wrapped: %w", tt.failure))
		assert.Equal(t, tt.want, n, tt.name)
	}
}

// DEFAULT_RETRY_CONFIG_BY_ACTOR_TYPE: "Agents handle their own logic".
func TestRHAgentsBuiltInConfigurationByActorType(t *testing.T) {
	for kind, want := range map[record.Kind]int{record.KindTool: 3, record.KindLLM: 3, record.KindAgent: 1} {
		testkit.Bubble(t, func(t *testing.T) {
			_, ctx := testkit.Run(t)
			n := 0
			_, err := testkit.Call(ctx, testkit.Define(t, core.Spec{Kind: kind, Name: "actor"}, testkit.Counted(&n, testkit.Fail(errUnavailable))))
			require.ErrorIs(t, err, errUnavailable)
			assert.Equal(t, want, n, kind)
		})
	}
}

// get_effective_retry_config: event, actor type, global, built-in. Only the first of these levels
// that is set counts, even if it disables retries.
func TestRHAgentsMostSpecificLevelWins(t *testing.T) {
	attempts := func(n int) core.RetryConfig { return core.RetryConfig{MaxAttempts: n, InitialDelay: core.NoDelay} }
	global, ofTools := state.WithRetry(attempts(5)), state.WithRetryFor(record.KindTool, attempts(6))
	event, off := attempts(7), core.RetryConfig{MaxAttempts: 1}
	for _, tt := range []struct {
		name    string
		event   *core.RetryConfig
		options []state.Option
		want    int
	}{
		{"built-in", nil, nil, 3},
		{"global", nil, []state.Option{global}, 5},
		{"actor type", nil, []state.Option{global, ofTools}, 6},
		{"event", &event, []state.Option{global, ofTools}, 7},
		{"the event disables retries", &off, []state.Option{global, ofTools}, 1},
		{"the actor type disables retries", nil, []state.Option{global, state.WithRetryFor(record.KindTool, off)}, 1},
		{"global disables retries", nil, []state.Option{state.WithRetry(off)}, 1},
		{"another type", nil, []state.Option{global, state.WithRetryFor(record.KindLLM, attempts(9))}, 5},
	} {
		testkit.Bubble(t, func(t *testing.T) {
			_, ctx := testkit.Run(t, tt.options...)
			n := 0
			e := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool"}, testkit.Counted(&n, testkit.Fail(errUnavailable))).Event()
			if tt.event != nil {
				e = e.WithRetry(*tt.event)
			}
			_, err := e.Execute(ctx, "in")
			require.ErrorIs(t, err, errUnavailable)
			assert.Equal(t, tt.want, n, tt.name)
		})
	}
}

// "No merging - each level provides a complete config".
func TestRHAgentsLevelsAreNotMerged(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t, state.WithRetry(core.RetryConfig{InitialDelay: time.Hour, MaxDelay: time.Hour, Jitter: core.NoJitter}))
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", core.RetryConfig{MaxAttempts: 2, Jitter: core.NoJitter}, testkit.Fail(errUnavailable)))
		require.ErrorIs(t, err, errUnavailable)
		for _, r := range testkit.Records(t, st) {
			if r.Status == record.StatusRetrying {
				assert.Equal(t, time.Second, r.Delay, "the built-in delay, not that of the global level")
			}
		}
	})
}

// "Flow with retries".
func TestRHAgentsFlowOfEvents(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		c := rhAgents(core.RetryConfig{InitialDelay: 2 * time.Second})
		out, err := testkit.Call(ctx, testkit.Tool(t, "fetch_data", c, testkit.Failing(2, errUnavailable)))
		testkit.Completed(t, out, err)
		var got []string
		for _, r := range testkit.Records(t, st) {
			if !r.Kind.IsCall() {
				continue
			}
			line := fmt.Sprintf("%v attempt=%d", r.Status, r.Attempt)
			if r.Status == record.StatusRetrying {
				line = r.Status.String() // here, Attempt is the number of the next attempt
			}
			switch r.Status {
			case record.StatusFailed:
				line += fmt.Sprintf(" will_retry=%v", r.WillRetry)
			case record.StatusRetrying:
				line += fmt.Sprintf(" delay=%v next_attempt=%d", r.Delay, r.Attempt)
				require.ErrorIs(t, r.Err, errUnavailable, "the reason")
			case record.StatusStarted:
				if r.Attempt > 0 {
					require.ErrorIs(t, r.Err, errUnavailable, "original_error")
					line += fmt.Sprintf(" retry_delay=%v", r.Delay)
				}
			case record.StatusCompleted:
				line += fmt.Sprintf(" total=%d", r.TotalAttempts())
			}
			got = append(got, line)
		}
		assert.Equal(t, []string{
			"started attempt=0",
			"failed attempt=0 will_retry=true",
			"retrying delay=2s next_attempt=1",
			"started attempt=1 retry_delay=2s",
			"failed attempt=1 will_retry=true",
			"retrying delay=4s next_attempt=2",
			"started attempt=2 retry_delay=4s",
			"completed attempt=2 total=3",
		}, got)
	})
}

// "What gets retried": the handler, postconditions and artifact storage, but not preconditions.
func TestRHAgentsRetryScope(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		before, handled, after := 0, 0, 0
		e := testkit.Tool(t, "tool", core.RetryConfig{}, func(context.Context, string) (string, error) {
			handled++
			return "out", nil
		}).Require(func(context.Context, string) error { before++; return nil }).
			Ensure(func(context.Context, string, string) error {
				if after++; after < 3 {
					return errBusiness
				}
				return nil
			})
		out, err := testkit.Call(ctx, e)
		testkit.Completed(t, out, err)
		assert.Equal(t, []int{1, 3, 3}, []int{before, handled, after})
	})
}

// "If they fail, the event should fail immediately."
func TestRHAgentsFailedPreconditionFailsAtOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		checked, handled := 0, 0
		e := testkit.Tool(t, "tool", core.RetryConfig{}, testkit.Counted(&handled, testkit.Succeed)).
			Require(func(context.Context, string) error { checked++; return errUnavailable })
		_, err := testkit.Call(ctx, e)
		testkit.Failed(t, err, record.ReasonPrecondition)
		assert.Equal(t, []int{1, 0}, []int{checked, handled})
	})
}

// scarce is a store that at first fails to store artifacts.
type scarce struct {
	*memstore.Store
	failures int
}

func (s *scarce) Put(ctx context.Context, data []byte) (string, error) {
	if s.failures > 0 {
		s.failures--
		return "", errUnavailable
	}
	return s.Store.Put(ctx, data)
}

func TestRHAgentsStorageOfArtifactsIsRetried(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, err := state.Open(t.Context(), &scarce{memstore.New(), 2}, "run")
		require.NoError(t, err)
		n := 0
		large := testkit.Tool(t, "large", core.RetryConfig{}, testkit.Counted(&n, func(context.Context, string) (string, error) {
			return strings.Repeat("x", 100_000), nil
		}))
		out, err := testkit.Call(st.Context(t.Context()), large)
		require.NoError(t, err)
		assert.Len(t, out, 100_000)
		assert.Equal(t, 3, n)
		require.NoError(t, st.Close())
	})
}

// "Before, during and after a retry delay": the interrupt ends the wait, and no further attempt is
// made.
func TestRHAgentsInterruptEndsARetryDelay(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		n := 0
		tool := testkit.Tool(t, "tool", rhAgents(core.RetryConfig{InitialDelay: time.Hour, MaxDelay: time.Hour}), testkit.Counted(&n, testkit.Fail(errUnavailable)))
		time.AfterFunc(10*time.Minute, func() { st.Interrupt(snapshot.Stop{By: "ops", Message: "stop"}) })
		began := time.Now()
		_, err := testkit.Call(ctx, tool)
		testkit.Interrupted(t, err, record.InterruptUser)
		assert.Equal(t, 10*time.Minute, time.Since(began))
		assert.Equal(t, 1, n)
		_, err = testkit.Call(ctx, tool)
		testkit.Interrupted(t, err, record.InterruptUser)
		assert.Equal(t, 1, n, "an interrupted run makes no call")
	})
}

// "If attempts take: 3s, 3s, 3s, 25s: Fourth attempt won't start (would exceed 30s total)". Reprise
// does not know in advance how long an attempt takes, so the fourth attempt begins and is cut off
// at 30 s. If the delay alone exceeds the limit, the call fails immediately.
func TestRHAgentsRetryTimeoutIsOfAllAttempts(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		slow := func(d time.Duration) testkit.Handler {
			return func(ctx context.Context, _ string) (string, error) {
				if err := testkit.Pause(ctx, d); err != nil {
					return "", err
				}
				return "", errUnavailable
			}
		}
		n := 0
		c := rhAgents(core.RetryConfig{MaxAttempts: 5, RetryTimeout: 30 * time.Second, InitialDelay: core.NoDelay})
		began := time.Now()
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", c, testkit.Counted(&n, testkit.Attempts(
			slow(3*time.Second), slow(3*time.Second), slow(3*time.Second), slow(25*time.Second)))))
		testkit.Failed(t, err, record.ReasonRetryTimeout)
		require.ErrorIs(t, err, errUnavailable, "the last error of the handler is kept")
		assert.Equal(t, 30*time.Second, time.Since(began))
		assert.Equal(t, 4, n)

		n, began = 0, time.Now()
		c.InitialDelay, c.Backoff = 10*time.Second, core.Constant
		_, err = testkit.Call(ctx, testkit.Tool(t, "tool", c, testkit.Counted(&n, slow(3*time.Second))))
		testkit.Failed(t, err, record.ReasonRetryTimeout)
		assert.Equal(t, 3, n)
		assert.Equal(t, 29*time.Second, time.Since(began), "it does not wait until 39 s")
	})
}

// "Each attempt respects per-event timeout".
func TestRHAgentsEachAttemptHasItsTimeout(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		c := rhAgents(core.RetryConfig{AttemptTimeout: time.Minute})
		began := time.Now()
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", c, testkit.Attempts(
			testkit.Listening(time.Hour), testkit.Listening(time.Hour), testkit.Listening(30*time.Second))))
		testkit.Completed(t, out, err)
		assert.Equal(t, 2*time.Minute+3*time.Second+30*time.Second, time.Since(began))
	})
}

// Snapshots contain the state of retries. A replay executes nothing and does not wait. Calls that
// failed or succeeded after retries have the same outcome again.
func TestRHAgentsReplayShowsHistoryAndRunsNothing(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		store, n := memstore.New(), 0
		flaky := testkit.Tool(t, "flaky", core.RetryConfig{}, testkit.Counted(&n, testkit.Failing(2, errUnavailable)))
		broken := testkit.Tool(t, "broken", core.RetryConfig{}, testkit.Counted(&n, testkit.Fail(errUnavailable)))
		agent := testkit.Agent(t, "agent", core.RetryConfig{MaxAttempts: 1}, func(ctx context.Context, _ string) (string, error) {
			if _, err := testkit.Call(ctx, broken); !errors.Is(err, core.ErrExhausted) {
				return "", fmt.Errorf("broken: %w", err)
			}
			return testkit.Call(ctx, flaky)
		})
		var histories [][]record.Record
		for pass := range 3 {
			st, err := state.Open(t.Context(), store, "run")
			require.NoError(t, err)
			began := time.Now()
			out, err := testkit.Call(st.Context(t.Context()), agent)
			testkit.Completed(t, out, err)
			if pass > 0 {
				assert.Zero(t, time.Since(began), "the replay does not wait")
			}
			require.NoError(t, st.Close())
			histories = append(histories, calls(t, store))
		}
		assert.Equal(t, 3+3, n, "nothing ran again")
		assert.Equal(t, histories[0], histories[1])
		assert.Equal(t, histories[0], histories[2])
		retries := 0
		for _, r := range histories[0] {
			if r.Status == record.StatusRetrying {
				retries++
			}
		}
		assert.Equal(t, 4, retries, "the history has all retries")
	})
}

// calls returns the stored records that belong to calls.
func calls(t *testing.T, store snapshot.Store) (of []record.Record) {
	t.Helper()
	for _, r := range testkit.LoadRun(t, store, "run").Records {
		if r.Kind.IsCall() {
			of = append(of, r)
		}
	}
	return of
}

// An incomplete sequence of attempts continues where it stopped: earlier attempts count, and only
// the rest of the delay is waited for.
func TestRHAgentsIncompleteSequenceContinues(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		store, n := memstore.New(), 0
		flaky := testkit.Tool(t, "flaky", rhAgents(core.RetryConfig{Backoff: core.Constant, InitialDelay: time.Minute}), testkit.Counted(&n, testkit.Failing(2, errUnavailable)))
		st, err := state.Open(t.Context(), store, "run")
		require.NoError(t, err)
		time.AfterFunc(20*time.Second, func() { st.Interrupt(snapshot.Stop{By: "ops", Message: "deploy"}) })
		_, err = testkit.Call(st.Context(t.Context()), flaky)
		testkit.Interrupted(t, err, record.InterruptUser)
		require.NoError(t, st.Close())
		require.NoError(t, testkit.Pause(t.Context(), 10*time.Second))

		st, err = state.Open(t.Context(), store, "run")
		require.NoError(t, err)
		began := time.Now()
		out, err := testkit.Call(st.Context(t.Context()), flaky)
		testkit.Completed(t, out, err)
		assert.Equal(t, 30*time.Second+time.Minute, time.Since(began))
		assert.Equal(t, 3, n)
		require.NoError(t, st.Close())
	})
}

// printed calls the tools one after another, and returns the compact output of a printer, with the
// summary.
func printed(t *testing.T, tools ...*testkit.Definition) string {
	t.Helper()
	var out bytes.Buffer
	testkit.Bubble(t, func(t *testing.T) {
		p := printer.New(&out, printer.WithCompact())
		st, ctx := testkit.Run(t, state.WithPublisher(p))
		for _, tool := range tools {
			_, _ = testkit.Call(ctx, tool)
		}
		require.NoError(t, st.Close())
		p.PrintSummary()
		require.NoError(t, p.Close())
	})
	return out.String()
}

// "Success after retries (compact)".
func TestRHAgentsPrintsARecoveryInShort(t *testing.T) {
	out := printed(t, testkit.Tool(t, "fetch_data", rhAgents(core.RetryConfig{InitialDelay: 2 * time.Second}), testkit.Failing(2, errUnavailable)))
	for _, line := range []string{
		"🔧 fetch_data [STARTED]\n",
		"✔ fetch_data [COMPLETED after 3 attempts] (6.0s total)\n",
		"  ↻ Recovered after 2 retries\n",
	} {
		assert.Contains(t, out, line)
	}
	assert.NotContains(t, out, "Retrying")
	assert.NotContains(t, out, "FAILED")
}

// "Failure with retries (detailed)".
func TestRHAgentsPrintsAFailureInDetail(t *testing.T) {
	out := printed(t, testkit.Tool(t, "fetch_data", rhAgents(core.RetryConfig{InitialDelay: 2 * time.Second}), testkit.Fail(errUnavailable)))
	last := 0
	for _, line := range []string{
		"🔧 fetch_data [STARTED]\n",
		"✖ fetch_data [FAILED",
		"↻ Retrying (attempt 2/3) in 2.0s...",
		"↻ Retrying (attempt 3/3) in 4.0s...",
		"✖ fetch_data [EXHAUSTED all 3 attempts] (6.0s total)",
	} {
		at := strings.Index(out[last:], line)
		require.GreaterOrEqual(t, at, 0, "%q is not in, or not after what precedes it:\n%s", line, out)
		last += at
	}
}

// "Summary Statistics".
func TestRHAgentsPrintsRetryStatistics(t *testing.T) {
	quick := core.RetryConfig{InitialDelay: core.NoDelay, MaxAttempts: 4}
	tools := []*testkit.Definition{testkit.Tool(t, "broken", quick, testkit.Fail(errUnavailable))}
	for i := range 4 {
		tools = append(tools, testkit.Tool(t, fmt.Sprint("flaky-", i), quick, testkit.Failing(2, errUnavailable)))
	}
	tools = append(tools, testkit.Tool(t, "fine", quick, testkit.Succeed))
	out := printed(t, tools...)
	for _, line := range []string{
		"📊 RETRY STATISTICS\n",
		"├─ Total events with retries: 5\n",
		"├─ Succeeded after retry: 4 (80%)\n",
		"├─ Failed after all retries: 1 (20%)\n",
		"├─ Total retry attempts: 11\n",
		"└─ Avg retries per event: 2.2\n",
	} {
		assert.Contains(t, out, line)
	}
}

// "Parallel execution with retries": each call has its own attempts.
func TestRHAgentsParallelCallsRetryApart(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		done := make(chan error)
		began := time.Now()
		for i := range 5 {
			tool := testkit.Tool(t, fmt.Sprint("tool-", i), rhAgents(core.RetryConfig{MaxAttempts: 5}), testkit.Failing(i, errUnavailable))
			go func() {
				_, err := testkit.Call(ctx, tool)
				done <- err
			}()
		}
		for range 5 {
			require.NoError(t, <-done)
		}
		assert.Equal(t, 15*time.Second, time.Since(began), "as long as the longest call")
	})
}
