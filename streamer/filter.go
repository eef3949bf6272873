package streamer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// filter selects the events that a client wants and is allowed to see.
type filter struct {
	scope    *Access
	kinds    []record.Kind
	statuses []record.Status
	only     map[string]bool // the runs whose events are wanted; nil for all
}

func parseFilter(kinds, statuses []string) (f filter, err error) {
	for _, name := range splitCommas(kinds) {
		var k record.Kind
		if k.UnmarshalText([]byte(name)) != nil {
			return f, fmt.Errorf("unknown type %q; want one of %s", name, allowedNames(record.KindTool, record.KindCompensation))
		}
		f.kinds = append(f.kinds, k)
	}
	for _, name := range splitCommas(statuses) {
		var s record.Status
		if s.UnmarshalText([]byte(name)) != nil {
			return f, fmt.Errorf("unknown status %q; want one of %s", name, allowedNames(record.StatusStarted, record.StatusCancelled))
		}
		f.statuses = append(f.statuses, s)
	}
	return f, nil
}

// splitCommas splits values at commas.
func splitCommas(values []string) (all []string) {
	for _, v := range values {
		for word := range strings.SplitSeq(v, ",") {
			if word = strings.TrimSpace(word); word != "" {
				all = append(all, word)
			}
		}
	}
	return all
}

// allowedNames lists the names of the values from first to last.
func allowedNames[T interface {
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
