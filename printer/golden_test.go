package printer_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
)

var update = flag.Bool("update", false, "rewrite the golden files with the current output")

// golden compares got with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test ./printer -update writes it")
	assert.Equal(t, string(want), got, "%s; go test ./printer -update rewrites it", path)
}

// story builds a run with every kind of record that a printer shows.
type story struct {
	t       testing.TB
	records []record.Record
}

func (s *story) add(after time.Duration, r record.Record) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	if n := len(s.records); n > 0 {
		at = s.records[n-1].Time
	}
	r.RunID, r.Seq, r.Time = "trip-7", uint64(len(s.records)+1), at.Add(after)
	s.records = append(s.records, r)
}

func (s *story) call(after time.Duration, kind record.Kind, status record.Status, attempt int, path, name string, changes ...func(*record.Record)) {
	r := record.Record{
		Kind: kind, Status: status, Attempt: attempt, MaxAttempts: 3, Name: name, Address: address(s.t, path),
		Duration: after, Elapsed: after * time.Duration(attempt+1),
	}
	for _, change := range changes {
		change(&r)
	}
	s.add(after, r)
	if r.WillRetry {
		r.Status, r.WillRetry, r.Duration, r.Detail = record.StatusRetrying, false, 0, nil
		r.Attempt++
		s.add(0, r)
	}
}

func because(err error, reason record.Reason) func(*record.Record) {
	return func(r *record.Record) { r.Err, r.Reason, r.Stage = err, reason, record.StageHandler }
}

func again(delay time.Duration, source record.Source) func(*record.Record) {
	return func(r *record.Record) { r.Err, r.WillRetry, r.Delay, r.DelaySource = errTimeout, true, delay, source }
}

func with(detail record.Detail) func(*record.Record) {
	return func(r *record.Record) { r.Detail = &detail }
}

func stopped(e record.InterruptedError) func(*record.Record) {
	return func(r *record.Record) { r.Err = &e }
}

// everything returns the records of the story.
func everything(t testing.TB) []record.Record {
	t.Helper()
	const (
		started, completed, failed   = record.StatusStarted, record.StatusCompleted, record.StatusFailed
		interrupted, awaiting        = record.StatusInterrupted, record.StatusAwaiting
		tool, llm, agent, step       = record.KindTool, record.KindLLM, record.KindAgent, record.KindStep
		ms                           = time.Millisecond
		a                            = "assistant"
		recovered, backoff, byServer = record.StatusRecovered, record.SourceBackoff, record.SourceServer
	)
	encoded := func(v any) []byte {
		data, err := record.Encode(v)
		require.NoError(t, err)
		return data
	}
	s := &story{t: t}
	s.add(0, record.Record{Kind: record.KindRun, Status: started, Name: "trips", Detail: &record.Detail{Message: "a trip to Oslo"}})
	s.call(0, agent, started, 0, a, a, with(record.Detail{Input: encoded(map[string]any{"to": "Oslo"})}))

	// The specification's compact example, in an agent.
	s.call(0, tool, started, 0, a+"/fetch_data", "fetch_data")
	s.call(half, tool, failed, 0, a+"/fetch_data", "fetch_data", again(2*sec, backoff))
	s.call(2*sec, tool, started, 1, a+"/fetch_data", "fetch_data")
	s.call(half, tool, failed, 1, a+"/fetch_data", "fetch_data", again(1700*ms, backoff))
	s.call(1700*ms, tool, started, 2, a+"/fetch_data", "fetch_data")
	s.call(half, tool, completed, 2, a+"/fetch_data", "fetch_data", func(r *record.Record) { r.Elapsed = 5200 * ms }, with(record.Detail{Output: encoded("data")}))

	// The specification's detailed example.
	s.call(0, tool, started, 0, a+"/fetch_data#2", "fetch_data")
	s.call(half, tool, failed, 0, a+"/fetch_data#2", "fetch_data", again(2*sec, backoff))
	s.call(2*sec, tool, started, 1, a+"/fetch_data#2", "fetch_data")
	s.call(half, tool, failed, 1, a+"/fetch_data#2", "fetch_data", again(4*sec, byServer))
	s.call(4*sec, tool, started, 2, a+"/fetch_data#2", "fetch_data")
	s.call(half, tool, failed, 2, a+"/fetch_data#2", "fetch_data", because(errTimeout, record.ReasonExhausted), func(r *record.Record) { r.Elapsed = 7 * sec })

	// Other ways in which a call ends.
	s.call(0, tool, failed, 0, a+"/read_file", "read_file", because(errors.New(`"../x" is outside`), record.ReasonPrecondition),
		func(r *record.Record) { r.Stage = record.StagePrecondition })
	s.call(0, tool, started, 0, a+"/pay", "pay")
	s.call(30*ms, tool, failed, 0, a+"/pay", "pay", because(errors.New("card refused"), record.ReasonPermanent))
	s.call(0, tool, failed, 0, a+"/pay#2", "pay", because(errors.New("whether it took effect is not known"), record.ReasonInDoubt))
	s.call(0, step, started, 0, a+"/now", "now")
	s.call(0, step, completed, 0, a+"/now", "now")
	s.call(0, tool, recovered, 0, a+"/book", "book")
	s.call(0, llm, started, 0, a+"/model", "model")
	s.add(10*ms, record.Record{
		Kind: record.KindLog, Status: record.StatusRecorded, Address: address(t, a+"/model"), Name: "http",
		Detail: &record.Detail{Severity: slog.LevelWarn, Message: "slow", Metadata: map[string]any{"took": "1s"}},
	})
	s.call(sec, llm, completed, 0, a+"/model", "model", with(record.Detail{Usage: record.Usage{InputTokens: 120, OutputTokens: 36, Cost: 0.0025}}))
	s.add(0, record.Record{Kind: record.KindValue, Status: record.StatusRecorded, Name: "city", Address: address(t, a), Detail: &record.Detail{Output: encoded("Oslo")}})

	// An agent that is retried, with an abandoned call.
	s.call(0, agent, started, 0, a+"/helper", "helper")
	s.call(0, tool, started, 0, a+"/helper/search", "search")
	s.call(0, tool, started, 0, a+"/helper/search#2", "search")
	s.call(40*ms, tool, completed, 0, a+"/helper/search", "search")
	s.call(5*sec, agent, failed, 0, a+"/helper", "helper", again(0, backoff))
	s.call(0, agent, started, 1, a+"/helper", "helper")
	s.call(0, tool, started, 0, a+"/helper@2/search", "search")
	s.call(40*ms, tool, completed, 0, a+"/helper@2/search", "search")
	s.call(0, agent, completed, 1, a+"/helper", "helper")

	// A group that fails fast.
	const group = a + "/group:cities"
	s.call(0, record.KindGroup, started, 0, group, "cities", with(record.Detail{Branches: 4}))
	city := func(n string) string { return group + "/" + n }
	for _, n := range []string{"1", "2", "3", "4"} {
		s.call(0, tool, started, 0, city(n), "get_weather")
	}
	s.call(20*ms, tool, failed, 0, city("2"), "get_weather", again(sec, byServer))
	s.call(20*ms, tool, completed, 0, city("1"), "get_weather")
	s.call(20*ms, tool, failed, 0, city("3"), "get_weather", because(errors.New("no such city"), record.ReasonPermanent))
	other := stopped(record.InterruptedError{Reason: record.InterruptGroup, Cause: errors.New("no such city")})
	s.call(0, tool, interrupted, 1, city("2"), "get_weather", other, func(r *record.Record) { r.Stage = record.StageWait })
	s.call(0, tool, interrupted, 0, city("4"), "get_weather", other)
	s.call(60*ms, record.KindGroup, failed, 0, group, "cities",
		because(errors.New("group cities: 1 of 4 branches failed; branch 3: no such city"), record.ReasonPermanent))

	// A group of functions.
	const parallel = a + "/group:checks"
	s.call(0, record.KindGroup, started, 0, parallel, "checks", with(record.Detail{Branches: 2}))
	s.call(0, record.KindBranch, started, 0, parallel+"/1", "checks 1")
	s.call(0, record.KindBranch, started, 0, parallel+"/2", "checks 2")
	s.call(0, tool, started, 0, parallel+"/1/check", "check")
	s.call(20*ms, tool, completed, 0, parallel+"/1/check", "check")
	s.call(0, record.KindBranch, completed, 0, parallel+"/1", "checks 1")
	s.call(20*ms, record.KindBranch, failed, 0, parallel+"/2", "checks 2", because(errors.New("the checksum differs"), record.ReasonPermanent))
	s.call(20*ms, record.KindGroup, failed, 0, parallel, "checks",
		because(errors.New("group checks: 1 of 2 branches failed; branch 2: the checksum differs"), record.ReasonPermanent))

	// A question, and the end.
	s.call(0, tool, started, 0, a+"/step:ask human", "refund")
	s.add(0, record.Record{
		Kind: record.KindQuestion, Status: awaiting, Address: address(t, a+"/step:ask human"), Name: a + "/step:ask human?1",
		Detail: &record.Detail{Message: "Refund 40 €?"},
	})
	s.add(0, record.Record{
		Kind: record.KindAnswer, Status: record.StatusRecorded, Address: address(t, a+"/step:ask human"), Name: a + "/step:ask human?1",
		Detail: &record.Detail{Output: encoded(true)},
	})
	question := stopped(record.InterruptedError{
		Reason: record.InterruptAwait, Question: a + "/step:ask human?2", Message: "Really?", Cause: core.ErrAwaiting,
	})
	s.call(0, tool, awaiting, 0, a+"/step:ask human", "refund", question)
	s.call(0, tool, started, 0, a+"/wait", "wait")
	s.call(sec, tool, interrupted, 0, a+"/wait", "wait", stopped(record.InterruptedError{Reason: record.InterruptUser, By: "terminal", Message: "Ctrl-C"}))
	s.call(0, agent, interrupted, 0, a, a, stopped(record.InterruptedError{Reason: record.InterruptUser, By: "terminal", Message: "Ctrl-C"}))
	s.add(0, record.Record{
		Kind: record.KindRun, Status: interrupted, Name: "trips", Elapsed: 30 * sec,
		Err: &record.InterruptedError{Reason: record.InterruptContext, Cause: context.Canceled},
	})
	return s.records
}

func TestFormsMatchGoldenFiles(t *testing.T) {
	records := everything(t)
	for name, options := range map[string][]printer.Option{
		"plain":         nil,
		"ascii":         {printer.WithASCII()},
		"previews":      {printer.WithPreviews()},
		"compact":       {printer.WithCompact()},
		"compact-ascii": {printer.WithCompact(), printer.WithASCII()},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name, printed(records, options...))
		})
	}
}

func TestSummaryMatchesGoldenFile(t *testing.T) {
	for name, options := range map[string][]printer.Option{"summary": nil, "summary-ascii": {printer.WithASCII()}} {
		var out strings.Builder
		p := printer.New(&out, options...)
		publish(p, everything(t)...)
		out.Reset()
		p.PrintSummary()
		golden(t, name, out.String())
	}
}

func TestTerminalMatchesGoldenFile(t *testing.T) {
	e := newEmulator(t, 100, 24)
	p := e.printer()
	publish(p, everything(t)...)
	p.PrintSummary()
	require.NoError(t, p.Close())
	golden(t, "terminal", e.shown()+"\n")
	e.atRest(t)

	var colored strings.Builder
	p = printer.New(&colored, printer.WithTerminal(func() (int, int) { return 100, 24 }), printer.WithPlain())
	publish(p, everything(t)...)
	golden(t, "colors", strings.ReplaceAll(colored.String(), "\x1b", "ESC"))
}

// Each text of the specification is in one of the golden files.
func TestGoldenFilesHaveEachTextOfTheSpecification(t *testing.T) {
	plain := strings.Join([]string{
		"  🔧 fetch_data [STARTED]",
		"  ✖ fetch_data [FAILED] (0.5s) - Connection timeout",
		"    ↻ Retrying (attempt 2/3) in 2.0s...",
		"  🔧 fetch_data [STARTED] (retry 2/3)",
	}, "\n") + "\n"
	compact := strings.Join([]string{
		"  🔧 fetch_data [STARTED]",
		"  ✔ fetch_data [COMPLETED after 3 attempts] (5.2s total)",
		"    ↻ Recovered after 2 retries",
	}, "\n") + "\n"
	detailed := strings.Join([]string{
		"  🔧 fetch_data#2 [STARTED]",
		"  ✖ fetch_data#2 [FAILED] (0.5s) - Connection timeout",
		"    ↻ Retrying (attempt 2/3) in 2.0s...",
		"  🔧 fetch_data#2 [STARTED] (retry 2/3)",
		"  ✖ fetch_data#2 [FAILED] (0.5s) - Connection timeout",
		"    ↻ Retrying (attempt 3/3) in 4.0s... (asked by the service)",
		"  🔧 fetch_data#2 [STARTED] (retry 3/3)",
		"  ✖ fetch_data#2 [FAILED] (0.5s) - Connection timeout",
		"  ✖ fetch_data#2 [EXHAUSTED all 3 attempts] (7.0s total)",
	}, "\n") + "\n"
	for file, texts := range map[string][]string{"plain": {plain, detailed}, "compact": {compact, detailed}} {
		f, err := os.Open(filepath.Join("testdata", file+".golden"))
		require.NoError(t, err)
		data, err := io.ReadAll(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		for _, text := range texts {
			assert.Contains(t, string(data), text)
		}
	}
}
