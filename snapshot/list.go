package snapshot

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"
)

// A Filter selects runs and determines the order in which they are listed. A run must meet all of
// the conditions that are set. The zero Filter selects all runs, most recently updated first.
type Filter struct {
	Status     []Status  // its status is one of these
	Tags       []string  // it has all of these tags
	Pipeline   string    // it belongs to this pipeline
	Program    string    // its program has this name
	Version    string    // its program has this version
	Parent     string    // it was forked from this run
	ErrorClass string    // its Summary.LastError has this class
	Text       string    // this occurs in its ID, its description, an open question or its last error, ignoring case
	Asking     bool      // it has an open question
	Since      time.Time // it was updated at this time or later
	Until      time.Time // it was updated before this time

	// DueBy, if not zero, excludes runs that cannot continue at that time: they wait for an answer
	// or for a later time, and have no waiting messages. A store may list some of these runs
	// anyway. Do not combine DueBy with Limit, Sort or Count.
	DueBy time.Time

	// Only, if not nil, reports whether to include the run with the given ID.
	Only func(runID string) bool

	Sort      Sort
	Ascending bool // list the lowest value first, not the highest

	// Count requests Page.Counts. To compute them, a store may have to read all runs.
	Count bool

	After string // Page.Next of a page in the same order, to list the page that follows it
	Limit int    // the maximum number of runs; 0 means no limit
}

// A Sort is the value by which a list is sorted. Runs with the same value are sorted by ID. Values
// come from the Info; for an open run, they are those of its last close.
type Sort string

// The values by which lists can be sorted.
const (
	SortUpdated  Sort = "" // when the run was last updated
	SortCreated  Sort = "created"
	SortEnded    Sort = "ended"    // when the run completed, failed or was cancelled; a run that has not ended has the lowest value
	SortDuration Sort = "duration" // from Created to Updated
	SortCost     Sort = "cost"
	SortTokens   Sort = "tokens" // input and output tokens
	SortRetries  Sort = "retries"
)

var sorts = []Sort{SortUpdated, SortCreated, SortEnded, SortDuration, SortCost, SortTokens, SortRetries}

// Value returns the value by which i is sorted.
func (s Sort) Value(i *Info) int64 {
	switch s {
	case SortCreated:
		return nanoseconds(i.Created)
	case SortEnded:
		if !i.Status.HasEnded() {
			return 0
		}
	case SortDuration:
		return int64(i.Updated.Sub(i.Created))
	case SortCost:
		return int64(math.Float64bits(max(i.Usage.Cost, 0))) //nolint:gosec // not negative, and in the same order
	case SortTokens:
		return int64(i.Usage.InputTokens) + int64(i.Usage.OutputTokens)
	case SortRetries:
		return int64(i.Summary.Retries)
	}
	return nanoseconds(i.Updated)
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// A Page is a part of a list. It may have fewer runs than Filter.Limit, or none, even if more pages
// follow, because a store may limit the number of runs that it examines for one page.
type Page struct {
	Runs []Info
	Next string // Filter.After for the next page; empty on the last page

	// Counts holds the number of runs by status, across all pages. It counts the runs that the
	// filter would select if Filter.Status were empty. It is nil unless Filter.Count is set.
	Counts map[Status]int
}

// Check returns ErrFilter if the filter is invalid.
func (f *Filter) Check() error {
	if !slices.Contains(sorts, f.Sort) {
		return fmt.Errorf("%w: Sort %.140q; want one of %q", ErrFilter, f.Sort, sorts[1:])
	}
	for _, s := range f.Status {
		if !slices.Contains(statuses, s) {
			return fmt.Errorf("%w: unknown Status %.140q; want one of %q", ErrFilter, s, statuses)
		}
	}
	return nil
}

// IsSorted reports whether f requests an order other than the default, which is most recently
// updated first.
func (f *Filter) IsSorted() bool { return f.Sort != SortUpdated || f.Ascending }

// Matches reports whether the filter selects a run. It ignores DueBy, After and Limit.
func (f *Filter) Matches(i *Info) bool {
	return (len(f.Status) == 0 || slices.Contains(f.Status, i.Status)) && f.matchesButStatus(i)
}

// Tally counts a run by its status if the filter selects the run, ignoring Status, DueBy, After and
// Limit.
func (f *Filter) Tally(i *Info, counts map[Status]int) {
	if f.matchesButStatus(i) {
		counts[i.Status]++
	}
}

// CountsAll reports whether [Filter.Tally] counts every run.
func (f *Filter) CountsAll() bool {
	return f.Pipeline == "" && f.Program == "" && f.Version == "" && f.Parent == "" && f.ErrorClass == "" && f.Text == "" &&
		len(f.Tags) == 0 && !f.Asking && f.Since.IsZero() && f.Until.IsZero() && f.Only == nil
}

func (f *Filter) matchesButStatus(i *Info) bool {
	switch {
	case f.Pipeline != "" && f.Pipeline != i.Metadata.Pipeline,
		f.Program != "" && f.Program != i.Program,
		f.Version != "" && f.Version != i.Version,
		f.Parent != "" && f.Parent != i.ParentID,
		f.ErrorClass != "" && (i.Summary.LastError == nil || f.ErrorClass != i.Summary.LastError.Class),
		f.Asking && i.Summary.Asking == 0,
		!f.Since.IsZero() && i.Updated.Before(f.Since),
		!f.Until.IsZero() && !i.Updated.Before(f.Until),
		f.Only != nil && !f.Only(i.RunID):
		return false
	}
	for _, tag := range f.Tags {
		if !slices.Contains(i.Metadata.Tags, tag) {
			return false
		}
	}
	return f.Text == "" || i.containsText(strings.ToLower(f.Text))
}

// containsText reports whether one of the fields that Filter.Text searches contains text, ignoring
// case. The text must be in lower case.
func (i *Info) containsText(text string) bool {
	in := func(where string) bool { return strings.Contains(strings.ToLower(where), text) }
	return in(i.RunID) || in(i.Metadata.Description) || i.Summary.LastError != nil && in(i.Summary.LastError.Message) ||
		slices.ContainsFunc(i.Summary.Questions, func(q OpenQuestion) bool { return in(q.Text) })
}

// Runs yields the runs that f selects, which it lists page by page. It yields at most f.Limit runs,
// or all of them if f.Limit is 0. It ends after an error.
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
			f.After = page.Next
			if f.Limit > 0 {
				f.Limit -= len(page.Runs)
			}
		}
	}
}
