package printer

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// A Log is a publisher that writes records to a [slog.Logger]. It is safe for concurrent use if the
// logger's handler is, which is the case for the handlers in package slog.
//
// The run's own log lines keep their message and severity. Other records have messages such as
// "tool call started". Their level depends on the record: a failed outcome has level Error; a
// failure that will be retried and an interruption have level Warn; completed calls, records of the
// run itself and questions have level Info; all other records have level Debug. The attributes have
// the same names as in the JSON form of a record: run_id, address, execution_status, original_error
// and so on. Durations are in seconds. The metadata are in the group "metadata". Inputs and outputs
// are left out.
type Log struct{ handler slog.Handler }

// NewLog returns a Log that writes to logger. If logger is nil, the Log writes to [slog.Default].
// The logger must not write to the log of the run whose records it receives.
func NewLog(logger *slog.Logger) *Log {
	if logger == nil {
		logger = slog.Default()
	}
	return &Log{logger.Handler()}
}

// Publish writes r with the time of r. Errors from the handler are ignored.
func (l *Log) Publish(r record.Record) {
	ctx, level := context.Background(), levelOf(&r)
	if !l.handler.Enabled(ctx, level) {
		return
	}
	line := slog.NewRecord(r.Time, level, messageOf(&r), 0)
	line.AddAttrs(attributes(&r)...)
	_ = l.handler.Handle(ctx, line)
}

func levelOf(r *record.Record) slog.Level {
	switch {
	case r.Kind == record.KindLog && r.Detail != nil:
		return r.Detail.Severity
	case r.Replayed:
		return slog.LevelDebug
	case r.Status == record.StatusFailed && !r.WillRetry:
		return slog.LevelError
	case r.Status == record.StatusFailed, r.Status == record.StatusInterrupted, r.Status == record.StatusCancelled:
		return slog.LevelWarn
	case r.Status == record.StatusCompleted, r.Kind == record.KindRun, r.Kind == record.KindQuestion, r.Kind == record.KindLog:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func messageOf(r *record.Record) string {
	if r.Kind == record.KindLog {
		return r.Message()
	}
	return strings.ReplaceAll(r.Kind.String(), "_", " ") + " " + r.Status.String()
}

func attributes(r *record.Record) []slog.Attr {
	attrs := make([]slog.Attr, 0, 12)
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	text("run_id", r.RunID)
	text("address", r.Address.String())
	text("name", r.Name)
	text("event_type", r.Kind.String())
	text("execution_status", r.Status.String())
	if r.Kind.IsCall() {
		attrs = append(attrs, slog.Int("retry_attempt", r.Attempt))
	}
	if r.WillRetry {
		attrs = append(attrs, slog.Bool("will_retry", true))
	}
	if r.Status == record.StatusRetrying {
		attrs = append(attrs, slog.Float64("retry_delay", r.Delay.Seconds()))
		text("delay_source", r.DelaySource.String())
	}
	if r.Duration > 0 {
		attrs = append(attrs, slog.Float64("execution_time", r.Duration.Seconds()))
	}
	if r.IsOutcome() {
		attrs = append(attrs, slog.Int("total_attempts", r.TotalAttempts()), slog.Float64("total_time", r.Elapsed.Seconds()))
	}
	if r.Reason != record.ReasonNone {
		text("reason", r.Reason.String())
	}
	text("stage", r.Stage.String())
	if r.Err != nil {
		if e := r.Interrupt(); e != nil {
			text("reason", string(e.Reason))
			text("interrupted_by", e.By)
		}
		text("original_error", fmt.Sprint(r.Err))
	}
	return append(attrs, details(r)...)
}

// details returns the attributes that only a few records have.
func details(r *record.Record) (attrs []slog.Attr) {
	d := r.Detail
	if d == nil {
		return nil
	}
	if d.By != "" {
		attrs = append(attrs, slog.String("answered_by", d.By))
	}
	if r.Kind != record.KindLog && d.Message != "" {
		attrs = append(attrs, slog.String("message", d.Message))
	}
	if d.Branches > 0 {
		attrs = append(attrs, slog.Int("branches", d.Branches))
	}
	if u := d.Usage; !u.IsZero() {
		attrs = append(attrs, slog.GroupAttrs("usage", usage(&u)...))
	}
	if len(d.Metadata) > 0 {
		metadata := make([]any, 0, len(d.Metadata))
		for _, key := range slices.Sorted(maps.Keys(d.Metadata)) {
			metadata = append(metadata, slog.Any(key, d.Metadata[key]))
		}
		attrs = append(attrs, slog.Group("metadata", metadata...))
	}
	return attrs
}

// usage returns the attributes that show what a call consumed. Optional token counts
// that are zero are left out.
func usage(u *record.Usage) []slog.Attr {
	attrs := []slog.Attr{
		slog.Int("input_tokens", u.InputTokens), slog.Int("output_tokens", u.OutputTokens), slog.Float64("cost", u.Cost),
	}
	for _, part := range [...]struct {
		name   string
		tokens int
	}{
		{"cached_input_tokens", u.CachedInputTokens}, {"cache_write_tokens", u.CacheWriteTokens}, {"reasoning_tokens", u.ReasoningTokens},
	} {
		if part.tokens != 0 {
			attrs = append(attrs, slog.Int(part.name, part.tokens))
		}
	}
	if u.Estimated {
		attrs = append(attrs, slog.Bool("estimated", true))
	}
	return attrs
}
