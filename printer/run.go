package printer

import (
	"errors"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// run writes the record of a run that begins, is resumed or ends.
func (t *text) run(r *record.Record) {
	m := t.statusMark(r.Status)
	if r.Status == record.StatusStarted {
		m = t.kindMark(r.Kind)
	}
	t.begin(m)
	t.runLabel(r)
	switch r.Status {
	case record.StatusStarted:
		if r.Reason == record.ReasonRetry {
			t.tag("", "RETRIED")
		} else if r.Generation > 1 || r.Generation == 0 && r.Seq > 1 { // the description was written when the run began
			t.tag("", "RESUMED")
		} else {
			t.state(r)
		}
		t.finish(r)
		return
	case record.StatusCompleted:
		t.tag(good, "COMPLETED")
	case record.StatusFailed:
		if r.Reason != record.ReasonNone && r.Reason != record.ReasonExhausted { // the call's own line shows that all attempts were made
			t.tag(bad, "FAILED: ", words(r.Reason))
		} else {
			t.tag(bad, "FAILED")
		}
	case record.StatusInterrupted, record.StatusCancelled:
		t.tag(paused, strings.ToUpper(r.Status.String()))
		t.interrupt(r)
		t.finish(r)
		t.divergenceHint(r)
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

// divergenceHint writes what can be done about a run that stopped because its program has changed.
func (t *text) divergenceHint(r *record.Record) {
	var d *core.DivergenceError
	if e := r.Interrupt(); e == nil || !errors.As(e.Cause, &d) {
		return
	}
	t.beginContinuation(mark{t.note, faint})
	run, address := shellWord(r.RunID), shellWord(d.ForkAddress().String())
	switch {
	case d.ForkAddress().IsZero():
		t.add("use a new run ID for another input")
	case run == "" || address == "" || t.command == "":
		t.add("run the previous program, or fork the run")
	default:
		t.add("run the previous program, or fork the run: ")
		t.paint(faint, t.command, " fork ", run, " ", address, " NEW")
		t.end()
		t.beginContinuation(mark{t.note, faint})
		t.add("if calls after the given one have had effects, the command lists them and the flags that decide how to handle them")
	}
	t.end()
}

// runLabel adds the name of a run, as in "nightly (run 42)", or "run 42" if the run has no name.
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
