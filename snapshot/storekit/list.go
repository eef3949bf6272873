package storekit

import (
	"context"

	"github.com/reprise-go/reprise/snapshot"
)

// perPage is the maximum number of heads that a list reads at a time.
const perPage = 100

// List implements snapshot.Reader. It reads heads until the page is full. It reads all heads
// if f requests an order other than the default, or counts that the backend cannot compute.
func (s *Store) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	if err := context.Cause(ctx); err != nil {
		return snapshot.Page{}, err
	}
	if err := f.Check(); err != nil {
		return snapshot.Page{}, err
	}
	if f.IsSorted() {
		return s.pick(ctx, f)
	}
	var counts map[snapshot.Status]int
	if f.Count {
		var err error
		counts, err = Retry(ctx, func() (map[snapshot.Status]int, error) { return s.backend.Count(ctx, f) })
		if err != nil {
			return snapshot.Page{}, err
		} else if counts == nil {
			return s.pick(ctx, f)
		}
	}
	page, err := s.latest(ctx, f)
	page.Counts = counts
	return page, err
}

// latest returns a page of a list with the most recently updated run first.
func (s *Store) latest(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	place, err := parsePlace(f.After, &f)
	if err != nil {
		return snapshot.Page{}, err
	}
	page := snapshot.Page{Runs: []snapshot.Info{}, Next: f.After}
	n := perPage
	if f.Limit > 0 {
		n = min(f.Limit+1, perPage) // one more run, to know whether others follow
	}
	for ; ; n = min(2*n, perPage) {
		heads, err := Retry(ctx, func() ([]Head, error) { return s.backend.List(ctx, f, place, n) })
		if err != nil {
			return snapshot.Page{}, err
		}
		for _, h := range heads {
			info := h.reported().Info
			if f.Matches(&info) {
				if f.Limit > 0 && len(page.Runs) == f.Limit {
					return page, nil
				}
				page.Runs = append(page.Runs, info)
			}
			place = placeOf(&h.Info)
			page.Next = place.text()
		}
		if len(heads) < n {
			page.Next = ""
			return page, nil
		}
	}
}

// pick returns a page of a list in any order. It reads all heads.
func (s *Store) pick(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	p, err := NewPicker(f)
	if err != nil {
		return snapshot.Page{}, err
	}
	if f.Count { // runs of every status are counted
		f.Status = nil
	}
	for place := (Place{}); ; {
		heads, err := Retry(ctx, func() ([]Head, error) { return s.backend.List(ctx, f, place, perPage) })
		if err != nil {
			return snapshot.Page{}, err
		}
		for i := range heads {
			p.Add(heads[i].reported().Info)
			place = placeOf(&heads[i].Info)
		}
		if len(heads) < perPage {
			return p.Page(), nil
		}
	}
}
