package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/waiting"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// A Control lets a streamer's handler start, stop and answer a runner's runs. It is safe for
// concurrent use.
type Control struct{ runner *runner.Runner }

// NewControl returns a control for the runs of r.
func NewControl(r *runner.Runner) *Control { return &Control{r} }

var (
	_ streamer.Control   = (*Control)(nil)
	_ streamer.Starter   = (*Control)(nil)
	_ streamer.Continuer = (*Control)(nil)
)

// Programs implements [streamer.Starter].
func (c *Control) Programs() []streamer.Program {
	var all []streamer.Program
	for _, d := range c.runner.Describe() {
		p := streamer.Program{Name: d.Name, Version: d.Version, Versions: d.Versions, Input: d.Input}
		for _, s := range d.Schedules {
			p.Schedules = append(p.Schedules, streamer.Schedule{Name: s.Name, When: s.When, Next: s.Next})
		}
		all = append(all, p)
	}
	return all
}

// Start implements [streamer.Starter].
func (c *Control) Start(ctx context.Context, s streamer.Start) (info streamer.RunInfo, isNew bool, err error) {
	if s.RunID != "" {
		if err := snapshot.CheckRunID(s.RunID); err != nil {
			return streamer.RunInfo{}, false, fmt.Errorf("%w: %s", streamer.ErrInvalid, errorText(err))
		}
	}
	if err := (&snapshot.Info{Status: snapshot.StatusQueued, Due: s.At}).Check(); err != nil {
		return streamer.RunInfo{}, false, fmt.Errorf("%w: at is %s; want a time from 1678 to 2261", streamer.ErrInvalid, s.At.Format(time.RFC3339))
	}
	started, isNew, err := c.runner.StartOrGet(ctx, s.Program, s.RunID, s.Input, runner.StartOptions{
		Version: s.Version, Priority: s.Priority, At: s.At, Pinned: s.Pinned, Principal: s.Principal,
		Metadata: snapshot.Metadata{Description: s.Description, Pipeline: s.Pipeline, Tags: s.Tags},
	})
	if err != nil {
		return streamer.RunInfo{}, false, convertError(err)
	}
	return streamer.RunInfo{RunID: started.RunID, Status: string(started.Status), Created: started.Created, Updated: started.Updated}, isNew, nil
}

// Resume implements [streamer.Continuer]. A run that was asked to stop does so only when its
// handlers return. Resume does not wait for this, but returns ErrConflict.
func (c *Control) Resume(ctx context.Context, runID string) error {
	info, err := c.runner.Info(ctx, runID)
	switch {
	case err == nil && info.Status == snapshot.StatusPaused:
		if why, err := waiting.Refusal(ctx, c.runner.Store(), runID); err != nil {
			return convertError(err)
		} else if why != "" {
			return fmt.Errorf("%w: %s", streamer.ErrConflict, why)
		}
		fallthrough
	case err != nil || !info.Open:
		return convertError(c.runner.Resume(ctx, runID))
	}
	if stop, err := c.runner.Stopping(ctx, runID); err == nil && stop != nil {
		request := "asked to stop"
		if stop.Reason == record.InterruptCancel {
			request = "cancelled"
		}
		return fmt.Errorf("%w: it was %s, and has not stopped yet", streamer.ErrConflict, request)
	}
	return convertError(c.runner.Resume(ctx, runID))
}

// Retry implements [streamer.Continuer].
func (c *Control) Retry(ctx context.Context, runID string) error {
	return convertError(c.runner.Retry(ctx, runID))
}

// ResumeAll implements [streamer.Continuer].
func (c *Control) ResumeAll(ctx context.Context, choice streamer.Selection) ([]streamer.SelectedRun, error) {
	return stored.ContinueAll(ctx, choice, snapshot.StatusInterrupted, c.runner.ResumeAll)
}

// RetryAll implements [streamer.Continuer].
func (c *Control) RetryAll(ctx context.Context, choice streamer.Selection) ([]streamer.SelectedRun, error) {
	return stored.ContinueAll(ctx, choice, snapshot.StatusFailed, c.runner.RetryAll)
}

// Result implements [streamer.Starter].
func (c *Control) Result(ctx context.Context, runID string) (streamer.Result, error) {
	output, err := c.runner.Result(ctx, runID)
	var (
		failed    *state.FailedError
		cancelled *state.CancelledError
	)
	switch {
	case err == nil:
		encoded, err := json.Marshal(output)
		return streamer.Result{RunID: runID, Status: string(snapshot.StatusCompleted), Output: encoded}, err
	case errors.As(err, &cancelled):
		return streamer.Result{RunID: runID, Status: string(snapshot.StatusCancelled), Error: cancelled.Error()}, nil
	case errors.Is(err, runner.ErrCrashLoop):
		return streamer.Result{RunID: runID, Status: string(snapshot.StatusInterrupted), Error: err.Error()}, nil
	case errors.As(err, &failed):
		return streamer.Result{RunID: runID, Status: string(snapshot.StatusFailed), Error: fmt.Sprintf("%v; to make the failed calls again: POST /api/runs/%s/retry", failed.Err, runID)}, nil
	}
	return streamer.Result{}, convertError(err)
}

// Interrupt implements [streamer.Control].
func (c *Control) Interrupt(ctx context.Context, runID string, stop streamer.Stop) error {
	if err := c.runner.Interrupt(ctx, runID, snapshot.Stop{By: stop.By, Message: stop.Message}); err != nil {
		return convertError(err)
	}
	return convertError(stored.AwaitStop(ctx, c.runner.Store(), runID))
}

// Cancel implements [streamer.Control].
func (c *Control) Cancel(ctx context.Context, runID string, stop streamer.Stop) error {
	if err := c.runner.Cancel(ctx, runID, snapshot.Stop{By: stop.By, Message: stop.Message}); err != nil {
		return convertError(err)
	}
	return convertError(stored.AwaitStop(ctx, c.runner.Store(), runID))
}

// Answer implements [streamer.Control].
func (c *Control) Answer(ctx context.Context, runID, questionID, by string, value json.RawMessage) error {
	v, err := state.JSONAnswer(value)
	if err != nil {
		return fmt.Errorf("%w: the answer cannot be read: %w", streamer.ErrInvalid, err)
	}
	if _, err := record.Encode(v); err != nil { // for example, because the value is nested too deeply
		return fmt.Errorf("%w: the answer cannot be stored: %w", streamer.ErrInvalid, err)
	}
	return convertError(c.runner.Answer(ctx, runID, questionID, by, v))
}

// Signal implements [streamer.Control].
func (c *Control) Signal(ctx context.Context, runID string, s streamer.Signal) error {
	value, err := state.JSONAnswer(s.Value)
	if err != nil {
		return fmt.Errorf("%w: the value cannot be read: %w", streamer.ErrInvalid, err)
	}
	return convertError(c.runner.Signal(ctx, runID, s.Name, value, state.SignalOptions{ID: s.ID, By: s.By}))
}

// Values implements [streamer.Starter].
func (c *Control) Values(ctx context.Context, runID string) (map[string]json.RawMessage, error) {
	values, err := state.Values(ctx, c.runner.Store(), runID)
	return values, convertError(err)
}

// convertError converts errors from a runner to errors that [streamer.Control] specifies.
func convertError(err error) error {
	kind := error(nil)
	switch {
	case isAny(err, runner.ErrNotRegistered, snapshot.ErrNotFound, state.ErrNotAsked):
		kind = streamer.ErrNotFound
	case isAny(err, runner.ErrInput, core.ErrUnfit, state.ErrSignal):
		kind = streamer.ErrInvalid
	case isAny(err, runner.ErrStarted, state.ErrNotFailed, state.ErrNotInterrupted, state.ErrNoProgram, state.ErrAnswered, state.ErrNotEnded, state.ErrNotRunning,
		state.ErrEnded, state.ErrCancelled, snapshot.ErrLocked):
		kind = streamer.ErrConflict
	case isAny(err, runner.ErrTooMany, state.ErrTooManySignals):
		kind = streamer.ErrTooMany
	case isAny(err, runner.ErrStopping):
		kind = streamer.ErrUnavailable
	case isAny(err, snapshot.ErrUnavailable): // the error's text may contain host names
		return fmt.Errorf("%w: the store cannot be reached", streamer.ErrUnavailable)
	default:
		return err
	}
	return fmt.Errorf("%w: %s", kind, errorText(err))
}

func isAny(err error, kinds ...error) bool {
	return slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
}

// errorText returns the text of an error without the name of its package.
func errorText(err error) string {
	s := err.Error()
	for _, prefix := range []string{"runner: ", "state: ", "snapshot: "} {
		s = strings.TrimPrefix(s, prefix)
	}
	return s
}
