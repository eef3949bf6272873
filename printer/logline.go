package printer

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/record"
)

// log writes a log record: severity, logger, message, and metadata sorted by key.
func (t *text) log(r *record.Record) {
	detail := r.Detail
	if detail == nil {
		detail = new(record.Detail)
	}
	style := severityStyle(detail.Severity)
	t.begin(mark{t.note, style})
	t.paint(style, strings.ToUpper(detail.Severity.String()))
	t.message(" ", r.Name)
	if r.Name != "" && detail.Message != "" {
		t.add(":")
	}
	limit := maxMessage
	if detail.Severity >= slog.LevelWarn {
		limit = maxWarning
	}
	t.upTo(limit, " ", detail.Message)
	t.pairs(detail.Metadata, " ")
	t.cause(r.Err)
	t.finish(r)
}

func severityStyle(s slog.Level) style {
	switch {
	case s >= slog.LevelError:
		return bad
	case s >= slog.LevelWarn:
		return warning
	}
	return faint
}

// shortValue formats v briefly. Since v comes from the user, its methods may panic, and v may
// contain itself.
func shortValue(v any) (s string) {
	defer func() {
		if recover() != nil {
			s = fmt.Sprintf("(%T)", v)
		}
	}()
	switch v := v.(type) {
	case time.Time:
		return v.Format(time.RFC3339Nano)
	case error, fmt.Stringer:
		return quote(fmt.Sprint(v))
	}
	switch kind := reflect.ValueOf(v).Kind(); {
	case kind == reflect.String:
		return quote(reflect.ValueOf(v).String())
	case kind <= reflect.Complex128: // nil, a boolean, or a number
		return fmt.Sprint(v)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("(%T)", v)
	}
	return string(data)
}

// quote quotes s unless it is a single word.
func quote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\r\n\"=") {
		return s
	}
	return strconv.Quote(s[:min(len(s), 4*maxValue)]) // the caller truncates the result anyway
}
