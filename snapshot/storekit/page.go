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

// A Picker picks the runs of a page, for a list in an order other than that of the store, and
// counts the runs on all pages. Add is called with all runs, in any order. The Picker keeps no more
// of them than the page can hold.
type Picker struct {
	filter snapshot.Filter
	after  position
	first  bool // the page is the first one
	picked pickedRuns
	more   bool
	counts map[snapshot.Status]int
}

// NewPicker returns a picker for the page that the filter describes. If the filter is invalid, the
// error is snapshot.ErrFilter.
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

// After returns the value and the ID of the last run of the previous page. It reports false for the
// first page.
func (p *Picker) After() (value int64, runID string, isAfter bool) {
	return p.after.value, p.after.runID, !p.first
}

// IsFull reports whether the page is full and further runs come after it.
func (p *Picker) IsFull() bool { return p.more }

// Add considers a run for the page. It keeps the Info if it picks the run.
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

// pickedRuns is a heap of runs, with the last in the list at the top.
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

// A position is where a run is in a list.
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

// orderOf returns the prefix of a position that names the order of its list; it is empty for the
// order of the last update.
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

// Page returns the page that the filter selects from all runs, for stores that have them in
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

// ReadPage is like Page, for stores that have to read each Info, and for lists with the last updated
// run first. There are n runs. place returns the place of run i; places must ascend. look returns
// the info of run i and whether the run exists; if more is false, the page ends before that run.
// ReadPage does not count.
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
	if f.CountsAll() && len(f.Status) == 0 { // an Info is large: the page should not be copied while it grows
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

// A Place is the position of a run in lists with the last updated run first.
type Place struct {
	Updated time.Time // zero if unknown
	RunID   string
}

func placeOf(i *snapshot.Info) Place { return Place{i.Updated, i.RunID} }

// Compare compares places in the order of lists.
func (p Place) Compare(q Place) int {
	return cmp.Or(q.Updated.Compare(p.Updated), cmp.Compare(p.RunID, q.RunID))
}

// text returns the place in the form that parsePlace reads.
func (p Place) text() string {
	at := position{runID: p.RunID}
	if !p.Updated.IsZero() {
		at.value = p.Updated.UnixNano()
	}
	return at.text(new(snapshot.Filter))
}

// parsePlace reads the Next of a page: the place of the last run that was considered for
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
