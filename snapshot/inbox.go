package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/record"
)

// An Inbox takes messages for runs, from any process, whether or not the run is
// open. The process that has the run open reads them, or the one that opens it
// next.
type Inbox interface {
	// Post leaves a message for a run; if the run does not exist, the error is
	// ErrNotFound. When Post returns, the message is durable. While a message with the
	// same ID waits, Post returns ErrPosted; of several posted at the same time, one
	// succeeds.
	Post(ctx context.Context, runID string, m Message) error

	// Messages returns the waiting messages, in the order of their times, with
	// Record.RunID set. They stay until they are removed.
	Messages(ctx context.Context, runID string) ([]Message, error)

	// Remove removes the messages with these IDs; IDs that do not exist are ignored. A
	// message is removed when its effect is durable.
	Remove(ctx context.Context, runID string, ids ...string) error
}

// ErrPosted is a message that came after another with the same ID, which still
// waits.
var ErrPosted = errors.New("snapshot: such a message waits already")

// A Message is for a run, from outside: the answer to a question, a signal, an interrupt,
// or a cancel.
type Message struct {
	// Generation is the one that an interrupt is for; 0 for any other message, which
	// is for all.
	Generation uint64

	// Record is the message, without a Seq. An answer has the kind answer, the status
	// recorded, the name of the question, and the encoded answer as its output. A signal
	// has the same, its own name, and its ID as Detail.Signal.
	// An interrupt has the kind run, the status interrupted, and a
	// *record.InterruptedError; a cancel likewise, with the status cancelled.
	Record record.Record
}

// ID names the message among those of its run. Answers to one question have
// the same ID, signals with one Detail.Signal, and so have interrupts of one generation, and cancels: the first
// of them counts. An ID is at most 39 lower-case letters, digits and dashes,
// and so fits for the name of a file.
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

// IsCancel reports whether the message ends the run for good.
func (m *Message) IsCancel() bool {
	return m.Record.Kind == record.KindRun && m.Record.Status == record.StatusCancelled
}

// IsAnswer reports whether the message answers a question.
func (m *Message) IsAnswer() bool { return m.Record.Kind == record.KindAnswer && !m.IsSignal() }

// IsSignal reports whether the message is a signal.
func (m *Message) IsSignal() bool {
	return m.Record.Kind == record.KindAnswer && m.Record.Detail != nil && m.Record.Detail.Signal != ""
}

// check returns an error if m is not a message.
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
			return errors.New("an answer or a signal for one generation")
		}
	case m.IsCancel():
		switch {
		case r.Interrupt() == nil:
			return errors.New("a cancel that does not say who asks for it")
		case m.Generation != 0:
			return errors.New("a cancel for one generation")
		}
	case r.Kind == record.KindRun && r.Interrupt() != nil:
		if m.Generation == 0 {
			return errors.New("an interrupt for no generation")
		}
	default:
		return fmt.Errorf("a record of the kind %v and the status %v; want an answer, a signal, an interrupt or a cancel", r.Kind, r.Status)
	}
	return nil
}

// Check returns an error if m is not a message for the run.
func (m *Message) Check(runID string) error {
	if err := m.check(); err != nil {
		return fmt.Errorf("snapshot: message for run %s: %w", runID, err)
	}
	return nil
}
