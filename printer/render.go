package printer

import (
	"fmt"

	"github.com/reprise-go/reprise/record"
)

// maxCause is the maximum length, in bytes, of a call's error when it is compared with the error
// of the branch that contains the call.
const maxCause = 1 << 10

// render returns a record's text. It calls methods of the user's errors and
// values, so p.mu must not be held.
func (p *Printer) render(r *record.Record) rendered {
	t := text{theme: &p.theme, buf: make([]byte, 0, 160)}
	t.withPreviews(r, p.previews)
	out := rendered{lines: t.buf}
	if !r.Kind.IsCall() {
		return out
	}
	if out.question = awaitedQuestion(r); isRecalledFailure(r) {
		out.question = recalledFailure
	}
	if out.question != "" {
		again := func(asked questionState) []byte {
			t := text{theme: &p.theme, asked: asked}
			t.withPreviews(r, p.previews)
			return t.buf
		}
		out.repeat, out.answered = again(questionWritten), again(questionAnswered)
	}
	if r.Kind == record.KindGroup || p.compact && keepsRunning(r) {
		out.label = t.capture(func(t *text) { t.label(r) })
	}
	switch {
	case r.Err == nil:
	case r.Status == record.StatusRetrying && p.live:
		out.cause = t.capture(func(t *text) { t.message("", fmt.Sprint(r.Err)) })
	case r.Status == record.StatusFailed && r.Kind == record.KindBranch:
		out.cause = fmt.Sprint(r.Err)
	case r.Status == record.StatusFailed && !r.WillRetry:
		cause := fmt.Sprint(r.Err)
		out.cause = cause[:min(len(cause), maxCause)]
	}
	return out
}

// withPreviews adds the lines of r and, if previews is set, previews of its input and output.
func (t *text) withPreviews(r *record.Record, previews bool) {
	t.record(r)
	if previews && r.Detail != nil && len(t.buf) > 0 {
		t.previews(r)
	}
}

// record adds the lines of r.
func (t *text) record(r *record.Record) {
	switch {
	case r.Kind.IsCall():
		t.call(r)
	case r.Kind == record.KindRun:
		t.run(r)
	case r.Kind == record.KindLog:
		t.log(r)
	case r.Kind == record.KindQuestion:
		t.question(r)
	case r.Kind == record.KindAnswer:
		t.answer(r)
	default:
		t.value(r)
	}
}

// capture returns the text that add produces, without appending it to t.
func (t *text) capture(add func(*text)) string {
	own := text{theme: t.theme}
	add(&own)
	return string(own.buf)
}
