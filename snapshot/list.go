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

// A Filter selects runs and determines the order in which they are listed. The zero Filter
// selects all runs, the last updated first.
type Filter struct {
	Status     []Status  // any of these
	Tags       []string  // all of these
	Pipeline   string    // of this pipeline
	Program    string    // with this program
	Version    string    // with this version of the program
	Parent     string    // forked from this run
	ErrorClass string    // of Summary.LastError
	Text       string    // occurs in the ID, the description, an open question or the last error, ignoring case
	Asking     bool      // a question is open
	Since      time.Time // updated at this time or later
	Until      time.Time // updated before this time

	// DueBy excludes runs that wait for an answer or a time after DueBy and have no waiting
	// messages: such runs cannot continue. A store may list some of them anyway. Use it without
	// Limit, Sort and Count. The zero Time excludes none.
	DueBy time.Time

	// Only selects runs by ID; nil selects all.
	Only func(runID string) bool

	Sort      Sort
	Ascending bool // lowest value first, instead of highest

	// Count requests Page.Counts. A store may have to read all runs for them.
	Count bool

	After string // Next of a page, to get the page that follows it in the same order
	Limit int    // the maximum number of runs, 0 for all
}

// A Sort is the value by which a list is sorted. Runs with the same value are sorted by ID.
// Values come from the Info; those of an open run are as of its last close.
type Sort string

// The orders of lists.
const (
	SortUpdated  Sort = "" // when the run was updated
	SortCreated  Sort = "created"
	SortEnded    Sort = "ended"    // when the run completed, failed or was cancelled; runs that have not ended are lowest
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

// A Page is a part of a list. It may have fewer runs than Filter.Limit, even none, although
// further pages follow: the work for a page is bounded, and runs that the filter does not select
// count towards it.
type Page struct {
	Runs []Info
	Next string // Filter.After for the next page; empty after the last page

	// Counts is the number of runs by status, on all pages, that the filter would select if
	// its Status were empty. It is nil without Filter.Count.
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

// IsSorted reports whether the list has an order other than the last updated first.
func (f *Filter) IsSorted() bool { return f.Sort != SortUpdated || f.Ascending }

// Matches reports whether the filter selects a run. It ignores DueBy, After and Limit.
func (f *Filter) Matches(i *Info) bool {
	return (len(f.Status) == 0 || slices.Contains(f.Status, i.Status)) && f.matchesButStatus(i)
}

// Tally adds a run to the counts of a page.
func (f *Filter) Tally(i *Info, counts map[Status]int) {
	if f.matchesButStatus(i) {
		counts[i.Status]++
	}
}

// CountsAll reports whether the filter selects all runs, apart from Status.
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

// containsText reports whether a searched field of a run contains a text, which is in lower case.
func (i *Info) containsText(text string) bool {
	in := func(where string) bool { return strings.Contains(strings.ToLower(where), text) }
	return in(i.RunID) || in(i.Metadata.Description) || i.Summary.LastError != nil && in(i.Summary.LastError.Message) ||
		slices.ContainsFunc(i.Summary.Questions, func(q OpenQuestion) bool { return in(q.Text) })
}

// Runs yields the runs that f selects, page by page, up to f.Limit runs or all if that is 0.
// It ends after an error.
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
