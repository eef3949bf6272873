package printer

import (
	"errors"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// run writes that a run begins, is resumed or ends.
func (t *text) run(r *record.Record) {
	m := t.at(r.Status)
	if r.Status == record.StatusStarted {
		m = t.of(r.Kind)
	}
	t.begin(m)
	t.runLabel(r)
	switch r.Status {
	case record.StatusStarted:
		if r.Reason == record.ReasonRetry {
			t.tag("", "RETRIED")
		} else if r.Seq > 1 { // its description stands where it began
			t.tag("", "RESUMED")
		} else {
			t.state(r)
		}
		t.finish(r)
		return
	case record.StatusCompleted:
		t.tag(good, "COMPLETED")
	case record.StatusFailed:
		if r.Reason != record.ReasonNone {
			t.tag(bad, "FAILED: ", words(r.Reason))
		} else {
			t.tag(bad, "FAILED")
		}
	case record.StatusInterrupted, record.StatusCancelled:
		t.tag(paused, strings.ToUpper(r.Status.String()))
		t.interrupt(r)
		t.finish(r)
		t.wayOut(r)
		return
	default:
		t.state(r)
		t.finish(r)
		return
	}
	if took := max(r.Duration, r.Elapsed); took > 0 {
		t.add(" (", duration(took), ")")
	}
	t.usage(r)
	t.cause(r.Err)
	t.finish(r)
}

// wayOut writes what to do about a run that stopped because its program has changed.
func (t *text) wayOut(r *record.Record) {
	var d *core.DivergenceError
	if e := r.Interrupt(); e == nil || !errors.As(e.Cause, &d) {
		return
	}
	t.beginBelow(mark{t.note, faint})
	run, at := shellWord(r.RunID), shellWord(d.ForkAddress().String())
	switch {
	case d.ForkAddress().IsZero():
		t.add("use a new run ID for another input")
	case run == "" || at == "" || t.command == "":
		t.add("run the previous program, or fork the run")
	default:
		t.add("run the previous program, or fork the run: ")
		t.paint(faint, t.command, " fork ", run, " ", at, " NEW")
	}
	t.end()
}

// runLabel is "nightly (run 42)", or "run 42" without a name.
func (t *text) runLabel(r *record.Record) {
	before := len(t.buf)
	t.clean(r.Name, maxName)
	named := len(t.buf) > before
	switch {
	case named && r.RunID != "":
		t.name(" (run ", r.RunID, ")")
	case !named && r.RunID != "":
		t.name("run ", r.RunID, "")
	case !named:
		t.add("run")
	}
}
