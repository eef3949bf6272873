package printer

import (
	"github.com/reprise-go/reprise/core"
)

// run writes the beginning or the end of a run.
func (t *text) run(r *core.Record) {
	symbol := t.at(r.Status)
	if r.Status == core.StatusStarted {
		symbol = t.of(r.Kind)
	}
	t.begin(0, symbol)
	t.runLabel(r)
	switch r.Status {
	case core.StatusCompleted:
		t.add(" [COMPLETED]")
	case core.StatusFailed:
		t.add(" [FAILED")
		if r.Reason != core.ReasonNone {
			t.add(": ", words(r.Reason))
		}
		t.add("]")
	case core.StatusInterrupted:
		t.add(" [INTERRUPTED]")
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
