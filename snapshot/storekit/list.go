package storekit

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// Page returns the page of all runs that the filter selects, for stores that have them in
// memory. It may reorder all.
func Page(f snapshot.Filter, all []snapshot.Info) (snapshot.Page, error) {
	slices.SortFunc(all, func(a, b snapshot.Info) int { return placeOf(&a).Compare(placeOf(&b)) })
	return PageOf(f, len(all), func(i int) Place { return placeOf(&all[i]) }, func(i int) (snapshot.Info, bool, bool) {
		return all[i], true, true
	})
}

// PageOf is like Page, for stores that have to read the infos. There are n runs; place
// returns the place of a run, in ascending order. look returns the info of a run and
// reports whether the run exists. If look reports that it reads no more, the page ends
// before that run.
func PageOf(f snapshot.Filter, n int, place func(i int) Place, look func(i int) (info snapshot.Info, there, more bool)) (snapshot.Page, error) {
	before, err := parsePlace(f.Before)
	if err != nil {
		return snapshot.Page{}, err
	}
	page, next := snapshot.Page{Runs: []snapshot.Info{}}, f.Before
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

// A Place is the position of a run in lists: the last updated run comes first.
type Place struct {
	Updated time.Time // zero if unknown
	RunID   string
}

func placeOf(i *snapshot.Info) Place { return Place{i.Updated, i.RunID} }

// Compare compares places in the order of lists.
func (p Place) Compare(q Place) int {
	return cmp.Or(q.Updated.Compare(p.Updated), cmp.Compare(p.RunID, q.RunID))
}

// text returns the text that parsePlace reads.
func (p Place) text() string {
	if p.Updated.IsZero() {
		return "0/" + p.RunID
	}
	return strconv.FormatInt(p.Updated.UnixNano(), 10) + "/" + p.RunID
}

// parsePlace reads the Next of a page: the place of the last run that was considered for
// the page.
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
