package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// ErrSelection is wrapped by the error for a [Selection] that no run can match.
var ErrSelection = errors.New("invalid selection of runs")

// A Selection selects stored runs for a request. It considers only runs that were started by a
// runner and have the status that the request requires. Of these, it selects the runs that match
// all of its fields. The zero Selection selects all of them.
type Selection struct {
	Reason  string    // why the runs were interrupted, such as "divergence", or why they failed, such as "exhausted"; empty for every reason
	Program string    // name of the runs' program; empty for all programs
	Since   time.Time // updated at or after this time

	// Sees reports whether the run may be selected; nil means that all runs may be.
	Sees func(runID string) bool
}

// A SelectedRun is the result of a request for one run of a [Selection]. Err is nil if the request
// succeeded.
type SelectedRun struct {
	RunID string
	Err   error
}

// Each calls do for each selected run with the given status, most recently updated first, and
// returns the results. It continues after an error from do. If a run's records cannot be read, do
// is not called for the run, and its result contains the error. If no run with this status can ever
// have the selection's reason, Each returns [ErrSelection] without calling do.
func (c Selection) Each(ctx context.Context, store snapshot.Store, status snapshot.Status, do func(ctx context.Context, runID string) error) ([]SelectedRun, error) {
	if err := c.check(status); err != nil {
		return nil, err
	}
	var chosen []SelectedRun
	for info, err := range snapshot.Runs(ctx, store, snapshot.Filter{Status: []snapshot.Status{status}, Program: c.Program, Since: c.Since}) {
		if err != nil {
			return nil, fmt.Errorf("state: select runs: %w", err)
		}
		if info.Program == "" || c.Sees != nil && !c.Sees(info.RunID) {
			continue
		}
		matches, err := c.matches(ctx, store, &info)
		if errors.Is(err, snapshot.ErrNotFound) {
			continue // the run was deleted meanwhile
		}
		if matches || err != nil {
			chosen = append(chosen, SelectedRun{info.RunID, err})
		}
	}
	for i := range chosen {
		if ctx.Err() != nil {
			return chosen[:i], context.Cause(ctx)
		}
		if chosen[i].Err == nil {
			chosen[i].Err = do(ctx, chosen[i].RunID)
		}
	}
	return chosen, nil
}

func (c *Selection) check(status snapshot.Status) error {
	reasons := failureReasons()
	if status == snapshot.StatusFailed && c.Reason != "" && !slices.Contains(reasons, c.Reason) {
		return fmt.Errorf("state: %w: reason %q: runs fail for one of %s", ErrSelection, record.Truncate(c.Reason, 50), strings.Join(reasons, ", "))
	}
	return nil // programs may interrupt runs for their own reasons
}

// matches reports whether the run was interrupted, or failed, for the selection's reason. Only the
// records show why a run failed.
func (c *Selection) matches(ctx context.Context, store snapshot.Store, info *snapshot.Info) (bool, error) {
	switch {
	case c.Reason == "":
		return true, nil
	case info.Status != snapshot.StatusFailed:
		return string(info.Stop.Reason) == c.Reason, nil
	}
	_, last, err := lastRootCall(ctx, store, info.RunID)
	return err == nil && last != nil && last.Status == record.StatusFailed && last.Reason.String() == c.Reason, err
}

// failureReasons returns the names of the reasons why a call can fail for good.
func failureReasons() (names []string) {
	for r := record.ReasonPermanent; r < record.ReasonLost; r++ {
		names = append(names, r.String())
	}
	return names
}
