package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// Interrupt stops a run that is running; the dashboard calls it.
func (f *fleet) Interrupt(_ context.Context, runID, by, message string) error {
	f.mu.Lock()
	st := f.open[runID]
	f.mu.Unlock()
	if st == nil || !st.Interrupt(core.InterruptUser, message, cmp.Or(by, "dashboard")) {
		return fmt.Errorf("%w: run %s is not running", streamer.ErrConflict, runID)
	}
	return nil
}

// Answer answers a question of a run that waits, and lets the run go on.
func (f *fleet) Answer(ctx context.Context, runID, questionID string, value json.RawMessage) error {
	var answer any
	if err := json.Unmarshal(value, &answer); err != nil {
		return err
	}
	err := state.Answer(ctx, f.store, runID, questionID, answer)
	switch {
	case errors.Is(err, state.ErrNotAsked), errors.Is(err, snapshot.ErrNotFound):
		return streamer.ErrNotFound
	case errors.Is(err, state.ErrAnswered):
		return fmt.Errorf("%w: the question was answered before, and the first answer counts", streamer.ErrConflict)
	case errors.Is(err, snapshot.ErrLocked):
		return fmt.Errorf("%w: the run still works on something else; answer when it is paused", streamer.ErrConflict)
	case err != nil:
		return err
	}
	f.resume(runID)
	return nil
}
