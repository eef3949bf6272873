package printer

import (
	"github.com/reprise-go/reprise/core"
)

// run writes the beginning or the end of a run, or that it goes on.
func (t *text) run(r *core.Record) {
	m := t.at(r.Status)
	if r.Status == core.StatusStarted {
		m = t.of(r.Kind)
	}
	t.begin(0, m)
	t.runLabel(r)
	switch r.Status {
	case core.StatusStarted:
		if goesOn(r) {
			t.tag("", "RESUMED")
		} else {
			t.state(r)
		}
		t.finish(r)
		return
	case core.StatusCompleted:
		t.tag(good, "COMPLETED")
	case core.StatusFailed:
		if r.Reason != core.ReasonNone {
			t.tag(bad, "FAILED: ", words(r.Reason))
		} else {
			t.tag(bad, "FAILED")
		}
	case core.StatusInterrupted:
		t.tag(paused, "INTERRUPTED")
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

// goesOn reports whether r begins a run anew that has had records before: it
// was stopped, or its process ended. What a run is about is told with its first
// record.
func goesOn(r *core.Record) bool {
	return r.Kind == core.KindRun && r.Status == core.StatusStarted && r.Seq > 1
}

// runLabel is "nightly (run 42)", or "run 42" without a name.
func (t *text) runLabel(r *core.Record) {
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
