package streamer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// filter selects the events that a client wants and may see.
type filter struct {
	scope    *Access
	kinds    []record.Kind
	statuses []record.Status
	only     map[string]bool // the runs whose events are wanted; nil for all
}

func parseFilter(kinds, statuses []string) (f filter, err error) {
	for _, name := range words(kinds) {
		var k record.Kind
		if k.UnmarshalText([]byte(name)) != nil {
			return f, fmt.Errorf("type %q is not known: want one of %s", name, allowed(record.KindTool, record.KindCompensation))
		}
		f.kinds = append(f.kinds, k)
	}
	for _, name := range words(statuses) {
		var s record.Status
		if s.UnmarshalText([]byte(name)) != nil {
			return f, fmt.Errorf("status %q is not known: want one of %s", name, allowed(record.StatusStarted, record.StatusCancelled))
		}
		f.statuses = append(f.statuses, s)
	}
	return f, nil
}

// words splits values at commas.
func words(values []string) (all []string) {
	for _, v := range values {
		for word := range strings.SplitSeq(v, ",") {
			if word = strings.TrimSpace(word); word != "" {
				all = append(all, word)
			}
		}
	}
	return all
}

// allowed lists the names from first to last.
func allowed[T interface {
	~uint8
	String() string
}](first, last T) string {
	var names []string
	for v := first; v <= last; v++ {
		names = append(names, v.String())
	}
	return strings.Join(names, ", ")
}

func (f *filter) picks(e *frame) bool {
	return (len(f.kinds) == 0 || slices.Contains(f.kinds, e.kind)) &&
		(len(f.statuses) == 0 || slices.Contains(f.statuses, e.status)) &&
		(f.only == nil || f.only[e.runID]) && f.scope.sees(e.runID)
}
