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

// Filter selects runs, and says in which order they are listed. The zero Filter selects
// all, the last updated first.
type Filter struct {
	Status     []Status  // any of these
	Tags       []string  // all of these
	Pipeline   string    // this one
	Program    string    // this one
	Version    string    // of the program
	Parent     string    // forked from this run
	ErrorClass string    // of Standing.LastError
	Text       string    // in the ID, the description, an open question or the last error; case does not matter
	Asking     bool      // somebody is asked
	Since      time.Time // updated then or later
	Until      time.Time // updated before

	// DueBy leaves out runs that wait for an answer or a later time, if no messages wait for
	// them: what is left may be able to continue. A store may list some of them. It is for
	// lists without Limit, Sort and Count; the zero Time leaves out none.
	DueBy time.Time

	// Only selects runs by their IDs; nil selects all.
	Only func(runID string) bool

	Sort      Sort
	Ascending bool // the lowest value first, instead of the highest

	// Count asks for Page.Counts, for which all runs are looked at.
	Count bool

	Before string // the Next of a page, for the page that follows it in the same order
	Limit  int    // the maximum number of runs, 0 for all
}

// Sort is what a list is sorted by; runs with the same value are listed by their IDs. The
// values are those of the Info: of a run that is open, as it was last closed.
type Sort string

// The orders of lists.
const (
	SortUpdated  Sort = "" // when the run was updated
	SortCreated  Sort = "created"
	SortEnded    Sort = "ended"    // when it was completed, failed or cancelled; runs that go on are the lowest
	SortDuration Sort = "duration" // from Created to Updated
	SortCost     Sort = "cost"
	SortTokens   Sort = "tokens" // of inputs and outputs
	SortRetries  Sort = "retries"
)

var sorts = []Sort{SortUpdated, SortCreated, SortEnded, SortDuration, SortCost, SortTokens, SortRetries}

// Value returns the number by which a list has the run.
func (s Sort) Value(i *Info) int64 {
	switch s {
	case SortCreated:
		return nanoseconds(i.Created)
	case SortEnded:
		if i.Status != StatusCompleted && i.Status != StatusFailed && i.Status != StatusCancelled {
			return 0
		}
	case SortDuration:
		return int64(i.Updated.Sub(i.Created))
	case SortCost:
		return int64(math.Float64bits(max(i.Usage.Cost, 0))) //nolint:gosec // not negative, and in the same order
	case SortTokens:
		return int64(i.Usage.InputTokens) + int64(i.Usage.OutputTokens)
	case SortRetries:
		return int64(i.Standing.Retries)
	}
	return nanoseconds(i.Updated)
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// A Page is a part of a list. It may have fewer runs than Filter.Limit, even none,
// and other pages may follow: the work for a page is bounded, and includes runs that the
// filter does not select.
type Page struct {
	Runs []Info
	Next string // the Filter.Before of the next page; empty after the last

	// Counts is the number of runs of each status that the filter would select without
	// Status, on all pages; nil without Filter.Count.
	Counts map[Status]int
}

// Check returns ErrFilter for a filter that no store understands.
func (f *Filter) Check() error {
	if !slices.Contains(sorts, f.Sort) {
		return fmt.Errorf("%w: Sort %.140q; want one of %q", ErrFilter, f.Sort, sorts[1:])
	}
	for _, s := range f.Status {
		if !slices.Contains(statuses, s) {
			return fmt.Errorf("%w: Status %.140q; want some of %q", ErrFilter, s, statuses)
		}
	}
	return nil
}

// IsSorted reports whether the list has another order than the last updated first.
func (f *Filter) IsSorted() bool { return f.Sort != SortUpdated || f.Ascending }

// Matches reports whether the filter selects a run. Before and Limit do not count.
func (f *Filter) Matches(i *Info) bool {
	return (len(f.Status) == 0 || slices.Contains(f.Status, i.Status)) && f.matchesButStatus(i)
}

// Tally adds a run to the counts of a page.
func (f *Filter) Tally(i *Info, counts map[Status]int) {
	if f.matchesButStatus(i) {
		counts[i.Status]++
	}
}

func (f *Filter) matchesButStatus(i *Info) bool {
	switch {
	case f.Pipeline != "" && f.Pipeline != i.Metadata.Pipeline,
		f.Program != "" && f.Program != i.Program,
		f.Version != "" && f.Version != i.Version,
		f.Parent != "" && f.Parent != i.ParentID,
		f.ErrorClass != "" && (i.Standing.LastError == nil || f.ErrorClass != i.Standing.LastError.Class),
		f.Asking && i.Standing.Asking == 0,
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
	return f.Text == "" || i.has(strings.ToLower(f.Text))
}

// has reports whether a text in lower case is in what is searched of a run.
func (i *Info) has(text string) bool {
	in := func(where string) bool { return strings.Contains(strings.ToLower(where), text) }
	return in(i.RunID) || in(i.Metadata.Description) || i.Standing.LastError != nil && in(i.Standing.LastError.Message) ||
		slices.ContainsFunc(i.Standing.Questions, func(q OpenQuestion) bool { return in(q.Text) })
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
