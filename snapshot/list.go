package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Filter picks runs. The zero Filter picks all.
type Filter struct {
	Status   []Status  // any of these
	Tags     []string  // all of these
	Pipeline string    // this one
	Program  string    // this one
	Since    time.Time // updated then or later
	Until    time.Time // updated before
	Before   string    // the Next of a page: what follows it
	Limit    int       // at most so many, 0 for all
}

// A Page is a part of a list. It may have fewer runs than Filter.Limit, even
// none, and others may follow: the work for a page is bounded, and who filters
// looks at runs that are not picked.
type Page struct {
	Runs []Info
	Next string // the Filter.Before of the next page; empty after the last
}

// Matches reports whether the filter picks a run. Before and Limit do not
// count.
func (f Filter) Matches(i *Info) bool {
	switch {
	case len(f.Status) > 0 && !slices.Contains(f.Status, i.Status):
		return false
	case f.Pipeline != "" && f.Pipeline != i.Metadata.Pipeline:
		return false
	case f.Program != "" && f.Program != i.Program:
		return false
	case !f.Since.IsZero() && i.Updated.Before(f.Since):
		return false
	case !f.Until.IsZero() && !i.Updated.Before(f.Until):
		return false
	}
	for _, tag := range f.Tags {
		if !slices.Contains(i.Metadata.Tags, tag) {
			return false
		}
	}
	return true
}

// Page returns the page that the filter picks of all runs, for stores that
// have them at hand. It may change the order of all.
func (f Filter) Page(all []Info) (Page, error) {
	slices.SortFunc(all, func(a, b Info) int { return a.place().Compare(b.place()) })
	return f.PageOf(len(all), func(i int) Place { return all[i].place() }, func(i int) (Info, bool, bool) { return all[i], true, true })
}

// PageOf is Page for stores that do not have all of what is known of a run at
// hand. There are n runs; place returns that of a run, in ascending order. look
// returns what is known of one, and reports whether it is there to be picked.
// When it reports that it looks at no more, the page ends before that run.
func (f Filter) PageOf(n int, place func(i int) Place, look func(i int) (info Info, there, more bool)) (Page, error) {
	before, err := parsePlace(f.Before)
	if err != nil {
		return Page{}, err
	}
	page, next := Page{Runs: []Info{}}, f.Before
	first := 0
	if f.Before != "" {
		first = sort.Search(n, func(i int) bool { return place(i).Compare(before) > 0 })
	}
	for i := first; i < n; i++ {
		info, there, more := look(i)
		picked := there && more && f.Matches(&info)
		if !more || picked && f.Limit > 0 && len(page.Runs) == f.Limit {
			page.Next = next
			break
		}
		if picked {
			page.Runs = append(page.Runs, info)
		}
		next = place(i).text()
	}
	return page, nil
}

// A Place is where a run is in lists: the last updated comes first.
type Place struct {
	Updated time.Time // zero if nothing is known of the run
	RunID   string
}

func (i *Info) place() Place { return Place{i.Updated, i.RunID} }

// Compare orders places as lists do.
func (p Place) Compare(q Place) int {
	return cmp.Or(q.Updated.Compare(p.Updated), cmp.Compare(p.RunID, q.RunID))
}

// text is what parsePlace reads.
func (p Place) text() string {
	if p.Updated.IsZero() {
		return "0/" + p.RunID
	}
	return strconv.FormatInt(p.Updated.UnixNano(), 10) + "/" + p.RunID
}

// parsePlace reads the Next of a page: the place of the last run that was
// looked at for it.
func parsePlace(text string) (Place, error) {
	if text == "" {
		return Place{}, nil
	}
	at, runID, ok := strings.Cut(text, "/")
	n, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return Place{}, fmt.Errorf("snapshot: list: Before %.140q; want the Next of a page", text)
	}
	p := Place{RunID: runID}
	if n != 0 {
		p.Updated = time.Unix(0, n)
	}
	return p, nil
}

// Runs yields the runs that f picks, page by page: at most f.Limit of them, all
// if that is 0. An error ends it.
func Runs(ctx context.Context, r Reader, f Filter) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for {
			page, err := r.List(ctx, f)
			if err != nil {
				yield(Info{}, err)
				return
			}
			for i := range page.Runs {
				if !yield(page.Runs[i], nil) {
					return
				}
			}
			isFull := f.Limit > 0 && len(page.Runs) >= f.Limit
			if page.Next == "" || isFull {
				return
			}
			f.Before = page.Next
			if f.Limit > 0 {
				f.Limit -= len(page.Runs)
			}
		}
	}
}
