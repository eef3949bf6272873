package live

import (
	"context"
	"sync/atomic"

	"github.com/reprise-go/reprise/core"
)

type watchKey struct{}

// watcher holds a function passed to Watch or Divert, and the enclosing watcher, if any.
type watcher struct {
	watch  func(Delta)
	broken atomic.Bool
	outer  *watcher
}

// Watch returns a context whose calls, at any depth, pass to f what they produce while they run.
// Records and results are the same as without Watch, except that attempts of LLMs get the attribute
// first_token. A call that is recalled from restored history emits nothing.
//
// f is called on the goroutines of the calls, which wait for it, and several calls to f may be made
// at the same time: f must be safe for concurrent use, and fast. If f panics, it is not called
// again. Watching a context that is already watched adds f to the other functions.
func Watch(ctx context.Context, f func(Delta)) context.Context {
	if f == nil {
		return ctx
	}
	outer, _ := ctx.Value(watchKey{}).(*watcher)
	return context.WithValue(ctx, watchKey{}, &watcher{watch: f, outer: outer})
}

// Divert returns a context whose calls, at any depth, pass what they produce only to f: functions
// that watch ctx do not see it. Divert is for a handler that decides which of these deltas to show.
// To show a delta, the handler emits it as a delta of its own call, by calling [Emit] with its own
// context. f is called as [Watch] describes.
func Divert(ctx context.Context, f func(Delta)) context.Context {
	if f == nil {
		f = func(Delta) {}
	}
	return context.WithValue(ctx, watchKey{}, &watcher{watch: f})
}

// Emit passes d to every function that watches ctx. It sets the run, address and attempt of d to
// those of the attempt that ctx belongs to. After the attempt has ended, its deltas are dropped.
func Emit(ctx context.Context, d Delta) {
	if emit := Emitter(ctx); emit != nil {
		emit(d)
	}
}

// Emitter returns a function that does what [Emit] does for ctx, but faster. It
// returns nil if ctx is not watched.
func Emitter(ctx context.Context) func(Delta) {
	w, _ := ctx.Value(watchKey{}).(*watcher)
	if w == nil {
		return nil
	}
	s := core.ScopeOf(ctx)
	if s == nil {
		return w.emit
	}
	runID, address, attempt := s.RunID(), s.Address(), s.Attempt()
	return func(d Delta) {
		if s.Closed() {
			return
		}
		d.RunID, d.Address, d.Attempt = runID, address, attempt
		w.emit(d)
	}
}

func (w *watcher) emit(d Delta) {
	for ; w != nil; w = w.outer {
		w.show(d)
	}
}

func (w *watcher) show(d Delta) {
	if w.broken.Load() {
		return
	}
	defer func() {
		if recover() != nil {
			w.broken.Store(true)
		}
	}()
	w.watch(d)
}
