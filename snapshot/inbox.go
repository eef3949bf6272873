package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/record"
)

// An Inbox accepts messages for runs, from any process, whether or not the run is open. The process
// that has the run open reads them, or else the process that opens it next.
type Inbox interface {
	// Post stores a message for a run. If the run does not exist, the error is ErrNotFound. When
	// Post returns without an error, the message is durable. While a message with the same ID is
	// waiting, Post returns ErrPosted; if several are posted concurrently, one succeeds.
	Post(ctx context.Context, runID string, m Message) error

	// Messages returns the waiting messages, ordered by time, with Record.RunID set. They stay
	// until they are removed.
	Messages(ctx context.Context, runID string) ([]Message, error)

	// Remove removes the messages with these IDs. Unknown IDs are ignored. A message is removed
	// once its effect is durable.
	Remove(ctx context.Context, runID string, ids ...string) error
}

// ErrPosted is the error for a message whose ID belongs to an earlier message that is still
// waiting.
var ErrPosted = errors.New("snapshot: a message with this ID is already waiting")

// A Message is sent to a run from outside: the answer to a question, a signal, an interrupt, or a
// cancel.
type Message struct {
	// Generation is the generation that an interrupt is for. It is 0 for any other message, which
	// is for all generations.
	Generation uint64

	// Record holds the content of the message; its Seq is 0. An answer has the kind answer, the
	// status recorded, the name of the question, and the encoded answer as its output. A signal has
	// the same kind and status, its own name, and its ID as Detail.Signal. An interrupt has the
	// kind run, the status interrupted, and a *record.InterruptedError. A cancel is like an
	// interrupt, with the status cancelled.
	Record record.Record
}

// ID returns an ID that is unique among the waiting messages of the run. All answers to one
// question have the same ID, as do all signals with the same Detail.Signal, all interrupts of one
// generation, and all cancels: the first of them counts. An ID has at most 39 lower-case letters,
// digits and dashes, so it can be used as a file name.
func (m *Message) ID() string {
	if m.IsSignal() {
		sum := sha256.Sum256([]byte(m.Record.Detail.Signal))
		return fmt.Sprintf("signal-%x", sum[:16])
	}
	if m.IsAnswer() {
		sum := sha256.Sum256([]byte(m.Record.Name))
		return fmt.Sprintf("answer-%x", sum[:16])
	}
	if m.IsCancel() {
		return "cancel"
	}
	return fmt.Sprintf("interrupt-%d", m.Generation)
}

// IsCancel reports whether the message ends the run permanently.
func (m *Message) IsCancel() bool {
	return m.Record.Kind == record.KindRun && m.Record.Status == record.StatusCancelled
}

// IsAnswer reports whether the message answers a question.
func (m *Message) IsAnswer() bool { return m.Record.Kind == record.KindAnswer && !m.IsSignal() }

// IsSignal reports whether the message is a signal.
func (m *Message) IsSignal() bool {
	return m.Record.Kind == record.KindAnswer && m.Record.Detail != nil && m.Record.Detail.Signal != ""
}

// check returns an error if m is not a valid message.
func (m *Message) check() error {
	r := &m.Record
	switch {
	case r.Kind == record.KindAnswer && r.Status == record.StatusRecorded:
		switch {
		case r.Name == "":
			return errors.New("an answer or a signal without a name")
		case len(r.Encoded()) == 0:
			return errors.New("an answer or a signal without a value")
		case m.Generation != 0:
			return errors.New("an answer or a signal must not have a generation")
		}
	case m.IsCancel():
		switch {
		case r.Interrupt() == nil:
			return errors.New("a cancel without a *record.InterruptedError")
		case m.Generation != 0:
			return errors.New("a cancel must not have a generation")
		}
	case r.Kind == record.KindRun && r.Interrupt() != nil:
		if m.Generation == 0 {
			return errors.New("an interrupt without a generation")
		}
	default:
		return fmt.Errorf("a record of kind %v and status %v; want an answer, a signal, an interrupt or a cancel", r.Kind, r.Status)
	}
	return nil
}

// Check returns an error if m is not a valid message for the run.
func (m *Message) Check(runID string) error {
	if err := m.check(); err != nil {
		return fmt.Errorf("snapshot: message for run %s: %w", runID, err)
	}
	return nil
}
