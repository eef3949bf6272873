package stored

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// Control controls the runs in a store: it answers their questions, sends them signals, interrupts
// runs that some process has open, and cancels, resumes, retries and forks runs. It implements
// [streamer.Control], [streamer.Continuer] and [streamer.Forker].
type Control struct{ store snapshot.Store }

// NewControl returns a Control for the runs in a store.
func NewControl(store snapshot.Store) *Control { return &Control{store} }

var _ streamer.Control = (*Control)(nil)

// Interrupt implements [streamer.Control].
func (c *Control) Interrupt(ctx context.Context, runID string, stop streamer.Stop) error {
	if err := state.Interrupt(ctx, c.store, runID, snapshot.Stop{By: stop.By, Message: stop.Message}); err != nil {
		return controlError(err)
	}
	return controlError(AwaitStop(ctx, c.store, runID))
}

// Cancel implements [streamer.Control].
func (c *Control) Cancel(ctx context.Context, runID string, stop streamer.Stop) error {
	if err := state.Cancel(ctx, c.store, runID, snapshot.Stop{By: stop.By, Message: stop.Message}); err != nil {
		return controlError(err)
	}
	return controlError(AwaitStop(ctx, c.store, runID))
}

// AwaitStop waits until a run that was asked to stop has stopped, but at most a second. If the
// request came too late, it returns the error from [state.AwaitStop]. It is not an error if the run
// takes longer than a second.
func AwaitStop(ctx context.Context, store snapshot.Store, runID string) error {
	waiting, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := state.AwaitStop(waiting, store, runID)
	return err
}

// Answer implements [streamer.Control].
func (c *Control) Answer(ctx context.Context, runID, questionID, by string, value json.RawMessage) error {
	v, err := state.JSONAnswer(value)
	if err != nil {
		return fmt.Errorf("%w: the answer cannot be read: %w", streamer.ErrInvalid, err)
	}
	if _, err := record.Encode(v); err != nil { // nested too deeply to be stored
		return fmt.Errorf("%w: the answer cannot be stored: %w", streamer.ErrInvalid, err)
	}
	return controlError(state.Answer(ctx, c.store, runID, questionID, by, v))
}

// Signal implements [streamer.Control].
func (c *Control) Signal(ctx context.Context, runID string, s streamer.Signal) error {
	value, err := state.JSONAnswer(s.Value)
	if err != nil {
		return fmt.Errorf("%w: the value cannot be read: %w", streamer.ErrInvalid, err)
	}
	return controlError(state.Signal(ctx, c.store, runID, s.Name, value, state.SignalOptions{ID: s.ID, By: s.By}))
}

// controlError translates an error from package state into an error of a [streamer.Control].
func controlError(err error) error {
	switch {
	case errors.Is(err, snapshot.ErrNotFound), errors.Is(err, state.ErrNotAsked):
		return fmt.Errorf("%w: %w", streamer.ErrNotFound, err)
	case errors.Is(err, state.ErrSignal):
		return fmt.Errorf("%w: %s", streamer.ErrInvalid, strings.TrimPrefix(err.Error(), "state: "))
	case errors.Is(err, state.ErrTooManySignals):
		return fmt.Errorf("%w: %s", streamer.ErrTooMany, strings.TrimPrefix(err.Error(), "state: "))
	case errors.Is(err, core.ErrUnfit):
		_, why, _ := strings.Cut(err.Error(), core.ErrUnfit.Error())
		return fmt.Errorf("%w: %w%s", streamer.ErrInvalid, core.ErrUnfit, why)
	case errors.Is(err, state.ErrAnswered), errors.Is(err, state.ErrNotRunning), errors.Is(err, state.ErrEnded), errors.Is(err, state.ErrNotFailed), errors.Is(err, state.ErrNotInterrupted), errors.Is(err, state.ErrNoProgram), errors.Is(err, state.ErrCancelled), errors.Is(err, snapshot.ErrLocked):
		return fmt.Errorf("%w: %s", streamer.ErrConflict, strings.TrimPrefix(err.Error(), "state: "))
	}
	return err
}
