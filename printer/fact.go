package printer

import (
	"strings"

	"github.com/reprise-go/reprise/core"
)

// fact writes a value, a step result, and what the printer does not know.
func (t *text) fact(r *core.Record) {
	t.begin(inside(r.Address), mark{t.note, faint})
	kind := strings.ReplaceAll(r.Kind.String(), "_", " ")
	if kind == "" {
		kind = "record"
	}
	t.add(kind)
	t.message(" ", r.Name)
	t.state(r)
	t.finish(r)
}

func (t *text) previews(r *core.Record) {
	depth := r.Address.Depth()
	if !r.Kind.IsCall() {
		depth = inside(r.Address)
	}
	t.preview(depth, "input: ", core.Preview(r.Detail.Input))
	t.preview(depth, "output: ", core.Preview(r.Detail.Output))
	if r.Detail.Artifact != "" {
		t.preview(depth, "output: artifact ", r.Detail.Artifact)
	}
}

func (t *text) preview(depth int, before, preview string) {
	if preview == "" {
		return
	}
	t.beginBelow(depth, mark{t.note, faint})
	t.message(before, preview)
	t.end()
}
