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

// left logs which runs were closed while their handlers were still running.
func (l *logger) left(err error) {
	l.log(slog.LevelWarn, "not all runs stopped", slog.Any("error", err))
}

// ofServer returns the log of an HTTP server, for errors of clients such as in a TLS handshake.
func (l *logger) ofServer() *log.Logger {
	if l.to == nil {
		return log.New(io.Discard, "", 0)
	}
	return slog.NewLogLogger(l.to.Handler(), slog.LevelWarn)
}

// notice logs a notice of the runner, at level debug or info if it is normal, and at level warn or
// error if it reports a problem.
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
	add("message", n.Stop.Message)
	if n.Took > 0 {
		attrs = append(attrs, slog.Duration("took", n.Took))
	}
	if n.Restarts > 0 {
		attrs = append(attrs, slog.Int("restarts", n.Restarts))
	}
	if n.Err != nil {
		add("error", n.Err.Error())
	}
	l.log(level, "run "+string(n.Type), attrs...)
}

func levelOf(n *runner.Notice) slog.Level {
	switch {
	case n.Type == runner.NoticeTrouble:
		return slog.LevelError
	case n.Type == runner.NoticeCrashed, n.Err != nil:
		return slog.LevelWarn
	case n.Type == runner.NoticeOpened:
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
