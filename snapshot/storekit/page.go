package storekit

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// A Picker selects the runs for a page of a list, and counts the runs on all pages. It is for stores
// that do not keep the runs in the order of the list. Add must be called with all runs, in any
// order. The Picker keeps no more of them than fit on the page.
type Picker struct {
	filter snapshot.Filter
	after  position
	first  bool // the page is the first one
	picked pickedRuns
	more   bool
	counts map[snapshot.Status]int
}

// NewPicker returns a Picker for the page that f describes. If f is invalid, the error is
// snapshot.ErrFilter.
func NewPicker(f snapshot.Filter) (*Picker, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	p := &Picker{filter: f, first: f.After == "", picked: pickedRuns{ascending: f.Ascending}}
	if f.Count {
		p.counts = make(map[snapshot.Status]int)
	}
	var err error
	if !p.first {
		p.after, err = parsePosition(f.After, &f)
	}
	return p, err
}

// After returns the value and the ID of the last run on the previous page. For the first page,
// isAfter is false.
func (p *Picker) After() (value int64, runID string, isAfter bool) {
	return p.after.value, p.after.runID, !p.first
}

// IsFull reports whether the page is full and more runs follow it.
func (p *Picker) IsFull() bool { return p.more }

// Add counts a run. If the run belongs on the page, the Picker keeps info.
func (p *Picker) Add(info snapshot.Info) {
	if p.counts != nil {
		p.filter.Tally(&info, p.counts)
	}
	if !p.filter.Matches(&info) {
		return
	}
	at := position{p.filter.Sort.Value(&info), info.RunID}
	if !p.first && at.compare(p.after, p.filter.Ascending) <= 0 {
		return
	}
	if p.filter.Limit == 0 || p.picked.Len() < p.filter.Limit {
		heap.Push(&p.picked, candidate{at, info})
		return
	}
	p.more = true
	if last := &p.picked.runs[0]; at.compare(last.at, p.filter.Ascending) < 0 {
		*last = candidate{at, info}
		heap.Fix(&p.picked, 0)
	}
}

// Page returns the page.
func (p *Picker) Page() snapshot.Page {
	page := snapshot.Page{Runs: []snapshot.Info{}, Counts: p.counts}
	slices.SortFunc(p.picked.runs, func(a, b candidate) int { return a.at.compare(b.at, p.filter.Ascending) })
	for i := range p.picked.runs {
		page.Runs = append(page.Runs, p.picked.runs[i].info)
	}
	if n := len(p.picked.runs); p.more && n > 0 {
		page.Next = p.picked.runs[n-1].at.text(&p.filter)
	}
	return page
}

type candidate struct {
	at   position
	info snapshot.Info
}

// pickedRuns is a heap of runs. The run that is last in the list is at the top.
type pickedRuns struct {
	runs      []candidate
	ascending bool
}

func (p *pickedRuns) Len() int           { return len(p.runs) }
func (p *pickedRuns) Less(i, j int) bool { return p.runs[i].at.compare(p.runs[j].at, p.ascending) > 0 }
func (p *pickedRuns) Swap(i, j int)      { p.runs[i], p.runs[j] = p.runs[j], p.runs[i] }
func (p *pickedRuns) Push(x any)         { p.runs = append(p.runs, x.(candidate)) } //nolint:forcetypeassert // Add pushes only candidates

func (p *pickedRuns) Pop() any {
	last := len(p.runs) - 1
	x := p.runs[last]
	p.runs[last] = candidate{}
	p.runs = p.runs[:last]
	return x
}

// A position is the position of a run in a list.
type position struct {
	value int64
	runID string
}

func (p position) compare(q position, ascending bool) int {
	byValue := cmp.Compare(q.value, p.value)
	if ascending {
		byValue = -byValue
	}
	return cmp.Or(byValue, cmp.Compare(p.runID, q.runID))
}

// orderOf returns the prefix of a position's text, which specifies the order of the list. The
// prefix is empty for the default order, which is most recently updated first.
func orderOf(f *snapshot.Filter) string {
	switch {
	case !f.IsSorted():
		return ""
	case f.Ascending:
		return string(f.Sort) + "+:"
	}
	return string(f.Sort) + "-:"
}

func (p position) text(f *snapshot.Filter) string {
	return orderOf(f) + strconv.FormatInt(p.value, 10) + "/" + p.runID
}

func parsePosition(text string, f *snapshot.Filter) (position, error) {
	rest, isOfOrder := strings.CutPrefix(text, orderOf(f))
	at, runID, ok := strings.Cut(rest, "/")
	value, err := strconv.ParseInt(at, 10, 64)
	if !ok || !isOfOrder || err != nil {
		return position{}, fmt.Errorf("%w: After %.140q; want the Next of a page in this order", snapshot.ErrFilter, text)
	}
	return position{value, runID}, nil
}

// Page returns the page that f describes, for stores that have the infos of all runs in
// memory.
func Page(f snapshot.Filter, all []snapshot.Info) (snapshot.Page, error) {
	p, err := NewPicker(f)
	if err != nil {
		return snapshot.Page{}, err
	}
	for i := range all {
		p.Add(all[i])
	}
	return p.Page(), nil
}

// ReadPage is like Page, but for stores that must read each Info, and only for lists with the most
// recently updated run first. There are n runs. The function place returns the place of run i, and
// places must be in ascending order. The function look returns the info of run i and whether the
// run exists; if more is false, the page ends before run i. ReadPage does not count runs.
func ReadPage(f snapshot.Filter, n int, place func(i int) Place, look func(i int) (info snapshot.Info, there, more bool)) (snapshot.Page, error) {
	after, err := parsePlace(f.After, &f)
	if err != nil {
		return snapshot.Page{}, err
	}
	first := 0
	if f.After != "" {
		first = sort.Search(n, func(i int) bool { return place(i).Compare(after) > 0 })
	}
	most := 0
	if f.CountsAll() && len(f.Status) == 0 { // an Info is large, so avoid copying the page while it grows
		most = n - first
	}
	if f.Limit > 0 {
		most = min(most, f.Limit)
	}
	page := snapshot.Page{Runs: make([]snapshot.Info, 0, most)}
	for i := first; i < n; i++ {
		info, there, more := look(i)
		picked := there && more && f.Matches(&info)
		if !more || picked && f.Limit > 0 && len(page.Runs) == f.Limit {
			if page.Next = f.After; i > first {
				page.Next = place(i - 1).text()
			}
			break
		}
		if picked {
			page.Runs = append(page.Runs, info)
		}
	}
	return page, nil
}

// A Place is the position of a run in lists with the most recently updated run first.
type Place struct {
	Updated time.Time // zero if unknown
	RunID   string
}

func placeOf(i *snapshot.Info) Place { return Place{i.Updated, i.RunID} }

// Compare compares two places. The result is negative if p comes before q in lists.
func (p Place) Compare(q Place) int {
	return cmp.Or(q.Updated.Compare(p.Updated), cmp.Compare(p.RunID, q.RunID))
}

// text returns the place in the form that parsePlace parses.
func (p Place) text() string {
	at := position{runID: p.RunID}
	if !p.Updated.IsZero() {
		at.value = p.Updated.UnixNano()
	}
	return at.text(new(snapshot.Filter))
}

// parsePlace parses the Next of a page, which is the place of the last run that was examined for
// the page.
func parsePlace(text string, f *snapshot.Filter) (Place, error) {
	if text == "" {
		return Place{}, nil
	}
	at, err := parsePosition(text, f)
	p := Place{RunID: at.runID}
	if at.value != 0 {
		p.Updated = time.Unix(0, at.value)
	}
	return p, err
}
