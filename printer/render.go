package printer

import (
	"fmt"

	"github.com/reprise-go/reprise/record"
)

// maxCause is how much of an error is compared with that of the branch around
// its call.
const maxCause = 1 << 10

// render makes text of a record. It calls methods of the user's errors and
// values, so that the lock must not be held.
func (p *Printer) render(r *record.Record) rendered {
	t := text{look: &p.look, buf: make([]byte, 0, 160)}
	t.whole(r, p.previews)
	out := rendered{lines: t.buf}
	if !r.Kind.IsCall() {
		return out
	}
	if out.question = awaited(r); out.question != "" {
		again := text{look: &p.look, asked: true}
		again.whole(r, p.previews)
		out.again = again.buf
	}
	if r.Kind == record.KindGroup || p.compact && goesOn(r) {
		out.label = t.apart(func(t *text) { t.label(r) })
	}
	switch {
	case r.Err == nil:
	case r.Status == record.StatusRetrying && p.live:
		out.cause = t.apart(func(t *text) { t.message("", fmt.Sprint(r.Err)) })
	case r.Status == record.StatusFailed && r.Kind == record.KindBranch:
		out.cause = fmt.Sprint(r.Err)
	case r.Status == record.StatusFailed && !r.WillRetry:
		cause := fmt.Sprint(r.Err)
		out.cause = cause[:min(len(cause), maxCause)]
	}
	return out
}

// whole adds the lines of r, and the previews if they are wanted.
func (t *text) whole(r *record.Record, previews bool) {
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

// apart returns what add adds, on its own.
func (t *text) apart(add func(*text)) string {
	own := text{look: t.look}
	add(&own)
	return string(own.buf)
}
