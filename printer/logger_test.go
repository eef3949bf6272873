package printer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// logged returns the lines that a logger with the given level writes for records.
func logged(t *testing.T, level slog.Level, records ...record.Record) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	l := printer.NewLog(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level})))
	for _, r := range records {
		l.Publish(r)
	}
	return decoded(t, &out)
}

func decoded(t *testing.T, out *bytes.Buffer) (lines []map[string]any) {
	t.Helper()
	for d := json.NewDecoder(out); d.More(); {
		var line map[string]any
		require.NoError(t, d.Decode(&line))
		lines = append(lines, line)
	}
	return lines
}

func TestLogWritesRecordsWithTheirTimesAndAttributes(t *testing.T) {
	records := timed(append(recovering(t)[:3], failed(t, 1, record.ReasonPermanent, 3*sec)))
	records[3].Detail = &record.Detail{Usage: record.Usage{InputTokens: 12, OutputTokens: 5, Cost: 0.5}}
	call := func(level, msg, at, status string, attempt float64, more map[string]any) map[string]any {
		line := map[string]any{
			"level": level, "msg": msg, "time": at, "run_id": "r1", "address": "fetch_data", "name": "fetch_data",
			"event_type": "tool_call", "execution_status": status, "retry_attempt": attempt,
		}
		for key, value := range more {
			line[key] = value
		}
		return line
	}
	assert.Equal(t, []map[string]any{
		call("DEBUG", "tool call started", "2026-11-20T08:00:00Z", "started", 0, nil),
		call("WARN", "tool call failed", "2026-11-20T08:00:00Z", "failed", 0, map[string]any{
			"will_retry": true, "execution_time": 0.5, "original_error": "Connection timeout",
		}),
		call("DEBUG", "tool call retrying", "2026-11-20T08:00:00Z", "retrying", 1, map[string]any{
			"retry_delay": 2.0, "delay_source": "backoff", "original_error": "Connection timeout",
		}),
		call("ERROR", "tool call failed", "2026-11-20T08:00:02Z", "failed", 1, map[string]any{
			"execution_time": 0.5, "total_attempts": 2.0, "total_time": 3.0, "reason": "permanent", "stage": "handler",
			"original_error": "Connection timeout", "usage": map[string]any{"input_tokens": 12.0, "output_tokens": 5.0, "cost": 0.5},
		}),
	}, logged(t, slog.LevelDebug, records...))
	assert.Len(t, logged(t, slog.LevelWarn, records...), 2, "the level of the handler applies")
}

func TestLogKeepsLogLinesAsTheyAre(t *testing.T) {
	lines := logged(t, slog.LevelDebug, record.Record{
		RunID: "r1", Kind: record.KindLog, Status: record.StatusRecorded, Time: time.Unix(0, 0).UTC(),
		Detail: &record.Detail{Message: "slow", Severity: slog.LevelWarn, Metadata: map[string]any{"run_id": "mine", "took": sec, "err": errors.New("e")}},
	}, record.Record{Kind: record.KindLog})
	assert.Equal(t, []map[string]any{{
		"level": "WARN", "msg": "slow", "time": "1970-01-01T00:00:00Z", "run_id": "r1", "event_type": "log", "execution_status": "recorded",
		"metadata": map[string]any{"run_id": "mine", "took": 1e9, "err": "e"},
	}, {"level": "INFO", "msg": "", "event_type": "log"}}, lines)
}

func TestLogHasALevelForEachRecord(t *testing.T) {
	interrupted := tool(t, record.StatusInterrupted, 0)
	interrupted.Err = &record.InterruptedError{Reason: record.InterruptUser, By: "terminal"}
	replayed := failed(t, 0, record.ReasonPermanent, sec)
	replayed.Replayed = true
	question := record.Record{Kind: record.KindQuestion, Status: record.StatusAwaiting, Detail: &record.Detail{Message: "refund?"}}
	group := record.Record{Kind: record.KindGroup, Status: record.StatusStarted, Detail: &record.Detail{Branches: 3}}
	lines := logged(t, slog.LevelDebug, completed(t, 0, sec), interrupted, replayed, tool(t, record.StatusRecovered, 0), question, group,
		record.Record{Kind: record.KindRun, Status: record.StatusStarted}, record.Record{Kind: record.KindValue, Status: record.StatusRecorded},
		record.Record{Kind: record.Kind(99), Status: record.Status(98)})
	var got []string
	for _, line := range lines {
		got = append(got, line["level"].(string)+" "+line["msg"].(string))
	}
	assert.Equal(t, []string{
		"INFO tool call completed", "WARN tool call interrupted", "DEBUG tool call failed", "DEBUG tool call recovered",
		"INFO question awaiting", "DEBUG group started", "INFO run started", "DEBUG value recorded", "DEBUG kind(99) status(98)",
	}, got)
	assert.Equal(t, []any{"user", "terminal"}, []any{lines[1]["reason"], lines[1]["interrupted_by"]})
	assert.Equal(t, "refund?", lines[4]["message"])
	assert.InDelta(t, 3, lines[5]["branches"], 0)
}

func TestLogIsAPublisherOfARun(t *testing.T) {
	var out bytes.Buffer
	l := printer.NewLog(slog.New(slog.NewJSONHandler(&out, nil)).With("app", "weather"))
	st := state.New(state.WithPublisher(l), state.WithRunID("r1"))
	fetch := decorators.Tool("fetch", "", func(ctx context.Context, _ struct{}) (int, error) {
		state.From(ctx).Log(slog.LevelInfo, "begins", map[string]any{"bad": panicking{}})
		return 0, errTimeout
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
	_, err := fetch.Call(st.Context(t.Context()), struct{}{})
	require.Error(t, err)
	require.NoError(t, st.Close())
	var got []any
	for _, line := range decoded(t, &out) {
		assert.Equal(t, "weather", line["app"])
		got = append(got, line["msg"])
	}
	assert.Equal(t, []any{"run started", "begins", "tool call failed", "run failed"}, got)
}

func TestLogWithoutALoggerIsTheDefaultOne(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)
	printer.NewLog(nil).Publish(completed(t, 0, sec))
	assert.Contains(t, out.String(), `level=INFO msg="tool call completed" run_id=r1`)
}

func TestLogOmitsZeroPartsOfAUsage(t *testing.T) {
	torn := failed(t, 0, record.ReasonPermanent, sec)
	torn.Detail = &record.Detail{Usage: record.Usage{
		InputTokens: 12, OutputTokens: 5, CachedInputTokens: 4, CacheWriteTokens: 3, ReasoningTokens: 2, Estimated: true,
	}}
	lines := logged(t, slog.LevelDebug, torn)
	require.Len(t, lines, 1)
	assert.Equal(t, map[string]any{
		"input_tokens": 12.0, "output_tokens": 5.0, "cost": 0.0,
		"cached_input_tokens": 4.0, "cache_write_tokens": 3.0, "reasoning_tokens": 2.0, "estimated": true,
	}, lines[0]["usage"])
}
