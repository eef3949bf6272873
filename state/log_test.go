package state_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func TestLogLineHasTheAddressOfItsCall(t *testing.T) {
	st, ctx := testkit.Run(t)
	st.Log(slog.LevelDebug, "the owner's", nil)
	state.From(ctx).Log(slog.LevelWarn, "of the run", nil)
	out, err := testkit.Call(ctx, testkit.Tool(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
		state.From(ctx).Log(slog.LevelInfo, "of the call", nil)
		_, _ = group(ctx, "all", func(ctx context.Context) (string, error) {
			state.From(ctx).Log(slog.LevelError, "of the branch", nil)
			return "", nil
		})
		st.Log(slog.LevelInfo, "the owner's again", nil)
		return "out", nil
	}))
	testkit.Completed(t, out, err)
	wantRecords(t, st,
		"run started", "log recorded debug: the owner's", "log recorded warn: of the run",
		"tool_call tool started", "log tool recorded info: of the call", "group tool/group:all started",
		"branch tool/group:all/1 started", "log tool/group:all/1 recorded error: of the branch", "branch tool/group:all/1 completed", "group tool/group:all completed",
		"log recorded info: the owner's again", "tool_call tool completed")
}

func TestLogLineKeepsACopyOfItsMetadata(t *testing.T) {
	st, _ := testkit.Run(t)
	inner, list := map[string]int{"n": 1}, []any{"a", []string{"b"}}
	m := map[string]any{"n": 1, "inner": inner, "list": list, "none": nil}
	m["itself"] = m
	st.Log(slog.LevelInfo, "line", m)
	m["n"], inner["n"], list[0], list[1].([]string)[0] = 2, 2, "x", "x"
	got := testkit.Records(t, st)[1].Detail.Metadata
	assert.Equal(t, 1, got["n"])
	assert.Equal(t, map[string]int{"n": 1}, got["inner"])
	assert.Equal(t, []any{"a", []string{"b"}}, got["list"])
	assert.Nil(t, got["none"])
}

func TestLogLineOfAnAttemptThatIsOverIsDropped(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		var late *state.Handle
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
			late = state.From(ctx)
			return "out", nil
		}))
		testkit.Completed(t, out, err)
		late.Log(slog.LevelInfo, "late", nil)
		assert.Empty(t, kinds(t, st, record.KindLog), "lines")
	})
}

func TestLogLineOfAFailedAttemptStays(t *testing.T) {
	st, ctx := testkit.Run(t)
	_, err := testkit.Call(ctx, testkit.Tool(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
		state.From(ctx).Log(slog.LevelInfo, "before it failed", nil)
		return "", errBoom
	}))
	assert.ErrorIs(t, err, errBoom)
	assert.Len(t, kinds(t, st, record.KindLog), 1, "lines")
}

func TestNothingIsRecordedAfterClose(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		published := 0
		st, ctx := testkit.Run(t, state.WithPublisher(testkit.Publisher(func(record.Record) { published++ })))
		st.Close()
		st.Log(slog.LevelInfo, "late", nil)
		assert.ErrorIs(t, state.Put(ctx, "key", "late"), state.ErrClosed)
		assert.ErrorIs(t, st.SetTimeout(time.Second), state.ErrClosed)
		assert.False(t, st.Interrupt(snapshot.Stop{}), "interrupt")
		ran := false
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", once, func(context.Context, string) (string, error) { ran = true; return "out", nil }))
		assert.ErrorIs(t, err, state.ErrClosed)
		_, err = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, testkit.Succeed))
		assert.ErrorIs(t, err, state.ErrClosed)
		assert.False(t, ran, "ran")
		wantRecords(t, st, "run started", "run interrupted")
		assert.Equal(t, 2, published, "published")
	})
}
