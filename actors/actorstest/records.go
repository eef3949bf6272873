package actorstest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// Endings lists how the calls of a run ended, in order. Each line has the form
// "address status", followed by the number of attempts if there were several. A
// call that was suspended and continued later has a line for each suspension
// and a line for its end.
func Endings(records []record.Record) []string {
	var lines []string
	for i := range records {
		r := &records[i]
		if !r.Kind.IsCall() || !r.IsOutcome() && !r.IsSuspension() {
			continue
		}
		line := fmt.Sprintf("%s %s", r.Address, r.Status)
		if r.Attempt > 0 {
			line += fmt.Sprintf(" after %d attempts", r.Attempt+1)
		}
		lines = append(lines, line)
	}
	return lines
}

// CheckCalls reports an error to t unless the calls of a run ended as listed in want. The order
// does not matter, since parallel calls can end in any order. Each line has the form described in
// [Endings].
func CheckCalls(t T, records []record.Record, want ...string) {
	t.Helper()
	got, want := Endings(records), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("actorstest: the calls ended differently:\ngot\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// Usage returns the total usage of all attempts in a run, according to the records: the usage of
// models, and the usage added by tools and steps.
func Usage(records []record.Record) core.Usage {
	var l record.Ledger
	for i := range records {
		l.Add(&records[i])
	}
	return l.Counts().Usage
}
