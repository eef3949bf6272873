package state_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

func TestLogLineHasTheAddressOfItsCall(t *testing.T) {
	st, ctx := run(t)
	st.Log(slog.LevelDebug, "the owner's", nil)
	state.From(ctx).Log(slog.LevelWarn, "of the run", nil)
	out, err := call(ctx, actor(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
		state.From(ctx).Log(slog.LevelInfo, "of the call", nil)
		_, _ = group(ctx, "all", func(ctx context.Context) (string, error) {
			state.From(ctx).Log(slog.LevelError, "of the branch", nil)
			return "", nil
		})
		st.Log(slog.LevelInfo, "the owner's again", nil)
		return "out", nil
	}))
	completed(t, out, err)
	told(t, st,
		"run started", "log recorded debug: the owner's", "log recorded warn: of the run",
		"tool_call tool started", "log tool recorded info: of the call", "group tool/group:all started",
		"branch tool/group:all/1 started", "log tool/group:all/1 recorded error: of the branch", "branch tool/group:all/1 completed", "group tool/group:all completed",
		"log recorded info: the owner's again", "tool_call tool completed")
}

func TestLogLineKeepsACopyOfItsMetadata(t *testing.T) {
	st, _ := run(t)
	m := map[string]any{"n": 1}
	st.Log(slog.LevelInfo, "line", m)
	m["n"] = 2
	equal(t, "metadata", st.Records()[1].Detail.Metadata["n"], any(1))
}

func TestLogLineOfAnAttemptThatIsOverIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		var late *state.ExecutionState
		out, err := call(ctx, actor(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
			late = state.From(ctx)
			return "out", nil
		}))
		completed(t, out, err)
		late.Log(slog.LevelInfo, "late", nil)
		equal(t, "lines", len(kinds(st, core.KindLog)), 0)
	})
}

func TestLogLineOfAFailedAttemptStays(t *testing.T) {
	st, ctx := run(t)
	_, err := call(ctx, actor(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
		state.From(ctx).Log(slog.LevelInfo, "before it failed", nil)
		return "", errBoom
	}))
	is(t, err, errBoom)
	equal(t, "lines", len(kinds(st, core.KindLog)), 1)
}

func TestNothingIsRecordedAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		published := 0
		st, ctx := run(t, state.WithPublisher(publish(func(core.Record) { published++ })))
		st.Close()
		st.Log(slog.LevelInfo, "late", nil)
		is(t, state.Put(ctx, "key", "late"), state.ErrClosed)
		is(t, state.PutStepResult(ctx, "key", "late"), state.ErrClosed)
		is(t, st.SetTimeout(time.Second), state.ErrClosed)
		equal(t, "interrupt", st.Interrupt(core.InterruptUser, "", ""), false)
		ran := false
		_, err := call(ctx, actor(t, "tool", once, func(context.Context, string) (string, error) { ran = true; return "out", nil }))
		is(t, err, state.ErrClosed)
		_, err = call(st.Context(t.Context()), actor(t, "tool", once, succeed))
		is(t, err, state.ErrClosed)
		equal(t, "ran", ran, false)
		told(t, st, "run started", "run completed")
		equal(t, "published", published, 2)
	})
}
