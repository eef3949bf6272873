package service

import (
	"context"
	"io"
	"log"
	"log/slog"

	"github.com/reprise-go/reprise/runner"
)

// A logger writes what a service does. A nil slog.Logger writes nothing.
type logger struct{ to *slog.Logger }

func (l *logger) log(level slog.Level, message string, attrs ...slog.Attr) {
	if l.to != nil {
		l.to.LogAttrs(context.Background(), level, message, attrs...)
	}
}

func (l *logger) notReady(err error) { l.log(slog.LevelWarn, "not ready", slog.Any("error", err)) }

// ofServer returns the log of an HTTP server, for errors of clients such as in a TLS handshake.
func (l *logger) ofServer() *log.Logger {
	if l.to == nil {
		return log.New(io.Discard, "", 0)
	}
	return slog.NewLogLogger(l.to.Handler(), slog.LevelWarn)
}

// event logs an event of the runner: normal events with level debug or info, and errors with warn
// or error.
func (l *logger) event(e *runner.Event) {
	level := levelOf(e)
	if l.to == nil || !l.to.Enabled(context.Background(), level) {
		return
	}
	var attrs []slog.Attr
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add("run", e.RunID)
	add("program", e.Program)
	add("version", e.Version)
	add("status", string(e.Status))
	add("reason", string(e.Stop.Reason))
	add("by", e.Stop.By)
	add("message", e.Stop.Message)
	if e.Took > 0 {
		attrs = append(attrs, slog.Duration("took", e.Took))
	}
	if e.Restarts > 0 {
		attrs = append(attrs, slog.Int("restarts", e.Restarts))
	}
	if e.Err != nil {
		add("error", e.Err.Error())
	}
	l.log(level, "run "+string(e.Type), attrs...)
}

func levelOf(e *runner.Event) slog.Level {
	switch {
	case e.Type == runner.EventTrouble:
		return slog.LevelError
	case e.Type == runner.EventCrashed, e.Err != nil:
		return slog.LevelWarn
	case e.Type == runner.EventBegan:
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
