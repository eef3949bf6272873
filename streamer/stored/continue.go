package stored

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

var _ streamer.Continuer = (*Control)(nil)

// Resume implements [streamer.Continuer]. A runner with the program of the run, in any
// process, continues it.
func (c *Control) Resume(ctx context.Context, runID string) error {
	return controlError(c.resume(ctx, runID))
}

// Retry implements [streamer.Continuer], see [state.Retry].
func (c *Control) Retry(ctx context.Context, runID string) error {
	return controlError(c.retry(ctx, runID))
}

// ResumeAll implements [streamer.Continuer].
func (c *Control) ResumeAll(ctx context.Context, choice streamer.Selection) ([]streamer.SelectedRun, error) {
	return SelectedRunsOf(SelectionOf(choice).Each(ctx, c.store, snapshot.StatusInterrupted, c.resume))
}

// RetryAll implements [streamer.Continuer].
func (c *Control) RetryAll(ctx context.Context, choice streamer.Selection) ([]streamer.SelectedRun, error) {
	return SelectedRunsOf(SelectionOf(choice).Each(ctx, c.store, snapshot.StatusFailed, c.retry))
}

func (c *Control) resume(ctx context.Context, runID string) error {
	_, err := state.Resume(ctx, c.store, runID)
	return err
}

func (c *Control) retry(ctx context.Context, runID string) error {
	_, err := state.Retry(ctx, c.store, runID)
	return err
}

// SelectionOf returns the selection of a sender as one of the runs of a store.
func SelectionOf(c streamer.Selection) state.Selection {
	return state.Selection{Status: snapshot.Status(c.Status), Reason: c.Reason, Program: c.Program, Since: c.Since, Sees: c.Sees}
}

// SelectedRunsOf returns the results for selected runs in the form in which they are sent.
// It returns state's error for an impossible selection as streamer.ErrInvalid.
func SelectedRunsOf(chosen []state.SelectedRun, err error) ([]streamer.SelectedRun, error) {
	if errors.Is(err, state.ErrSelection) {
		err = fmt.Errorf("%w: %s", streamer.ErrInvalid, strings.TrimPrefix(err.Error(), "state: "))
	}
	sent := make([]streamer.SelectedRun, len(chosen))
	for i, one := range chosen {
		sent[i].RunID = one.RunID
		if one.Err != nil {
			sent[i].Error = one.Err.Error()
		}
	}
	return sent, err
}
