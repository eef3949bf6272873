package state

import (
	"context"
	"log/slog"
	"slices"
)

// NewLogHandler returns a handler for package slog. It records each log line in the run to which
// the line's context belongs, with the address of the call that logged it, and with the line's
// attributes as metadata. Every line is also passed to next, including lines logged outside any
// run. next may be nil. A line is not recorded if its level is disabled in next; if next is nil,
// every line is recorded.
//
//	log := slog.New(state.NewLogHandler(slog.Default().Handler()))
//	log.InfoContext(ctx, "precondition holds", "path", path)
func NewLogHandler(next slog.Handler) slog.Handler { return &logHandler{next: next} }

// logHandler keeps the arguments of WithGroup and WithAttrs in the order of the calls.
type logHandler struct {
	next      slog.Handler // may be nil
	arguments []groupOrAttrs
}

// groupOrAttrs holds either the name of an opened group or attributes.
type groupOrAttrs struct {
	group string // empty for attributes
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next == nil || h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	next := h.next
	if next != nil {
		next = next.WithAttrs(attrs)
	}
	return &logHandler{next, append(slices.Clip(h.arguments), groupOrAttrs{attrs: attrs})}
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	next := h.next
	if next != nil {
		next = next.WithGroup(name)
	}
	return &logHandler{next, append(slices.Clip(h.arguments), groupOrAttrs{group: name})}
}

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, line slog.Record) error {
	From(ctx).Log(line.Level, line.Message, h.metadata(line))
	if h.next == nil {
		return nil
	}
	return h.next.Handle(ctx, line)
}

// metadata returns the line's attributes by key. The attributes of each group are in a map of their
// own.
func (h *logHandler) metadata(line slog.Record) map[string]any {
	var attrs []slog.Attr
	line.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	for _, g := range slices.Backward(h.arguments) {
		if g.group == "" {
			attrs = append(slices.Clip(g.attrs), attrs...)
		} else {
			attrs = []slog.Attr{{Key: g.group, Value: slog.GroupValue(attrs...)}}
		}
	}
	all := make(map[string]any, len(attrs))
	addAttrs(all, attrs)
	if len(all) == 0 {
		return nil
	}
	return all
}

func addAttrs(to map[string]any, attrs []slog.Attr) {
	for _, a := range attrs {
		value := a.Value.Resolve()
		switch {
		case a.Equal(slog.Attr{}): // package slog's handlers omit it, too
		case value.Kind() != slog.KindGroup:
			to[a.Key] = value.Any()
		case a.Key == "":
			addAttrs(to, value.Group())
		default:
			group := make(map[string]any)
			if addAttrs(group, value.Group()); len(group) > 0 {
				to[a.Key] = group
			}
		}
	}
}
