package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

// A logger logs what a service does. A logger with a nil slog.Logger logs nothing.
type logger struct {
	to     *slog.Logger
	redact func(text string) string // applied to the errors of runs; may be nil
}

func (l *logger) log(level slog.Level, message string, attrs ...slog.Attr) {
	if l.to != nil {
		l.to.LogAttrs(context.Background(), level, message, attrs...)
	}
}

func (l *logger) notReady(err error) {
	level := slog.LevelWarn
	if errors.Is(err, runner.ErrStopping) { // the service was asked to stop
		level = slog.LevelInfo
	}
	l.log(level, "not ready", slog.Any("error", err))
}

// stopping logs that the service was asked to stop, and how long the open runs may continue.
func (l *logger) stopping(open int, grace time.Duration) {
	l.log(slog.LevelInfo, "stopping", slog.Int("open", open), slog.String("grace", grace.String()))
}

// stopped logs that the service has stopped, and how long that took.
func (l *logger) stopped(took time.Duration) {
	l.log(slog.LevelInfo, "stopped", slog.String("took", took.Round(time.Millisecond).String()))
}

// left logs which runs were closed while their handlers were still running.
func (l *logger) left(err error) {
	l.log(slog.LevelWarn, "not all runs stopped", slog.Any("error", err))
}

// ofServer returns the log for an HTTP server, which logs errors caused by clients, such as failed
// TLS handshakes.
func (l *logger) ofServer() *log.Logger {
	if l.to == nil {
		return log.New(io.Discard, "", 0)
	}
	return slog.NewLogLogger(l.to.Handler(), slog.LevelWarn)
}

// notice logs a notice from the runner. The level is debug or info for normal events, and warn or
// error for problems.
func (l *logger) notice(n *runner.Notice) {
	level := levelOf(n)
	if l.to == nil || !l.to.Enabled(context.Background(), level) {
		return
	}
	var attrs []slog.Attr
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add("run", n.RunID)
	add("program", n.Program)
	add("version", n.Version)
	add("status", string(n.Status))
	add("reason", string(n.Stop.Reason))
	add("by", n.Stop.By)
	if n.Err == nil { // otherwise the error contains the message
		add("message", l.redacted(n.Stop.Message))
	}
	if n.Took > 0 {
		add("took", n.Took.Round(time.Microsecond).String()) // JSON would show nanoseconds without a unit
	}
	if n.Restarts > 0 {
		attrs = append(attrs, slog.Int("restarts", n.Restarts))
	}
	if n.Err != nil {
		add("error", l.text(n.Err))
	}
	l.log(level, "run "+verbOf(n), attrs...)
}

// verbOf returns the verb for what happened to a run.
func verbOf(n *runner.Notice) string {
	switch {
	case n.Type == runner.NoticeStarted && n.Status == snapshot.StatusQueued:
		return "queued"
	case n.Type == runner.NoticeOpened && n.Resumed:
		return "resumed"
	}
	return string(n.Type)
}

// text returns the redacted text of an error, whose Error method may panic.
func (l *logger) text(err error) string {
	return record.Truncate(l.redacted(fmt.Sprint(err)), record.MessageLimit) // redact first: a cut secret is not recognized
}

func (l *logger) redacted(text string) string {
	if l.redact == nil {
		return text
	}
	return l.redact(text)
}

// ownPanic returns the panic that ended a handler, or nil if there was none. A panic in a call made
// by the handler is inside a CallError, and was already logged for that call.
func ownPanic(err error) (own *core.PanicError) {
	defer func() {
		if recover() != nil { // a method of the error panicked
			own = nil
		}
	}()
	for ; err != nil; err = errors.Unwrap(err) {
		switch e := err.(type) { //nolint:errorlint // the loop stops at the first CallError
		case *core.PanicError:
			return e
		case *core.CallError:
			return nil
		}
	}
	return nil
}

// panics returns an interceptor that logs the stack of each panic in a handler at level error, because
// a record keeps only the text of the panic.
func (l *logger) panics() core.Interceptor {
	return core.Interceptor{Attempt: func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		err := next(ctx)
		if p := ownPanic(err); p != nil {
			l.log(slog.LevelError, "a handler panicked",
				slog.String("run", call.RunID), slog.String("call", call.Address.String()), slog.Int("attempt", call.Number),
				slog.String("error", l.text(p)), slog.String("stack", string(p.Stack)))
		}
		return err
	}}
}

func levelOf(n *runner.Notice) slog.Level {
	switch {
	case n.Type == runner.NoticeTrouble:
		return slog.LevelError
	case n.Type == runner.NoticeCrashed, n.Err != nil:
		return slog.LevelWarn
	case n.Type == runner.NoticeOpened && !n.Resumed: // this was logged when the run was queued
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
