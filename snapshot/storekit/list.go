package storekit

import (
	"context"

	"github.com/reprise-go/reprise/snapshot"
)

// perPage is how many heads a list reads at a time.
const perPage = 100

// List implements snapshot.Reader. It reads heads until the page is full. To sort in
// another order than the last updated first, or to count runs, it reads all heads.
func (s *Store) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	if err := context.Cause(ctx); err != nil {
		return snapshot.Page{}, err
	}
	if f.IsSorted() || f.Count {
		return s.pick(ctx, f)
	}
	if err := f.Check(); err != nil {
		return snapshot.Page{}, err
	}
	place, err := parsePlace(f.Before, &f)
	if err != nil {
		return snapshot.Page{}, err
	}
	page := snapshot.Page{Runs: []snapshot.Info{}, Next: f.Before}
	for {
		heads, err := Again(ctx, func() ([]Head, error) { return s.backend.List(ctx, f, place, perPage) })
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
		if len(heads) < perPage {
			page.Next = ""
			return page, nil
		}
	}
}

// pick reads all heads, and keeps those of the page.
func (s *Store) pick(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	p, err := NewPicker(f)
	if err != nil {
		return snapshot.Page{}, err
	}
	if f.Count { // runs of every status are counted
		f.Status = nil
	}
	for place := (Place{}); ; {
		heads, err := Again(ctx, func() ([]Head, error) { return s.backend.List(ctx, f, place, perPage) })
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
