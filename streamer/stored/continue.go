package stored

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/internal/waiting"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

var _ streamer.Continuer = (*Control)(nil)

// Resume implements [streamer.Continuer]. The run is continued by a runner in any process that has
// the run's program.
func (c *Control) Resume(ctx context.Context, runID string) error {
	return controlError(c.resume(ctx, runID))
}

// Retry implements [streamer.Continuer]; see [state.Retry].
func (c *Control) Retry(ctx context.Context, runID string) error {
	return controlError(c.retry(ctx, runID))
}

// ResumeAll implements [streamer.Continuer].
func (c *Control) ResumeAll(ctx context.Context, choice streamer.Selection) ([]streamer.SelectedRun, error) {
	return c.continueAll(ctx, choice, snapshot.StatusInterrupted, c.resume)
}

// RetryAll implements [streamer.Continuer].
func (c *Control) RetryAll(ctx context.Context, choice streamer.Selection) ([]streamer.SelectedRun, error) {
	return c.continueAll(ctx, choice, snapshot.StatusFailed, c.retry)
}

func (c *Control) continueAll(ctx context.Context, choice streamer.Selection, status snapshot.Status, do func(ctx context.Context, runID string) error) ([]streamer.SelectedRun, error) {
	return ContinueAll(ctx, choice, status, func(ctx context.Context, selection state.Selection) ([]state.SelectedRun, error) {
		return selection.Each(ctx, c.store, status, do)
	})
}

func (c *Control) resume(ctx context.Context, runID string) error {
	info, err := state.Resume(ctx, c.store, runID)
	if err != nil || info.Status != snapshot.StatusPaused {
		return err
	}
	why, err := waiting.Refusal(ctx, c.store, runID)
	if err == nil && why != "" {
		err = fmt.Errorf("%w: %s", streamer.ErrConflict, why)
	}
	return err
}

func (c *Control) retry(ctx context.Context, runID string) error {
	_, err := state.Retry(ctx, c.store, runID)
	return err
}

// ContinueAll calls act with a sender's selection of runs that have the given status, and returns
// the results in the form in which they are sent. If the selection asks for another status, or is
// not possible, the error is [streamer.ErrInvalid].
func ContinueAll(ctx context.Context, c streamer.Selection, status snapshot.Status, act func(context.Context, state.Selection) ([]state.SelectedRun, error)) ([]streamer.SelectedRun, error) {
	if c.Status != "" && c.Status != string(status) {
		return nil, fmt.Errorf("%w: status is %q: want %s", streamer.ErrInvalid, record.Truncate(c.Status, 50), status)
	}
	chosen, err := act(ctx, state.Selection{Reason: c.Reason, Program: c.Program, Since: c.Since, Sees: c.Sees})
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
