package snapshot

import (
	"context"
	"iter"
	"slices"
	"time"
)

// Filter selects runs. The zero Filter selects all.
type Filter struct {
	Status   []Status  // any of these
	Tags     []string  // all of these
	Pipeline string    // this one
	Program  string    // this one
	Since    time.Time // updated then or later
	Until    time.Time // updated before
	Before   string    // the Next of a page, for the page that follows it
	Limit    int       // the maximum number of runs, 0 for all
}

// A Page is a part of a list. It may have fewer runs than Filter.Limit, even none,
// and other pages may follow: the work for a page is bounded, and includes runs that the
// filter does not select.
type Page struct {
	Runs []Info
	Next string // the Filter.Before of the next page; empty after the last
}

// Matches reports whether the filter selects a run. Before and Limit do not count.
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
