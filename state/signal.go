package state

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// ErrTooManySignals is wrapped by the error from [Signal] if too many signals are already waiting
// in the run.
var ErrTooManySignals = errors.New("too many signals wait")

const (
	maxSignals     = 1000    // number of signals that may wait in one run
	maxSignalValue = 1 << 20 // maximum size of an encoded value, in bytes
	maxSignalID    = 256     // bytes

	ownSignals = "run." // the name prefix of signals from called runs; these signals are not counted
)

// SignalOptions specify who sends a signal and how duplicates are recognized. The zero value is
// ready to use.
type SignalOptions struct {
	// ID identifies the signal within its run. Of several signals with the same ID, only the first
	// counts; the others are accepted but have no effect. A sender that may send a signal twice,
	// such as a webhook, should set ID. It may have at most 256 bytes. Defaults to a random ID.
	ID string

	By string // who sends the signal; may be empty
}

// Signal sends a signal to a stored run, from any process. A signal is a value that the run did not
// ask for, such as news about an outside event. When Signal returns, the signal is durable. It is
// kept until a call in the run receives it by passing its name to [core.Receive]. Signals with the
// same name are received in the order in which they were sent, provided that each was sent after
// Signal returned for the previous one.
//
// The name must consist of 1 to 64 letters, digits, dots, dashes and underscores. The value can be
// anything that can be recorded, up to an encoded size of 1 MB. If the run has ended, the error is
// [ErrEnded]; if it was cancelled, [ErrCancelled]; and if 1,000 signals are already waiting,
// [ErrTooManySignals].
func Signal(ctx context.Context, store snapshot.Store, runID, name string, value any, o SignalOptions) error {
	if err := checkStore(store); err != nil {
		return err
	}
	if err := signal(ctx, store, runID, name, value, o); err != nil {
		return fmt.Errorf("state: signal %q to run %s: %w", record.Truncate(name, engine.MaxSignalName), runID, err)
	}
	return nil
}

// ErrSignal is wrapped by the error from [Signal] if no signal can have the given name, ID or
// value.
var ErrSignal = errors.New("it cannot be sent")

func signal(ctx context.Context, store snapshot.Store, runID, name string, value any, o SignalOptions) error {
	m, err := signalMessage(name, value, o)
	if err != nil {
		return err
	}
	found, err := store.Load(ctx, runID)
	if err != nil {
		return err
	}
	if err := refuseEnded(&found.Info); err != nil {
		return err
	}
	if isThere, err := wasReceived(found, m.Record.Detail.Signal); err != nil || isThere {
		return err
	}
	waiting, err := store.Messages(ctx, runID)
	if err != nil {
		return err
	}
	if err := queueBehind(&m, waiting); err != nil {
		return err
	}
	if err := store.Post(ctx, runID, m); errors.Is(err, snapshot.ErrPosted) {
		return nil // the same signal
	} else if err != nil {
		return err
	}
	return settleSignal(ctx, store, runID, &m)
}

func signalMessage(name string, value any, o SignalOptions) (snapshot.Message, error) {
	switch {
	case !engine.IsSignalName(name):
		return snapshot.Message{}, fmt.Errorf("%w: want a name of 1 to %d letters, digits, dots, dashes and underscores", ErrSignal, engine.MaxSignalName)
	case len(o.ID) > maxSignalID:
		return snapshot.Message{}, fmt.Errorf("%w: the ID has %d bytes; want at most %d", ErrSignal, len(o.ID), maxSignalID)
	}
	encoded, err := record.Encode(value)
	if err != nil {
		return snapshot.Message{}, fmt.Errorf("%w: %w", ErrSignal, err)
	}
	if len(encoded) > maxSignalValue {
		return snapshot.Message{}, fmt.Errorf("%w: the value has %d bytes; want at most %d", ErrSignal, len(encoded), maxSignalValue)
	}
	if o.ID == "" {
		o.ID = strings.ToLower(rand.Text())
	}
	return snapshot.Message{Record: record.Record{
		Time: now(), Name: name, Kind: record.KindAnswer, Status: record.StatusRecorded,
		Detail: &record.Detail{Output: encoded, By: o.By, Signal: o.ID},
	}}, nil
}

// refuseEnded returns an error if the run has ended.
func refuseEnded(i *snapshot.Info) error {
	switch i.Status {
	case snapshot.StatusCancelled:
		return cancelledError(i.RunID, i.Stop)
	case snapshot.StatusCompleted, snapshot.StatusFailed:
		return fmt.Errorf("%w: it is %s", ErrEnded, i.Status)
	}
	return nil
}

// wasReceived reports whether a call has received the signal with the given ID.
func wasReceived(found *snapshot.Run, id string) (bool, error) {
	for rec, err := range found.Records() {
		if err != nil {
			return false, err
		}
		if rec.Kind == record.KindAnswer && rec.Detail != nil && rec.Detail.Signal == id {
			return true, nil
		}
	}
	return false, nil
}

// queueBehind gives m a later time than that of any waiting signal. Messages are ordered by their
// times, but clocks differ and are adjusted.
func queueBehind(m *snapshot.Message, waiting []snapshot.Message) error {
	n := 0
	for i := range waiting {
		if !waiting[i].IsSignal() {
			continue
		}
		if !strings.HasPrefix(waiting[i].Record.Name, ownSignals) {
			n++
		}
		if last := waiting[i].Record.Time; !m.Record.Time.After(last) {
			m.Record.Time = last.Add(time.Nanosecond)
		}
	}
	if n >= maxSignals && !strings.HasPrefix(m.Record.Name, ownSignals) {
		return fmt.Errorf("%w: %d of at most %d; the run has received none of them", ErrTooManySignals, n, maxSignals)
	}
	return nil
}

// settleSignal removes a signal that arrived too late, that is, after the run had ended without
// receiving it.
func settleSignal(ctx context.Context, store snapshot.Store, runID string, m *snapshot.Message) error {
	found, err := store.Info(ctx, runID)
	if err != nil {
		return fmt.Errorf("it was posted, but it is not known whether the run had already ended: %w", err)
	}
	late := refuseEnded(&found)
	if late == nil {
		return nil
	}
	posted, err := isPosted(ctx, store, runID, m)
	if err != nil || !posted {
		return err // the signal was received
	}
	return errors.Join(late, store.Remove(ctx, runID, m.ID()))
}

// signals holds the signals that the run's calls have received. taken and byQuestion are guarded by
// the run's mu.
type signals struct {
	receiving  sync.Mutex               // held while a signal is received, so that only one call receives it
	taken      map[string]bool          // by ID
	byQuestion map[string]record.Record // answers made from signals, by question ID
}

// take records that the signal which became the given answer was received. If the answer was not
// made from a signal, take does nothing.
func (s *signals) take(answer *record.Record) {
	if answer.Detail == nil || answer.Detail.Signal == "" {
		return
	}
	if s.taken == nil {
		s.taken, s.byQuestion = make(map[string]bool), make(map[string]record.Record)
	}
	s.taken[answer.Detail.Signal] = true
	s.byQuestion[answer.Name] = *answer
}

func (r *run) isReceived(m *snapshot.Message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.questions.signals.taken[m.Record.Detail.Signal]
}

// receive gives a call the first signal with the name that the call waits for, as the answer to the
// call's question. It removes the signal from the inbox once the answer is durable. Only a call
// that is waiting now takes a signal, because a call that asked in an earlier opening might never
// be made again. A call that is made again after a failure receives the same signal.
func (r *run) receive(s *engine.Scope, q engine.Question, recorded bool) (engine.Asked, error) {
	k, ok := r.keeper.(*storeKeeper)
	if !ok {
		return r.waitFor(q.ID, recorded), nil
	}
	r.questions.signals.receiving.Lock()
	defer r.questions.signals.receiving.Unlock()
	r.mu.Lock()
	before, again := r.questions.signals.byQuestion[q.ID]
	r.mu.Unlock()
	if again {
		return r.takeSignal(k, s, q, recorded, &before, "")
	}
	waiting, err := k.store.Messages(context.Background(), r.settings.RunID)
	if err != nil { // the call receives the signal when the run is next opened
		r.log(nil, slog.LevelWarn, fmt.Sprint("the run's inbox cannot be read; signals may arrive late: ", err), nil)
	}
	i := slices.IndexFunc(waiting, func(m snapshot.Message) bool {
		return m.IsSignal() && m.Record.Name == q.Text && !r.isReceived(&m)
	})
	if i < 0 {
		return r.waitFor(q.ID, recorded), nil
	}
	return r.takeSignal(k, s, q, recorded, &waiting[i].Record, waiting[i].ID())
}

// takeSignal records a signal as the answer to a question and removes the signal's message.
func (r *run) takeSignal(k *storeKeeper, s *engine.Scope, q engine.Question, recorded bool, from *record.Record, message string) (engine.Asked, error) {
	rec := answerRecord(now(), s.Address(), q.ID, from.AnsweredBy(), from.Encoded())
	rec.Detail.Signal = from.Detail.Signal
	if err := r.Append(s, rec); err != nil {
		return engine.Asked{}, err
	}
	asked := engine.Asked{Answer: rec.Encoded(), Recorded: recorded}
	if message == "" {
		return asked, nil
	}
	r.mu.Lock()
	seq := uint64(k.len())
	r.mu.Unlock()
	if err := k.sync(seq); err != nil { // regardless of the policy, since the message is removed next
		return engine.Asked{}, r.stop(err)
	}
	// If the message remains, the next opening recognizes the signal by its ID.
	_ = k.store.Remove(context.Background(), r.settings.RunID, message)
	return asked, nil
}

// AwaitsSignal reports whether a run waits for any of the signals among the waiting messages. Such
// a run continues when it is opened.
func AwaitsSignal(ctx context.Context, store snapshot.Store, runID string, waiting []snapshot.Message) (bool, error) {
	if err := checkStore(store); err != nil {
		return false, err
	}
	if !slices.ContainsFunc(waiting, func(m snapshot.Message) bool { return m.IsSignal() }) {
		return false, nil
	}
	found, err := load(ctx, store, runID)
	if err != nil {
		return false, fmt.Errorf("state: signals of run %s: %w", runID, err)
	}
	return awaitsSignalOf(found, waiting), nil
}

// awaitsSignalOf is AwaitsSignal for a run that is already loaded.
func awaitsSignalOf(found *snapshot.Snapshot, waiting []snapshot.Message) bool {
	awaited := awaitedSignals(found, waiting)
	return len(awaited) > 0 && slices.ContainsFunc(waiting, func(m snapshot.Message) bool {
		return m.IsSignal() && slices.Contains(awaited, m.Record.Name)
	})
}

// awaitsAny reports whether the run waits for a signal.
func awaitsAny(found *snapshot.Snapshot, waiting []snapshot.Message) bool {
	return len(awaitedSignals(found, waiting)) > 0
}

// awaitedSignals returns the names of the signals that calls wait for. If the run was cancelled, only
// compensations still wait.
func awaitedSignals(found *snapshot.Snapshot, waiting []snapshot.Message) (names []string) {
	for _, asked := range ledgerOf(found.Records).Questions(true) {
		if asked.Awaits == record.AwaitSignal && checkNotMoot(found, waiting, asked.ID) == nil {
			names = append(names, asked.Text)
		}
	}
	return names
}

// Lets errors.Is also find these errors in the recorded errors of calls.
func init() {
	record.RegisterError("state.ErrSignal", ErrSignal)
	record.RegisterError("state.ErrTooManySignals", ErrTooManySignals)
}
