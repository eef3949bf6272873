package state_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// inRun is a handler that passes on each line with the context of a run.
type inRun struct {
	slog.Handler
	ctx context.Context
}

func (h inRun) Handle(_ context.Context, r slog.Record) error { return h.Handler.Handle(h.ctx, r) }

func (h inRun) WithAttrs(attrs []slog.Attr) slog.Handler {
	return inRun{h.Handler.WithAttrs(attrs), h.ctx}
}

func (h inRun) WithGroup(name string) slog.Handler { return inRun{h.Handler.WithGroup(name), h.ctx} }

func TestLogHandlerKeepsTheRulesOfPackageSlog(t *testing.T) {
	var st *state.ExecutionState
	slogtest.Run(t, func(t *testing.T) slog.Handler {
		var ctx context.Context
		st, ctx = testkit.Run(t)
		return inRun{state.NewLogHandler(nil), ctx}
	}, func(t *testing.T) map[string]any {
		lines := kinds(t, st, record.KindLog)
		require.Len(t, lines, 1)
		line := map[string]any{slog.LevelKey: lines[0].Detail.Severity, slog.MessageKey: lines[0].Message()}
		if !strings.Contains(t.Name(), "zero-time") { // records always have a time
			line[slog.TimeKey] = lines[0].Time
		}
		for key, value := range lines[0].Detail.Metadata {
			line[key] = value
		}
		return line
	})
}

func TestLogHandlerRecordsTheAddressAndPassesLinesOn(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(state.NewLogHandler(slog.NewTextHandler(&out, nil)))
	log.Info("outside any run")
	st, ctx := testkit.Run(t)
	_, err := testkit.Call(ctx, testkit.Tool(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
		log.With("path", "a/b").InfoContext(ctx, "inside", slog.Group("size", slog.Int("bytes", 7)))
		log.DebugContext(ctx, "below the level of the next")
		return "out", nil
	}))
	require.NoError(t, err)
	lines := kinds(t, st, record.KindLog)
	require.Len(t, lines, 1)
	assert.Equal(t, "tool", lines[0].Address.String())
	assert.Equal(t, map[string]any{"path": "a/b", "size": map[string]any{"bytes": int64(7)}}, lines[0].Detail.Metadata)
	assert.Contains(t, out.String(), "outside any run")
	assert.Contains(t, out.String(), "inside")
}
