package printer_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
)

const (
	half = 500 * time.Millisecond
	sec  = time.Second
)

var errTimeout = errors.New("Connection timeout") //nolint:staticcheck // the text of the specification

func address(t testing.TB, path string) record.Address {
	t.Helper()
	a, err := record.ParseAddress(path)
	require.NoError(t, err)
	return a
}

// tool returns a record of a call of the tool fetch_data, which may have three attempts.
func tool(t testing.TB, status record.Status, attempt int) record.Record {
	t.Helper()
	return record.Record{
		RunID: "r1", Kind: record.KindTool, Status: status, Name: "fetch_data", Address: address(t, "fetch_data"),
		Attempt: attempt, MaxAttempts: 3,
	}
}

// failing returns the two records of an attempt that fails after half a second, and after which the
// call is retried with the given delay.
func failing(t testing.TB, attempt int, delay time.Duration) []record.Record {
	t.Helper()
	r := tool(t, record.StatusFailed, attempt)
	r.Duration, r.Err, r.WillRetry, r.Delay, r.DelaySource = half, errTimeout, true, delay, record.SourceBackoff
	return []record.Record{r, retrying(r)}
}

func failed(t testing.TB, attempt int, reason record.Reason, elapsed time.Duration) record.Record {
	t.Helper()
	r := tool(t, record.StatusFailed, attempt)
	r.Duration, r.Elapsed, r.Err, r.Reason, r.Stage = half, elapsed, errTimeout, reason, record.StageHandler
	return r
}

func completed(t testing.TB, attempt int, elapsed time.Duration) record.Record {
	t.Helper()
	r := tool(t, record.StatusCompleted, attempt)
	r.Duration, r.Elapsed = half, elapsed
	return r
}

// recovering returns the records of a call that succeeds in its third attempt.
func recovering(t testing.TB) []record.Record {
	t.Helper()
	records := []record.Record{tool(t, record.StatusStarted, 0)}
	records = append(records, failing(t, 0, 2*sec)...)
	records = append(records, tool(t, record.StatusStarted, 1))
	records = append(records, failing(t, 1, 4*sec)...)
	return append(records, tool(t, record.StatusStarted, 2), completed(t, 2, 5200*time.Millisecond))
}

// exhausting returns the records of a call whose three attempts fail.
func exhausting(t testing.TB) []record.Record {
	t.Helper()
	records := recovering(t)
	return append(records[:len(records)-1], failed(t, 2, record.ReasonExhausted, 7*sec))
}

func printed(records []record.Record, options ...printer.Option) string {
	var out strings.Builder
	p := printer.New(&out, options...)
	for _, r := range records {
		p.Publish(r)
	}
	return out.String()
}

func TestFirstSuccessIsTwoLines(t *testing.T) {
	got := printed([]record.Record{tool(t, record.StatusStarted, 0), completed(t, 0, half)})
	assert.Equal(t, "🔧 fetch_data [STARTED]\n✔ fetch_data [COMPLETED] (0.5s)\n", got)
}

func TestRecoveryHasTheTextsOfTheSpecification(t *testing.T) {
	assert.Equal(t, `🔧 fetch_data [STARTED]
✖ fetch_data [FAILED] (0.5s) - Connection timeout
  ↻ Retrying (attempt 2/3) in 2.0s...
🔧 fetch_data [STARTED] (retry 2/3)
✖ fetch_data [FAILED] (0.5s) - Connection timeout
  ↻ Retrying (attempt 3/3) in 4.0s...
🔧 fetch_data [STARTED] (retry 3/3)
✔ fetch_data [COMPLETED after 3 attempts] (5.2s total)
  ↻ Recovered after 2 retries
`, printed(recovering(t)))
}

func TestExhaustionHasTheTextsOfTheSpecification(t *testing.T) {
	assert.Equal(t, `🔧 fetch_data [STARTED]
✖ fetch_data [FAILED] (0.5s) - Connection timeout
  ↻ Retrying (attempt 2/3) in 2.0s...
🔧 fetch_data [STARTED] (retry 2/3)
✖ fetch_data [FAILED] (0.5s) - Connection timeout
  ↻ Retrying (attempt 3/3) in 4.0s...
🔧 fetch_data [STARTED] (retry 3/3)
✖ fetch_data [FAILED] (0.5s) - Connection timeout
✖ fetch_data [EXHAUSTED all 3 attempts] (7.0s total)
`, printed(exhausting(t)))
}

func TestCompactFormHasTheTextsOfTheSpecification(t *testing.T) {
	assert.Equal(t, `🔧 fetch_data [STARTED]
✔ fetch_data [COMPLETED after 3 attempts] (5.2s total)
  ↻ Recovered after 2 retries
`, printed(recovering(t), printer.WithCompact()))
	assert.Equal(t, printed(exhausting(t)), printed(exhausting(t), printer.WithCompact()), "a failure shows all its attempts")
}

func TestCompactFormWritesACallWhenItsOutcomeIsKnown(t *testing.T) {
	var out writes
	p := printer.New(&out, printer.WithCompact())
	records := recovering(t)
	publish(p, records[:len(records)-1]...)
	assert.Empty(t, out)
	publish(p, records[len(records)-1])
	assert.Len(t, out, 1, "and then all lines of the call")
}

func TestCompactFormKeepsTheLatestOfVeryManyAttempts(t *testing.T) {
	var out strings.Builder
	p := printer.New(&out, printer.WithCompact())
	publish(p, tool(t, record.StatusStarted, 0))
	for i := range 2_000 {
		publish(p, failing(t, i, sec)...)
		publish(p, tool(t, record.StatusStarted, i+1))
	}
	publish(p, failed(t, 2_000, record.ReasonExhausted, time.Hour))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	assert.Less(t, out.Len(), 20<<10)
	assert.Equal(t, "🔧 fetch_data [STARTED]", lines[0])
	assert.Regexp(t, `^  · 5\d{3} lines about earlier attempts left out$`, lines[1])
	assert.Equal(t, "✖ fetch_data [EXHAUSTED all 2001 attempts] (1h00m00s total)", lines[len(lines)-1])
}

func TestASCIIUsesNoOtherCharacters(t *testing.T) {
	records := recovering(t)
	records[7].Detail = &record.Detail{Usage: record.Usage{InputTokens: 12, OutputTokens: 5}}
	interrupted := tool(t, record.StatusInterrupted, 0)
	interrupted.Err = &record.InterruptedError{Reason: record.InterruptUser, Message: strings.Repeat("x", 201)}
	records = append(records, failed(t, 0, record.ReasonPermanent, half), interrupted)
	assert.Equal(t, `* fetch_data [STARTED]
x fetch_data [FAILED] (0.5s) - Connection timeout
  ~ Retrying (attempt 2/3) in 2.0s...
* fetch_data [STARTED] (retry 2/3)
x fetch_data [FAILED] (0.5s) - Connection timeout
  ~ Retrying (attempt 3/3) in 4.0s...
* fetch_data [STARTED] (retry 3/3)
+ fetch_data [COMPLETED after 3 attempts] (5.2s total), 17 tokens
  ~ Recovered after 2 retries
x fetch_data [FAILED: permanent] (0.5s) - Connection timeout
= fetch_data [INTERRUPTED] user: `+strings.Repeat("x", 200)+"...\n", printed(records, printer.WithASCII()))
}

func TestFailureShowsItsReason(t *testing.T) {
	for _, c := range []struct {
		name string
		r    record.Record
		want string
	}{
		{"permanent", failed(t, 0, record.ReasonPermanent, half), "[FAILED: permanent] (0.5s) - Connection timeout"},
		{"later", failed(t, 1, record.ReasonPermanent, 3*sec), "[FAILED: permanent after 2 attempts] (0.5s, 3.0s total) - Connection timeout"},
		{"retry timeout", failed(t, 0, record.ReasonRetryTimeout, half), "[FAILED: retry timeout] (0.5s) - Connection timeout"},
		{"deadline", failed(t, 0, record.ReasonDeadline, half), "[FAILED: deadline] (0.5s) - Connection timeout"},
		{"budget", failed(t, 0, record.ReasonBudget, half), "[FAILED: budget] (0.5s) - Connection timeout"},
		{"retry-after", failed(t, 0, record.ReasonRetryAfterTooLong, half), "[FAILED: retry-after too long] (0.5s) - Connection timeout"},
		{"postcondition", failed(t, 0, record.ReasonCondition, half), "[FAILED: postcondition] (0.5s) - Connection timeout"},
		{"only attempt", failed(t, 0, record.ReasonExhausted, half), "[FAILED] (0.5s) - Connection timeout"},
		{"from a newer format", failed(t, 0, record.Reason(99), half), "[FAILED: reason(99)] (0.5s) - Connection timeout"},
		{"during a wait", func() record.Record {
			r := failed(t, 1, record.ReasonContextCanceled, 3*sec)
			r.Duration = 0
			return r
		}(), "[FAILED: context canceled after 2 attempts] (3.0s total) - Connection timeout"},
		{"precondition", func() record.Record {
			r := failed(t, 0, record.ReasonPrecondition, 12*time.Millisecond)
			r.Duration, r.Stage = 0, record.StagePrecondition
			return r
		}(), "[FAILED: precondition] (12ms) - Connection timeout"},
		{"panic", func() record.Record {
			r := failed(t, 0, record.ReasonPanic, half)
			r.Err = &core.PanicError{Value: "oh"}
			return r
		}(), "[FAILED: panic] (0.5s) - oh"},
		{"recorded panic", func() record.Record {
			r := failed(t, 0, record.ReasonPanic, half)
			r.Err = record.ErrorOf(&core.PanicError{Value: "oh"})
			return r
		}(), "[FAILED: panic] (0.5s) - oh"},
		{"before any attempt", func() record.Record {
			r := failed(t, 0, record.ReasonInDoubt, 0)
			r.Duration = 0
			return r
		}(), "[FAILED: in doubt] (<1ms) - Connection timeout"},
		{"no error", func() record.Record {
			r := failed(t, 0, record.ReasonPermanent, half)
			r.Err = nil
			return r
		}(), "[FAILED: permanent] (0.5s)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, "✖ fetch_data "+c.want+"\n", printed([]record.Record{c.r}))
		})
	}
}

func TestRetryShowsWhoAskedForTheDelay(t *testing.T) {
	r := failing(t, 0, 90*sec)[1]
	r.DelaySource = record.SourceServer
	assert.Equal(t, "  ↻ Retrying (attempt 2/3) in 1m30s... (asked by the service)\n", printed([]record.Record{r}))
	r.Delay, r.DelaySource = 0, record.SourceBackoff
	assert.Equal(t, "  ↻ Retrying (attempt 2/3) at once...\n", printed([]record.Record{r}))
}

func TestRepeatedAttemptSaysThatItsProcessEnded(t *testing.T) {
	r := tool(t, record.StatusStarted, 1)
	r.Reason = record.ReasonLost
	assert.Equal(t, "🔧 fetch_data [STARTED] (retry 2/3) again: the process ended during it\n", printed([]record.Record{r}))
}

func TestUnlimitedAttemptsHaveNoTotal(t *testing.T) {
	started := tool(t, record.StatusStarted, 41)
	retrying := failing(t, 41, sec)[1]
	started.MaxAttempts, retrying.MaxAttempts = core.Unlimited, core.Unlimited
	assert.Equal(t, "🔧 fetch_data [STARTED] (retry 42)\n  ↻ Retrying (attempt 43) in 1.0s...\n",
		printed([]record.Record{started, retrying}))
}

func TestInterruptShowsWhoAndWhy(t *testing.T) {
	r := tool(t, record.StatusInterrupted, 0)
	e := &record.InterruptedError{Reason: record.InterruptUser, By: "terminal", Message: "Ctrl-C"}
	r.Err = e
	assert.Equal(t, "⏸ fetch_data [INTERRUPTED] user by terminal: Ctrl-C\n", printed([]record.Record{r}))

	r.Detail = nil
	r.Err = &record.InterruptedError{Reason: record.InterruptParent, Cause: context.DeadlineExceeded}
	assert.Equal(t, "⏸ fetch_data [INTERRUPTED] parent timeout: context deadline exceeded\n", printed([]record.Record{r}))

	r.Err = errTimeout
	assert.Equal(t, "⏸ fetch_data [INTERRUPTED] - Connection timeout\n", printed([]record.Record{r}))
}

// call returns a record of a call to the named actor, at the given path.
func call(t testing.TB, kind record.Kind, status record.Status, path, name string) record.Record {
	t.Helper()
	return record.Record{
		RunID: "r1", Kind: kind, Status: status, Name: name, Address: address(t, path),
		MaxAttempts: 3, Duration: 12 * time.Millisecond, Elapsed: 12 * time.Millisecond,
	}
}

func TestNestedCallsAreIndented(t *testing.T) {
	answered := call(t, record.KindLLM, record.StatusCompleted, "assistant/model#2", "model")
	answered.Detail = &record.Detail{Usage: record.Usage{InputTokens: 12, OutputTokens: 5, Cost: 0.0025}}
	retry := call(t, record.KindTool, record.StatusFailed, "assistant/get_weather", "get_weather")
	retry.WillRetry, retry.Delay, retry.Err = true, sec, errTimeout
	assert.Equal(t, `🤖 assistant [STARTED]
  💬 model [STARTED]
  ✔ model [COMPLETED] (12ms)
  🔧 get_weather [STARTED]
  ✖ get_weather [FAILED] (12ms) - Connection timeout
    ↻ Retrying (attempt 2/3) in 1.0s...
    🔧 lookup [STARTED]
  💬 model#2 [STARTED]
  ✔ model#2 [COMPLETED] (12ms) · 17 tokens · cost 0.0025
✔ assistant [COMPLETED] (12ms)
`, printed([]record.Record{
		call(t, record.KindAgent, record.StatusStarted, "assistant", "assistant"),
		call(t, record.KindLLM, record.StatusStarted, "assistant/model", "model"),
		call(t, record.KindLLM, record.StatusCompleted, "assistant/model", "model"),
		call(t, record.KindTool, record.StatusStarted, "assistant/get_weather", "get_weather"),
		retry,
		retrying(retry),
		call(t, record.KindTool, record.StatusStarted, "assistant/get_weather@2/lookup", "lookup"),
		call(t, record.KindLLM, record.StatusStarted, "assistant/model#2", "model"),
		answered,
		call(t, record.KindAgent, record.StatusCompleted, "assistant", "assistant"),
	}))
}

func TestTagsAndBranchesDistinguishCalls(t *testing.T) {
	assert.Equal(t, `🔧 fetch_data (collect) [STARTED]
🔧 fetch_data (collect#2) [STARTED]
· now [STARTED]
· now#2 [STARTED]
🤖 assistant [STARTED]
  ▦ cities [STARTED]
    · now (cities/1) [STARTED]
    🔧 get_weather (cities/1) [STARTED]
    🔧 get_weather (cities/2) [STARTED]
      🔧 lookup (cities/2) [STARTED]
  ▦ north/south#2 [STARTED]
    🔧 get_weather (north/south#2/1) [STARTED]
    🔧 get_weather (a step#3, cities/1) [STARTED]
`, printed([]record.Record{
		call(t, record.KindTool, record.StatusStarted, "step:collect", "fetch_data"),
		call(t, record.KindTool, record.StatusStarted, "step:collect#2", "fetch_data"),
		call(t, record.KindStep, record.StatusStarted, "step:now", "now"),
		call(t, record.KindStep, record.StatusStarted, "step:now#2", "now"),
		call(t, record.KindAgent, record.StatusStarted, "assistant", "assistant"),
		call(t, record.KindGroup, record.StatusStarted, "assistant/group:cities", "cities"),
		call(t, record.KindBranch, record.StatusStarted, "assistant/group:cities/1", "cities 1"),
		call(t, record.KindStep, record.StatusStarted, "assistant/group:cities/1/step:now", "now"),
		call(t, record.KindTool, record.StatusStarted, "assistant/group:cities/1/get_weather", "get_weather"),
		call(t, record.KindTool, record.StatusStarted, "assistant/group:cities/2", "get_weather"),
		call(t, record.KindTool, record.StatusStarted, "assistant/group:cities/2/lookup", "lookup"),
		call(t, record.KindGroup, record.StatusStarted, "assistant@2/group:north%2Fsouth#2", "north/south"),
		call(t, record.KindTool, record.StatusStarted, "assistant@2/group:north%2Fsouth#2/1", "get_weather"),
		call(t, record.KindTool, record.StatusStarted, "assistant/group:cities/1/step:a step#3", "get_weather"),
	}))
}

func TestRunHasItsOwnLines(t *testing.T) {
	run := func(status record.Status, name string) record.Record {
		return record.Record{RunID: "weather-42", Kind: record.KindRun, Status: status, Name: name, Elapsed: 65 * sec}
	}
	described := run(record.StatusStarted, "")
	described.Detail = &record.Detail{Message: "weather in Oslo"}
	failed := run(record.StatusFailed, "nightly")
	failed.Err, failed.Reason = errTimeout, record.ReasonExhausted
	interrupted := run(record.StatusInterrupted, "nightly")
	interrupted.Err = &record.InterruptedError{Reason: record.InterruptClosed}
	nameless := run(record.StatusCompleted, "")
	nameless.RunID, nameless.Elapsed = "", 0
	assert.Equal(t, `▶ run weather-42 [STARTED] weather in Oslo
▶ nightly (run weather-42) [STARTED]
✔ nightly (run weather-42) [COMPLETED] (1m05s)
✖ nightly (run weather-42) [FAILED] (1m05s) - Connection timeout
⏸ nightly (run weather-42) [INTERRUPTED] closed
✔ run [COMPLETED]
`, printed([]record.Record{
		described, run(record.StatusStarted, "nightly"), run(record.StatusCompleted, "nightly"), failed, interrupted, nameless,
	}))
}

func TestARunThatARunnerOpensForTheFirstTimeIsNotResumed(t *testing.T) {
	run := record.Record{RunID: "r1", Kind: record.KindRun, Status: record.StatusStarted, Seq: 2, Generation: 1} // after its input
	again := run
	again.Seq, again.Generation = 3, 2
	assert.Equal(t, "▶ run r1 [STARTED]\n▶ run r1 [RESUMED]\n", printed([]record.Record{run, again}))
}

func TestRunShowsWhereItContinues(t *testing.T) {
	run := record.Record{RunID: "r1", Kind: record.KindRun, Status: record.StatusStarted, Name: "nightly", Detail: &record.Detail{Message: "weather"}}
	records := []record.Record{run, tool(t, record.StatusStarted, 0), run, tool(t, record.StatusStarted, 0), completed(t, 0, half)} // the process was killed
	for i := range records {
		records[i].Seq = uint64(i + 1)
	}
	want := `▶ nightly (run r1) [STARTED] weather
🔧 fetch_data [STARTED]
▶ nightly (run r1) [RESUMED]
🔧 fetch_data [STARTED]
✔ fetch_data [COMPLETED] (0.5s)
`
	assert.Equal(t, want, printed(records))
	assert.Equal(t, strings.Replace(want, "▶ nightly (run r1) [RES", "⏸ fetch_data [UNFINISHED]\n▶ nightly (run r1) [RES", 1), printed(records, printer.WithCompact()))
}

func TestLogsAreIndentedIntoTheirCall(t *testing.T) {
	log := func(path string, detail *record.Detail) record.Record {
		return record.Record{RunID: "r1", Kind: record.KindLog, Status: record.StatusRecorded, Address: address(t, path), Detail: detail}
	}
	named := log("assistant", &record.Detail{Message: "slow", Severity: slog.LevelWarn})
	named.Name, named.Err = "http", errTimeout
	assert.Equal(t, `· INFO ready
  · WARN http: slow - Connection timeout
    · DEBUG asked city=Oslo found=true took=1.5s
        · ERROR odd at=2026-01-02T03:04:05Z bad=(chan int) list=[1,2] none=<nil> text="a \"b\" c" zero=""
      · INFO in a branch
· INFO
`, printed([]record.Record{
		log("", &record.Detail{Message: "ready"}),
		named,
		log("assistant/get_weather", &record.Detail{Message: "asked", Severity: slog.LevelDebug, Metadata: map[string]any{
			"took": 1500 * time.Millisecond, "city": "Oslo", "found": true,
		}}),
		log("assistant/group:cities/3/get_weather", &record.Detail{Message: "odd", Severity: slog.LevelError, Metadata: map[string]any{
			"text": `a "b" c`, "zero": "", "none": nil, "list": []int{1, 2}, "bad": make(chan int),
			"at": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		}}),
		log("assistant/group:cities/3", &record.Detail{Message: "in a branch"}),
		log("", nil),
	}))
}

// The last sentence of each warning from Reprise says what to do.
func TestWarningsAreWhole(t *testing.T) {
	message := strings.Repeat("long ", 80) + "Use actors.Map"
	log := func(s slog.Level) string {
		return printed([]record.Record{{Kind: record.KindLog, Detail: &record.Detail{Message: message, Severity: s}}})
	}
	assert.Equal(t, "· WARN "+message+"\n", log(slog.LevelWarn))
	assert.Equal(t, "· INFO "+strings.Repeat("long ", 39)+"long l…\n", log(slog.LevelInfo))
	message = strings.Repeat("ü", 5<<20)
	assert.Equal(t, "· ERROR "+strings.Repeat("ü", 1000)+"…\n", log(slog.LevelError))
}

func TestMetadataIsLimited(t *testing.T) {
	metadata := map[string]any{}
	for c := 'a'; c <= 'z'; c++ {
		metadata[string(c)] = strings.Repeat("y", 1000)
	}
	got := printed([]record.Record{{Kind: record.KindLog, Detail: &record.Detail{Message: "m", Metadata: metadata}}})
	assert.Contains(t, got, " a="+strings.Repeat("y", 80)+"… b=")
	assert.True(t, strings.HasSuffix(got, "… …\n"), got)
	assert.NotContains(t, got, "q=")
}

func TestMetadataOfAnyKindIsHarmless(t *testing.T) {
	cyclic := map[string]any{}
	cyclic["self"] = cyclic
	got := printed([]record.Record{{Kind: record.KindLog, Detail: &record.Detail{Message: "m", Metadata: map[string]any{
		"cycle": cyclic, "mine": panicking{}, "nil": (*panicking)(nil), "json": panickingJSON{},
	}}}})
	assert.Contains(t, got, "cycle=(map[string]interface {}) json=(printer_test.panickingJSON) mine=")
	assert.Equal(t, 1, strings.Count(got, "\n"))
}

type panicking struct{}

func (panicking) Error() string { panic("in Error") }

type panickingJSON struct{}

func (panickingJSON) MarshalJSON() ([]byte, error) { panic("in MarshalJSON") }

func TestErrorMethodThatPanicsIsPrinted(t *testing.T) {
	r := failed(t, 0, record.ReasonPermanent, half)
	r.Err = panicking{}
	assert.Contains(t, printed([]record.Record{r}), "[FAILED: permanent] (0.5s) - %!v(PANIC")
}

func TestValuesAreNotes(t *testing.T) {
	value := record.Record{Kind: record.KindValue, Status: record.StatusRecorded, Name: "city", Address: address(t, "assistant")}
	outside := record.Record{Kind: record.KindValue, Status: record.StatusRecorded, Name: "now"}
	assert.Equal(t, "  · value city\n· value now\n", printed([]record.Record{value, outside}))
}

func TestUnknownRecordsStillPrint(t *testing.T) {
	odd := tool(t, record.Status(77), 0)
	nameless := record.Record{Kind: record.KindTool, Status: record.StatusStarted}
	awaiting := tool(t, record.StatusAwaiting, 0)
	awaiting.Detail = &record.Detail{Message: "refund?"}
	recalled := tool(t, record.StatusRecovered, 0)
	recalled.Err = errTimeout
	assert.Equal(t, `· fetch_data [STATUS(77)]
🔧 tool_call [STARTED]
⏸ fetch_data [AWAITING] refund?
↻ fetch_data [RECOVERED from history] - Connection timeout
  · this is the recorded failure: nothing ran again; to make the failed calls again: reprise retry r1
· kind(99) budget [COMPLETED] spent
· record
· run [STATUS(78)]
`, printed([]record.Record{
		odd, nameless, awaiting, recalled,
		{Kind: record.Kind(99), Status: record.StatusCompleted, Name: "budget", Detail: &record.Detail{Message: "spent"}},
		{},
		{Kind: record.KindRun, Status: record.Status(78)},
	}))
}

func TestReplayedRecordsAreMarked(t *testing.T) {
	r := completed(t, 2, 5200*time.Millisecond)
	r.Replayed = true
	assert.Equal(t, "✔ fetch_data [COMPLETED after 3 attempts] (5.2s total) (replayed)\n  ↻ Recovered after 2 retries\n",
		printed([]record.Record{r}))
}

func TestRecalledCallSaysSoOnce(t *testing.T) {
	r := tool(t, record.StatusRecovered, 0)
	r.Replayed = true // as runs publish it
	assert.Equal(t, "↻ fetch_data [RECOVERED from history]\n", printed([]record.Record{r}))
	assert.Equal(t, "↻ fetch_data [RECOVERED from history]\n", printed([]record.Record{r}, printer.WithCompact()))
}

func TestPreviewsAreShownOnRequest(t *testing.T) {
	encoded := func(v any) []byte {
		data, err := record.Encode(v)
		require.NoError(t, err)
		return data
	}
	started := call(t, record.KindTool, record.StatusStarted, "assistant/get_weather", "get_weather")
	started.Detail = &record.Detail{Input: encoded(map[string]any{"city": "Oslo"})}
	done := call(t, record.KindTool, record.StatusCompleted, "assistant/get_weather", "get_weather")
	done.Detail = &record.Detail{Output: encoded(strings.Repeat("long ", 200))}
	large := call(t, record.KindTool, record.StatusCompleted, "report", "report")
	large.Detail = &record.Detail{Artifact: "sha256:abc"}
	value := record.Record{Kind: record.KindValue, Status: record.StatusRecorded, Name: "n", Detail: &record.Detail{Output: encoded(7)}}
	records := []record.Record{started, done, large, value}

	assert.Equal(t, `  🔧 get_weather [STARTED]
    · input: {"city":"Oslo"}
  ✔ get_weather [COMPLETED] (12ms)
    · output: "`+strings.Repeat("long ", 39)+`long…
✔ report [COMPLETED] (12ms)
  · output: artifact sha256:abc
· value n
  · output: 7
`, printed(records, printer.WithPreviews()))
	assert.NotContains(t, printed(records), "put:")
}

func TestHostileTextStaysOnOneHarmlessLine(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"newlines", "a\r\n\tb\n\nc\n", "a b c"},
		{"escape sequence", "\x1b[2J\x1b]0;title\a", `\x1b[2J\x1b]0;title\x07`},
		{"8-bit controls", "a\u009b31mb", `a\u009b31mb`},
		{"raw bytes", "a\x9b31m\xff", `a\x9b31m\xff`},
		{"backspace", "ok\b\bno\x7f", `ok\x08\x08no\x7f`},
		{"line separators", "a\u2028b\u2029c\u0085d", "a b c d"},
		{"bidi", "a\u202eb\u2066c", `a\u202eb\u2066c`},
		{"tag characters", "a\U000e0041", `a\U000e0041`},
		{"joined emoji", "👩‍💻 ok", "👩‍💻 ok"},
		{"stacked marks", "z" + strings.Repeat("\u0301", 500), "z" + strings.Repeat("\u0301", 8)},
		{"long", strings.Repeat("ü", 100_000), strings.Repeat("ü", 200) + "…"},
		{"10 MB", strings.Repeat("ü", 5<<20), strings.Repeat("ü", 200) + "…"},
		{"10 MB of blanks", "a" + strings.Repeat(" ", 10<<20) + "b", "a…"},
		{"10 MB of marks", "z" + strings.Repeat("\u0301", 5<<20), "z" + strings.Repeat("\u0301", 8) + "…"},
		{"10 MB of escapes", strings.Repeat("\x1b[2J", 5<<19), strings.Repeat(`\x1b[2J`, 28) + `\x1b…`},
		{"wide", "日本語のエラー🔧", "日本語のエラー🔧"},
		{"as long as may be", strings.Repeat("ü", 200) + " \n", strings.Repeat("ü", 200)},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := failed(t, 0, record.ReasonPermanent, half)
			r.Err = errors.New(c.text)
			assert.Equal(t, "✖ fetch_data [FAILED: permanent] (0.5s) - "+c.want+"\n", printed([]record.Record{r}))
		})
	}
	r := tool(t, record.StatusStarted, 0)
	r.Name = "fetch\n\x1b[31mdata" + strings.Repeat("x", 100)
	assert.Equal(t, `🔧 fetch \x1b[31mdata`+strings.Repeat("x", 62)+"… [STARTED]\n", printed([]record.Record{r}))
}

func TestDeepCallsStayReadable(t *testing.T) {
	r := call(t, record.KindTool, record.StatusStarted, strings.Repeat("a/", 1000)+"b", "b")
	assert.Equal(t, strings.Repeat("  ", 32)+"🔧 b [STARTED]\n", printed([]record.Record{r}))
}

func TestNilWriterOnlyCounts(t *testing.T) {
	p := printer.New(nil)
	p.Publish(tool(t, record.StatusStarted, 0))
	p.PrintSummary()
	require.NoError(t, p.Err())
	assert.Equal(t, 1, p.Summary().Tools.Running)
}

// faulty is a writer that fails in its second Write and writes too little in its third.
type faulty struct {
	writes int
	bytes.Buffer
}

func (f *faulty) Write(data []byte) (int, error) {
	switch f.writes++; f.writes {
	case 2:
		return 0, errTimeout
	case 3:
		return len(data) - 1, nil
	}
	return f.Buffer.Write(data)
}

func TestFirstWriteErrorIsKept(t *testing.T) {
	f := new(faulty)
	p := printer.New(f)
	p.Publish(tool(t, record.StatusStarted, 0))
	require.NoError(t, p.Err())
	for range 3 {
		p.Publish(completed(t, 0, half))
	}
	require.ErrorIs(t, p.Err(), errTimeout)
	assert.Equal(t, "🔧 fetch_data [STARTED]\n✔ fetch_data [COMPLETED] (0.5s)\n", f.String(), "the printer continues after an error")
}

// retrying returns the record that follows a failed record.
func retrying(r record.Record) record.Record {
	r.Status, r.WillRetry, r.Duration, r.Detail = record.StatusRetrying, false, 0, nil
	r.Attempt++
	return r
}

// timed sets the times of the records. After a retrying record, the next record comes after the
// delay.
func timed(records []record.Record) []record.Record {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for i := range records {
		if i > 0 && records[i-1].Status == record.StatusRetrying {
			at = at.Add(records[i-1].Delay)
		}
		records[i].Time = at
	}
	return records
}

// If a stream breaks off, the service does not report its usage.
func TestEstimatedUsageIsMarked(t *testing.T) {
	torn := call(t, record.KindLLM, record.StatusFailed, "model", "model")
	torn.WillRetry, torn.Delay, torn.Err = true, sec, errTimeout
	torn.Detail = &record.Detail{Usage: record.Usage{InputTokens: 12, OutputTokens: 5, Cost: 0.0025, Estimated: true}}
	answered := call(t, record.KindLLM, record.StatusCompleted, "model", "model")
	answered.Attempt = 1
	answered.Detail = &record.Detail{Usage: record.Usage{InputTokens: 20, OutputTokens: 8, Cost: 0.005}}
	records := []record.Record{call(t, record.KindLLM, record.StatusStarted, "model", "model"), torn, retrying(torn), answered}
	assert.Equal(t, `💬 model [STARTED]
✖ model [FAILED] (12ms) · ~17 tokens · cost ~0.0025 - Connection timeout
  ↻ Retrying (attempt 2/3) in 1.0s...
✔ model [COMPLETED after 2 attempts] (12ms total) · 28 tokens · cost 0.005
  ↻ Recovered after 1 retry
`, printed(records))

	p := printer.New(nil)
	for _, r := range records {
		p.Publish(r)
	}
	assert.True(t, p.Summary().Usage.Estimated)
	var out strings.Builder
	p = printer.New(&out)
	p.Publish(torn)
	out.Reset()
	p.PrintSummary()
	assert.Contains(t, out.String(), "Tokens: ~17 (12 in, 5 out, in part estimated)")
	assert.Contains(t, out.String(), "Cost: ~0.0025")
}

func TestCompensationNamesTheCallThatItUndoes(t *testing.T) {
	var out strings.Builder
	p := printer.New(&out)
	at := func(path string, status record.Status, kind record.Kind) record.Record {
		a, err := record.ParseAddress(path)
		require.NoError(t, err)
		return record.Record{RunID: "r", Kind: kind, Status: status, Name: "book", Address: a, MaxAttempts: 3, Duration: time.Second}
	}
	p.Publish(at("trip/book#2@undo/book", record.StatusStarted, record.KindCompensation))
	p.Publish(at("trip/book#2@undo/book", record.StatusCompleted, record.KindCompensation))
	p.Publish(at("group:g/3@undo/book", record.StatusStarted, record.KindCompensation))
	assert.Equal(t, "    ↩ undo book#2 [STARTED]\n    ✔ undo book#2 [COMPLETED] (1.0s)\n    ↩ undo book (g/3) [STARTED]\n", out.String())

	out.Reset()
	doubted := at("trip/book#3@undo/book", record.StatusStarted, record.KindCompensation)
	doubted.Reason = record.ReasonInDoubt
	p.Publish(doubted)
	assert.Equal(t, "    ↩ undo book#3 [STARTED] it may have taken effect\n", out.String())
}

func TestAttributesOfAnAttemptAreOnItsLine(t *testing.T) {
	r := completed(t, 0, sec)
	r.Detail = &record.Detail{Usage: record.Usage{InputTokens: 3}, Metadata: map[string]any{"response_id": "r 1", "first_token": 0.5}}
	assert.Contains(t, printed([]record.Record{r}), `3 tokens · first_token=0.5 response_id="r 1"`)
	f := failed(t, 0, record.ReasonPermanent, half)
	f.Detail = &record.Detail{Metadata: map[string]any{"provider": "a"}}
	assert.Contains(t, printed([]record.Record{f}), `provider=a`)
}

func TestAttributesThatModelsRepeatAreNotOnTheirLines(t *testing.T) {
	r := completed(t, 0, sec)
	r.Kind = record.KindLLM
	repeated := map[string]any{
		"provider": "openai", "server_address": "api.openai.com", "server_port": 443, "response_id": "r1", "model": r.Name,
	}
	r.Detail = &record.Detail{Metadata: repeated}
	assert.Contains(t, printed([]record.Record{r}), "[COMPLETED] (0.5s)\n")
	assert.Len(t, repeated, 5, "the record keeps them")

	for seconds, want := range map[float64]string{0.000374519: "<0.001", 0.500374519: "0.5", 12.34567: "12.3"} {
		r.Detail = &record.Detail{Metadata: map[string]any{"first_token": seconds}}
		assert.Contains(t, printed([]record.Record{r}), "(0.5s) · first_token="+want+"\n")
	}
	r.Detail = &record.Detail{Metadata: map[string]any{"provider": "openai", "model": r.Name + "-2026", "finish": "stop"}}
	assert.Contains(t, printed([]record.Record{r}), "(0.5s) · finish=stop model="+r.Name+"-2026\n")
}
