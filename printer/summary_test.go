package printer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/printer"
)

// numbered puts the records at the path, with sequence numbers after those of
// the records before.
func numbered(t testing.TB, after []core.Record, path string, records []core.Record) []core.Record {
	t.Helper()
	for i := range records {
		records[i].Address = address(t, path)
		records[i].Seq = uint64(len(after) + 1)
		after = append(after, records[i])
	}
	return after
}

// fiveRetried is the run of the specification: five calls with retries, of
// which four succeed; twelve retries.
func fiveRetried(t testing.TB) []core.Record {
	t.Helper()
	var records []core.Record
	for i := range 4 {
		call := recovering(t)
		if i < 2 { // three retries instead of two
			call = append(call[:len(call)-1], failing(t, 2, sec)...)
			call = append(call, tool(t, core.StatusStarted, 3), completed(t, 3, 9*sec))
		}
		records = numbered(t, records, fmt.Sprintf("fetch_data#%d", i+2), call)
	}
	return numbered(t, records, "fetch_data", exhausting(t))
}

// ofTools is a summary of calls of tools.
func ofTools(e printer.Executions, s printer.Summary) printer.Summary {
	s.Executions, s.Tools = e, e
	return s
}

func slow(elapsed time.Duration, attempts int) []printer.SlowCall {
	a, _ := core.ParseAddress("fetch_data")
	return []printer.SlowCall{{RunID: "r1", Address: a, Elapsed: elapsed, Attempts: attempts}}
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
└─ Time waiting: 32.0s

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
	answered := call(t, core.KindLLM, core.StatusCompleted, "model", "model")
	answered.Detail = &core.Detail{Usage: core.Usage{InputTokens: 12, OutputTokens: 5, Cost: 0.0025}}
	p.Publish(answered)
	p.Publish(call(t, core.KindTool, core.StatusInterrupted, "fetch", "fetch"))
	p.Publish(call(t, core.KindAgent, core.StatusRecovered, "assistant", "assistant"))
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
		records[i].Detail = &core.Detail{Usage: core.Usage{InputTokens: 1}}
		p.Publish(records[i])
	}
	before := p.Summary()
	for _, r := range records {
		r.Replayed = true
		p.Publish(r)
	}
	recovered := tool(t, core.StatusRecovered, 0)
	recovered.Detail = &core.Detail{Usage: core.Usage{InputTokens: 1}}
	p.Publish(recovered)
	assert.Equal(t, before, p.Summary())
	before.Slowest = nil
	assert.Equal(t, ofTools(printer.Executions{Completed: 4, Failed: 1}, printer.Summary{
		Attempts: 17, Retries: 12, Retried: 5, SucceededAfterRetry: 4, FailedAfterRetries: 1,
		Took: 32 * sec, Waited: 32 * sec, Usage: core.Usage{InputTokens: len(records)},
	}), before)
}

func TestSummaryFollowsAnInterruptedCallToItsEnd(t *testing.T) {
	p := printer.New(nil)
	publish := func(seq uint64, r core.Record) {
		r.Seq = seq
		p.Publish(r)
	}
	publish(1, tool(t, core.StatusStarted, 0))
	assert.Equal(t, ofTools(printer.Executions{GoingOn: 1}, printer.Summary{Attempts: 1}), p.Summary())
	retry := failing(t, 0, 2*sec)
	publish(2, retry[0])
	publish(3, retry[1])
	interrupted := tool(t, core.StatusInterrupted, 1)
	interrupted.Time = retry[1].Time.Add(sec)
	interrupted.Err = &core.InterruptedError{Reason: core.InterruptUser}
	publish(4, interrupted)
	assert.Equal(t, ofTools(printer.Executions{Interrupted: 1}, printer.Summary{
		Attempts: 1, Waited: sec, Interrupts: map[core.InterruptReason]int{core.InterruptUser: 1},
	}), p.Summary(), "the wait was cut short, the retry not begun")
	publish(5, tool(t, core.StatusStarted, 1))
	publish(6, completed(t, 1, 3*sec))
	assert.Equal(t, ofTools(printer.Executions{Completed: 1}, printer.Summary{
		Attempts: 2, Retries: 1, Retried: 1, SucceededAfterRetry: 1, Waited: sec, Slowest: slow(3*sec, 2),
	}), p.Summary())
}

func TestSummaryKeepsRunsApart(t *testing.T) {
	p := printer.New(nil)
	for _, run := range []string{"a", "b"} {
		r := completed(t, 0, half)
		r.RunID, r.Seq = run, 2
		p.Publish(r)
	}
	s := p.Summary()
	assert.Equal(t, printer.Executions{Completed: 2}, s.Executions)
	assert.Len(t, s.Slowest, 2)
}

func TestSummaryCountsNoAttemptBeforeThePreconditions(t *testing.T) {
	p := printer.New(nil)
	r := failed(t, 0, core.ReasonPrecondition, half)
	r.Stage = core.StagePrecondition
	p.Publish(r)
	assert.Equal(t, ofTools(printer.Executions{Failed: 1}, printer.Summary{Slowest: slow(half, 0)}), p.Summary())
}
