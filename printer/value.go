package printer

import (
	"strings"

	"github.com/reprise-go/reprise/record"
)

// value writes the record of a value, or a record of an unknown kind.
func (t *text) value(r *record.Record) {
	t.begin(mark{t.note, faint})
	kind := strings.ReplaceAll(r.Kind.String(), "_", " ")
	if kind == "" {
		kind = "record"
	}
	t.add(kind)
	t.message(" ", r.Name)
	t.state(r)
	t.finish(r)
}

func (t *text) previews(r *record.Record) {
	t.preview("input: ", record.Preview(r.Detail.Input))
	t.preview("output: ", record.Preview(r.Detail.Output))
	if r.Detail.Artifact != "" {
		t.preview("output: artifact ", r.Detail.Artifact)
	}
}

func (t *text) preview(before, preview string) {
	if preview == "" {
		return
	}
	t.beginContinuation(mark{t.note, faint})
	t.message(before, preview)
	t.end()
}
