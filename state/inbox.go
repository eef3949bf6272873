package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// inbox receives messages from other processes for an open run.
type inbox struct {
	run     *run
	keeper  *storeKeeper
	stop    context.CancelFunc
	wait    sync.WaitGroup
	failing bool
}

// listen handles the run's waiting messages, and then new messages until close.
func (r *run) listen(ctx context.Context, k *storeKeeper) {
	b := &inbox{run: r, keeper: k}
	ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx)) // the caller's context only applies to opening the run
	r.inbox = b
	ok := b.takeIn(ctx)
	b.wait.Go(func() { b.follow(ctx, ok) })
}

// After a failure, the inbox is read again after inboxDelay. The delay doubles with each further
// failure, up to maxInboxDelay.
const (
	inboxDelay    = time.Second
	maxInboxDelay = time.Minute
)

// follow handles the messages that arrive. The argument ok is false if the last takeIn failed.
func (b *inbox) follow(ctx context.Context, ok bool) {
	for delay := inboxDelay; ; {
		var again <-chan time.Time
		if !ok {
			again = time.After(delay)
		}
		select {
		case <-b.keeper.journal.Notify():
		case <-again:
			delay = min(2*delay, maxInboxDelay)
		case <-b.keeper.journal.Lost():
			b.run.loseLease(b.keeper)
			return
		case <-ctx.Done():
			return
		}
		if ok = b.takeIn(ctx); ok {
			delay = inboxDelay
		}
	}
}

// loseLease stops the run because another process may own it.
func (r *run) loseLease(k *storeKeeper) {
	err := fmt.Errorf("%w: %w", ErrStore, snapshot.ErrLease)
	k.lose(err)
	_ = r.stop(err)
}

// watchLease stops the run if its lease is lost before stop is called.
func (r *run) watchLease(k *storeKeeper) (stop func()) {
	stopped := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-k.journal.Lost():
			r.loseLease(k)
		case <-stopped:
		}
	})
	return func() { close(stopped); watching.Wait() }
}

// isLost reports whether err means that the run may belong to another process.
func isLost(err error) bool {
	return errors.Is(err, snapshot.ErrFenced) || errors.Is(err, snapshot.ErrMaybeStored) || errors.Is(err, snapshot.ErrLease)
}

// close stops listening. Later messages wait for the next opening. Closing a
// nil inbox does nothing.
func (b *inbox) close() {
	if b == nil {
		return
	}
	b.stop()
	b.wait.Wait()
}

// takeIn handles the waiting messages, and removes each when its effect is durable. If the process
// crashes before the removal, the next opening recognizes the message by its effect. If the store
// fails, takeIn returns false.
func (b *inbox) takeIn(ctx context.Context) (ok bool) {
	runID := b.run.settings.RunID
	waiting, err := b.keeper.store.Messages(ctx, runID)
	var done []string
	for i := range waiting {
		m := &waiting[i]
		if b.take(m) {
			done = append(done, m.ID())
		}
	}
	if len(done) > 0 {
		err = errors.Join(err, b.keeper.store.Remove(context.WithoutCancel(ctx), runID, done...))
	}
	b.report(ctx, err)
	return err == nil
}

// take handles a message. It reports whether the message can be removed: a cancel
// or an interrupt stays until the run is closed, so that it takes effect even if
// the process is killed before that.
func (b *inbox) take(m *snapshot.Message) bool {
	e := m.Record.Interrupt()
	switch {
	case m.IsSignal(): // a call receives it; here only a signal that was received before a crash is removed
		return b.run.isReceived(m)
	case e == nil:
		return b.run.takeAnswer(&m.Record)
	case m.IsCancel():
		b.run.interrupt(e)
		return false
	case m.Generation == b.keeper.generation:
		b.run.interrupt(&core.InterruptedError{Reason: record.InterruptUser, Message: e.Message, By: e.By})
		return false
	}
	return true // the message is for a generation that has ended
}

// report logs the first of several consecutive inbox failures. The run continues, and its inbox is read
// again later.
func (b *inbox) report(ctx context.Context, err error) {
	if err != nil && !b.failing && ctx.Err() == nil {
		b.run.log(nil, slog.LevelWarn, fmt.Sprint("the run's inbox failed; answers and interrupts from other processes may arrive late: ", err), nil)
	}
	b.failing = err != nil
}

// takeAnswer records an answer that was posted, unless the question already has
// one. It reports whether the message can be removed: an answer to a question
// that was not asked yet waits for the question.
func (r *run) takeAnswer(posted *record.Record) bool {
	r.mu.Lock()
	_, answered := r.questions.answers[posted.Name]
	asked := r.questions.asked[posted.Name].seq > 0
	r.mu.Unlock()
	if answered || !asked {
		return answered
	}
	rec := answerRecord(posted.Time, posted.Address, posted.Name, posted.AnsweredBy(), posted.Encoded())
	if r.Append(nil, rec) != nil {
		return false
	}
	r.mu.Lock()
	seq := uint64(r.keeper.len())
	r.mu.Unlock()
	if err := r.keeper.sync(seq); err != nil { // whatever the policy, since the message is removed next
		_ = r.stop(err)
		return false
	}
	return true
}
