package state

import (
	"context"
	"errors"

	"github.com/reprise-go/reprise/snapshot"
)

// A Caller is the run that has started another one and waits for it. It is sent a signal when the
// other run may have ended.
type Caller struct {
	RunID  string
	Signal string // the name of the signal
}

// The keys of a caller in Metadata.Custom.
const (
	callerKey       = "reprise.called_by"
	callerSignalKey = "reprise.called_signal"
)

// AddTo adds the caller to the metadata of the run that it calls.
func (c Caller) AddTo(m *Metadata) {
	custom := map[string]string{callerKey: c.RunID, callerSignalKey: c.Signal}
	for key, value := range m.Custom {
		custom[key] = value
	}
	m.Custom = custom
}

// CallerOf returns the caller of a run; ok is false if it has none.
func CallerOf(m *Metadata) (c Caller, ok bool) {
	c = Caller{m.Custom[callerKey], m.Custom[callerSignalKey]}
	return c, c.RunID != "" && c.Signal != ""
}

// Tell sends the signal with an ID, unless the caller has ended or was deleted.
func (c Caller) Tell(ctx context.Context, store snapshot.Store, id string) error {
	err := Signal(ctx, store, c.RunID, c.Signal, nil, SignalOptions{ID: id})
	if errors.Is(err, ErrEnded) || errors.Is(err, ErrCancelled) || errors.Is(err, snapshot.ErrNotFound) {
		return nil
	}
	return err
}

// tellCancelled tells the caller of a run that was cancelled.
func tellCancelled(ctx context.Context, store snapshot.Store, found *snapshot.Info) error {
	if c, ok := CallerOf(&found.Metadata); ok {
		return c.Tell(ctx, store, found.RunID+" was cancelled")
	}
	return nil
}
