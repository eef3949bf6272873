package state

import (
	"context"
	"log/slog"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/snapshot"
)

// A Handle gives a handler access to the run that it is part of. The handler can log to the run and
// interrupt it, but has no access to the methods that are reserved for the run's owner.
//
// [From] returns a nil *Handle outside a run. The methods of a nil *Handle do nothing, so a handler
// can be tested without a run.
type Handle struct {
	run   *run
	scope *engine.Scope
}

// From returns the run that ctx belongs to, or nil if there is none.
func From(ctx context.Context) *Handle {
	s := engine.ScopeOf(ctx)
	if s == nil {
		return nil
	}
	r, ok := s.Run().(interface{ base() *run })
	if !ok {
		return nil
	}
	return &Handle{run: r.base(), scope: s}
}

// RunID returns the ID of the run; it is empty outside a run.
func (h *Handle) RunID() string {
	if h == nil {
		return ""
	}
	return h.run.settings.RunID
}

// Metadata returns the run's metadata. See [WithMetadata].
func (h *Handle) Metadata() snapshot.Metadata {
	if h == nil {
		return snapshot.Metadata{}
	}
	return h.run.config.metadata.Clone()
}

// Context returns a context for calls that belong to the attempt in which h was obtained. The calls
// are interrupted when that attempt ends or ctx is done. The context's resources are freed when the
// attempt ends.
func (h *Handle) Context(ctx context.Context) context.Context {
	if h == nil {
		return ctx
	}
	return h.scope.Context(ctx)
}

// Log records a line with the address of the call that logs it. metadata may be nil; it is copied.
// A line from an attempt that has ended is dropped. See [NewLogHandler] for package slog.
func (h *Handle) Log(severity slog.Level, message string, metadata map[string]any) {
	if h == nil {
		return
	}
	h.run.log(h.scope, severity, message, metadata)
}

// Interrupt interrupts the run, as [ExecutionState.Interrupt] does.
func (h *Handle) Interrupt(stop snapshot.Stop) bool {
	if h == nil {
		return false
	}
	return h.run.interrupt(interruptOf(stop))
}

// Interrupted returns the run's interrupt, or nil if there was none.
func (h *Handle) Interrupted() *core.InterruptedError {
	if h == nil {
		return nil
	}
	h.run.mu.Lock()
	defer h.run.mu.Unlock()
	return h.run.life.interrupted
}
