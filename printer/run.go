package printer

import (
	"strings"

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
		if r.Seq > 1 { // its description stands where it began
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
