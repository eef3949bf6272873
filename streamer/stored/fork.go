package stored

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

var _ streamer.Forker = (*Control)(nil)

// Fork implements [streamer.Forker].
func (c *Control) Fork(ctx context.Context, runID string, f streamer.Fork) error {
	options, err := forkOptions(f)
	if err != nil {
		return fmt.Errorf("%w: %w", streamer.ErrInvalid, err)
	}
	at, err := record.ParseAddress(f.Address)
	if err == nil {
		err = snapshot.CheckRunID(f.RunID)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", streamer.ErrInvalid, err)
	}
	switch err = state.Fork(ctx, c.store, runID, at, f.RunID, options); {
	case errors.Is(err, snapshot.ErrExists), errors.Is(err, state.ErrEffects), errors.Is(err, state.ErrCompensated):
		return fmt.Errorf("%w: %s", streamer.ErrConflict, effectsText(err))
	case errors.Is(err, snapshot.ErrNotFound), err == nil, errors.Is(err, core.ErrUnfit):
		return controlError(err)
	case errors.Is(err, snapshot.ErrUnavailable), errors.Is(err, snapshot.ErrCorrupt), ctx.Err() != nil:
		return err
	}
	return fmt.Errorf("%w: %s", streamer.ErrInvalid, strings.TrimPrefix(err.Error(), "state: "))
}

// effectsText returns the text of an error from state.Fork, with Go names replaced by the words
// that a sender uses in a request.
func effectsText(err error) string {
	return strings.NewReplacer("state: ", "", "ForkOptions.Effects", "effects", "TakeOverEffects", `"take_over"`, "RepeatEffects", `"repeat"`).Replace(err.Error())
}

func forkOptions(f streamer.Fork) (o state.ForkOptions, err error) {
	o.NewKeys, o.Outputs = f.NewKeys, make(map[string]any, len(f.Outputs))
	switch f.Effects {
	case "":
	case "take_over":
		o.Effects = state.TakeOverEffects
	case "repeat":
		o.Effects = state.RepeatEffects
	default:
		return o, fmt.Errorf(`effects is %q; want "take_over" or "repeat"`, record.Truncate(f.Effects, 50))
	}
	for key, text := range f.Outputs {
		if o.Outputs[key], err = state.JSONAnswer(text); err != nil {
			return o, fmt.Errorf("outputs: %s: %w", key, err)
		}
	}
	return o, nil
}
