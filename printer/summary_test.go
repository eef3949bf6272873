package printer_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// numbered returns after followed by the records, which get the path and the next sequence numbers.
func numbered(t testing.TB, after []record.Record, path string, records []record.Record) []record.Record {
	t.Helper()
	for i := range records {
		records[i].Address = address(t, path)
		records[i].Seq = uint64(len(after) + 1)
		after = append(after, records[i])
	}
	return after
}

// fiveRetried returns the run of the specification: five calls, four of which succeed, with twelve
// retries in total.
func fiveRetried(t testing.TB) []record.Record {
	t.Helper()
	var records []record.Record
	for i := range 4 {
		call := recovering(t)
		if i < 2 { // three retries instead of two
			call = append(call[:len(call)-1], failing(t, 2, sec)...)
			call = append(call, tool(t, record.StatusStarted, 3), completed(t, 3, 9*sec))
		}
		records = numbered(t, records, fmt.Sprintf("fetch_data#%d", i+2), call)
	}
	return numbered(t, records, "fetch_data", exhausting(t))
}

// ofTools returns a summary in which all calls are tool calls.
func ofTools(tools record.Stock, c record.Counts, slowest ...printer.SlowCall) printer.Summary {
	c.Tools = tools
	return printer.Summary{Counts: c, Slowest: slowest}
}

func slow(elapsed time.Duration, attempts int) []printer.SlowCall {
	a, _ := record.ParseAddress("fetch_data")
	return []printer.SlowCall{{RunID: "r1", Address: a, Name: "fetch_data", Elapsed: elapsed, Attempts: attempts}}
}

func TestSummaryHasTheTextOfTheSpecification(t *testing.T) {
	var out strings.Builder
	p := printer.New(&out)
	for _, r := range timed(fiveRetried(t)) {
		p.Publish(r)
	}
	out.Reset()
	p.PrintSummary()
	assert.Equal(t, `📊 SUMMARY
├─ Calls: 5 (tools 5)
├─ Completed: 4 (tools 4)
├─ Failed: 1 (tools 1)
├─ Attempts: 17
├─ Total time: 32.0s
└─ Time waiting: 32.0s (added up over calls)

📊 SLOWEST CALLS
├─ 9.0s fetch_data#2 (4 attempts)
├─ 9.0s fetch_data#3 (4 attempts)
├─ 7.0s fetch_data (3 attempts)
├─ 5.2s fetch_data#4 (3 attempts)
└─ 5.2s fetch_data#5 (3 attempts)

📊 RETRY STATISTICS
├─ Total events with retries: 5
├─ Succeeded after retry: 4 (80%)
├─ Failed after all retries: 1 (20%)
├─ Total retry attempts: 12
└─ Avg retries per event: 2.4
`, out.String())
}

func TestSummaryWithoutRetriesHasOneBlock(t *testing.T) {
	var out strings.Builder
	p := printer.New(&out, printer.WithASCII())
	answered := call(t, record.KindLLM, record.StatusCompleted, "model", "model")
	answered.Detail = &record.Detail{Usage: record.Usage{InputTokens: 12, OutputTokens: 5, Cost: 0.0025}}
	p.Publish(answered)
	p.Publish(call(t, record.KindTool, record.StatusInterrupted, "fetch", "fetch"))
	p.Publish(call(t, record.KindAgent, record.StatusRecovered, "assistant", "assistant"))
	out.Reset()
	p.PrintSummary()
	assert.Equal(t, `SUMMARY
|- Calls: 3 (tools 1, LLMs 1, agents 1)
|- Completed: 1 (LLMs 1)
|- Failed: 0
|- Interrupted: 1 (tools 1)
|- Recovered from history: 1 (agents 1)
|- Attempts: 1
|- Tokens: 17 (12 in, 5 out)
`+"`- Cost: 0.0025\n", out.String())
}

func TestSummaryCountsReplaysOnce(t *testing.T) {
	p := printer.New(nil)
	records := timed(fiveRetried(t))
	for i := range records {
		records[i].Generation = 1
		records[i].Detail = &record.Detail{Usage: record.Usage{InputTokens: 1}}
		p.Publish(records[i])
	}
	before := p.Summary()
	for _, r := range records {
		r.Replayed = true
		p.Publish(r)
	}
	recovered := tool(t, record.StatusRecovered, 0)
	recovered.Generation = 1
	recovered.Detail = &record.Detail{Usage: record.Usage{InputTokens: 1}}
	p.Publish(recovered)
	before.Recalled++
	assert.Equal(t, before, p.Summary())
	before.Slowest = nil
	assert.Equal(t, ofTools(record.Stock{Completed: 4, Failed: 1}, record.Counts{
		Attempts: 17, Begun: 5, Retries: 12, WillRetry: 12, Outcomes: 5, Exhausted: 1, Retried: 5, RetriedCompleted: 4, RetriedFailed: 1, Recalled: 1,
		Took: 32 * sec, Waited: 32 * sec, Usage: record.Usage{InputTokens: len(records)},
	}), before)
}

func TestSummaryFollowsAnInterruptedCallToItsEnd(t *testing.T) {
	p := printer.New(nil)
	publish := func(seq uint64, r record.Record) {
		r.Seq = seq
		p.Publish(r)
	}
	publish(1, tool(t, record.StatusStarted, 0))
	assert.Equal(t, ofTools(record.Stock{Running: 1}, record.Counts{Attempts: 1, Begun: 1}), p.Summary())
	retry := failing(t, 0, 2*sec)
	publish(2, retry[0])
	publish(3, retry[1])
	interrupted := tool(t, record.StatusInterrupted, 1)
	interrupted.Time = retry[1].Time.Add(sec)
	interrupted.Err = &record.InterruptedError{Reason: record.InterruptUser}
	publish(4, interrupted)
	want := ofTools(record.Stock{Stopped: 1}, record.Counts{Attempts: 1, Begun: 1, WillRetry: 1, Waited: sec})
	want.Interrupts = map[record.InterruptReason]int{record.InterruptUser: 1}
	assert.Equal(t, want, p.Summary(), "the wait was cut short, so the retry did not begin")
	publish(5, tool(t, record.StatusStarted, 1))
	publish(6, completed(t, 1, 3*sec))
	assert.Equal(t, ofTools(record.Stock{Completed: 1}, record.Counts{
		Attempts: 2, Begun: 1, Retries: 1, WillRetry: 1, Outcomes: 1, Retried: 1, RetriedCompleted: 1, Waited: sec,
	}, slow(3*sec, 2)...), p.Summary())
}

func TestSummaryKeepsRunsApart(t *testing.T) {
	p := printer.New(nil)
	for _, run := range []string{"a", "b"} {
		r := completed(t, 0, half)
		r.RunID, r.Seq = run, 2
		p.Publish(r)
	}
	s := p.Summary()
	assert.Equal(t, record.Stock{Completed: 2}, s.All())
	assert.Len(t, s.Slowest, 2)
}

func TestSummaryCountsNoAttemptBeforeThePreconditions(t *testing.T) {
	p := printer.New(nil)
	r := failed(t, 0, record.ReasonPrecondition, half)
	r.Stage = record.StagePrecondition
	p.Publish(r)
	assert.Equal(t, ofTools(record.Stock{Failed: 1}, record.Counts{Outcomes: 1}, slow(half, 0)...), p.Summary())
}

func TestStoredRunHasTheSameSummaryAsTheLiveRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, live := memstore.New(), printer.New(nil)
		st, err := state.Open(t.Context(), store, "run-1", state.WithPublisher(live))
		require.NoError(t, err)
		var attempts atomic.Int64
		tool := decorators.Tool("tool", "", func(ctx context.Context, _ struct{}) (int64, error) {
			core.AddUsage(ctx, record.Usage{InputTokens: 10, OutputTokens: 5, Cost: 0.5})
			n := attempts.Add(1)
			if n < 3 {
				return 0, core.Retryable(errTimeout)
			}
			return n, nil
		})
		agent := decorators.Agent("agent", "", func(ctx context.Context, _ struct{}) (int, error) {
			_, _ = actors.Map(ctx, actors.Group{Name: "g"}, tool, make([]struct{}, 3))
			return core.Step(ctx, "step", func(context.Context) (int, error) { return 1, nil })
		})
		_, err = agent.Call(st.Context(t.Context()), struct{}{})
		require.NoError(t, err)
		require.NoError(t, st.Close())

		found := testkit.LoadRun(t, store, "run-1")
		restored := printer.New(nil)
		publish(restored, found.Records...)
		require.Equal(t, live.Summary(), restored.Summary())
		assert.Equal(t, 5, live.Summary().All().Calls())
		assert.Equal(t, record.Stock{Completed: 1}, live.Summary().Steps)
		assert.NotZero(t, live.Summary().Waited)
		assert.Equal(t, live.Summary().Usage.InputTokens, 10*live.Summary().Tools.Completed+20)
	})
}

func TestSummaryTellsAttemptsThatWereEnteredAgainApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, tries := memstore.New(), 0
		var out strings.Builder
		p := printer.New(&out)
		send := decorators.Tool("send", "", func(ctx context.Context, _ struct{}) (int, error) {
			switch tries++; tries {
			case 1:
				return 0, core.Retryable(errTimeout)
			case 2:
				state.From(ctx).Interrupt(snapshot.Stop{By: "ops"})
				return 0, context.Cause(ctx)
			}
			return tries, nil
		})
		agent := decorators.Agent("agent", "", func(ctx context.Context, _ struct{}) (int, error) { return send.Call(ctx, struct{}{}) })
		run := func() error {
			st, err := state.Open(t.Context(), store, "run-1", state.WithPublisher(p))
			require.NoError(t, err)
			_, err = agent.Call(st.Context(t.Context()), struct{}{})
			require.NoError(t, st.Close())
			return err
		}
		require.ErrorIs(t, run(), core.ErrInterrupted)
		require.NoError(t, run())
		p.PrintSummary()
		assert.Contains(t, out.String(), "Attempts: 3; 2 re-entered after a stop\n", "one of the agent, two of the tool; both were entered again")
	})
}

func TestTotalTimeExcludesIdleTime(t *testing.T) {
	p := printer.New(nil)
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	rec := func(after time.Duration, kind record.Kind, status record.Status) {
		at = at.Add(after)
		publish(p, record.Record{RunID: "r1", Kind: kind, Status: status, Time: at, Name: "x", Address: address(t, "x")})
	}
	rec(0, record.KindRun, record.StatusStarted)
	rec(sec, record.KindTool, record.StatusStarted)
	rec(time.Hour, record.KindRun, record.StatusStarted) // after a crash
	rec(2*sec, record.KindTool, record.StatusCompleted)
	assert.Equal(t, 3*sec, p.Summary().Took)
	at = at.Add(-time.Minute)
	rec(0, record.KindTool, record.StatusCompleted)
	assert.Equal(t, 3*sec, p.Summary().Took, "an old record that is published again")
}

func TestTotalTimeExcludesAnAnsweredPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, live := memstore.New(), printer.New(nil)
		refund := decorators.Tool("refund", "", func(ctx context.Context, _ struct{}) (bool, error) {
			time.Sleep(sec) //nolint:forbidigo // the clock of a bubble
			return core.Await[bool](ctx, "refund?")
		})
		run := func() error {
			st, err := state.Open(t.Context(), store, "run-1", state.WithPublisher(live))
			require.NoError(t, err)
			_, err = refund.Call(st.Context(t.Context()), struct{}{})
			require.NoError(t, st.Close())
			return err
		}
		require.ErrorIs(t, run(), core.ErrAwaiting)
		time.Sleep(time.Hour) //nolint:forbidigo // the clock of a bubble
		require.NoError(t, state.Answer(t.Context(), store, "run-1", "refund?1", "", true))
		time.Sleep(time.Hour) //nolint:forbidigo // the clock of a bubble
		require.NoError(t, run())

		found := testkit.LoadRun(t, store, "run-1")
		restored := printer.New(nil)
		publish(restored, found.Records...)
		assert.Equal(t, 2*sec, live.Summary().Took)
		assert.Equal(t, live.Summary(), restored.Summary())
	})
}

func TestTotalTimeCountsWorkBeforeAnAnswer(t *testing.T) {
	p := printer.New(nil)
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for _, kind := range []record.Kind{record.KindQuestion, record.KindAnswer, record.KindLog} {
		publish(p, record.Record{RunID: "r1", Kind: kind, Time: at})
		at = at.Add(sec)
	}
	assert.Equal(t, 2*sec, p.Summary().Took)
}

func TestSlowestCallsAreTheFiveSlowest(t *testing.T) {
	p := printer.New(nil)
	for _, seconds := range []int{3, 9, 1, 7, 5, 8, 2, 6, 4} {
		r := completed(t, 0, time.Duration(seconds)*sec)
		r.Address = address(t, fmt.Sprintf("fetch_data#%d", seconds+1))
		publish(p, r)
	}
	agent := completed(t, 0, time.Hour)
	agent.Kind, agent.Address = record.KindAgent, address(t, "agent")
	again := completed(t, 0, 10*sec)
	again.Address = address(t, "fetch_data#2")
	publish(p, agent, again)
	var got []time.Duration
	for _, c := range p.Summary().Slowest {
		got = append(got, c.Elapsed)
	}
	assert.Equal(t, []time.Duration{10 * sec, 9 * sec, 8 * sec, 7 * sec, 6 * sec}, got, "the time of an agent is spent in its calls")
}

func TestSlowestCallsHaveTheirActorsWhereAddressesDoNot(t *testing.T) {
	var out strings.Builder
	p := printer.New(&out)
	for i, path := range []string{"group:cities/3", "step:collect", "fetch_data#2"} {
		r := completed(t, 0, time.Duration(3-i)*sec)
		r.Address = address(t, path)
		publish(p, r)
	}
	again := completed(t, 1, half)
	again.Address = address(t, "group:cities/4")
	publish(p, again)
	p.PrintSummary()
	assert.Contains(t, out.String(), `📊 SLOWEST CALLS
├─ 3.0s group:cities/3 (fetch_data)
├─ 2.0s step:collect (fetch_data)
├─ 1.0s fetch_data#2
└─ 0.5s group:cities/4 (fetch_data, 2 attempts)
`)
}
