package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/record"
)

// An Inbox accepts messages for runs from any process, whether or not the runs are open. A message
// is read by the process that has the run open or, if there is none, by the next one that opens it.
type Inbox interface {
	// Post stores a message for a run. If the run does not exist, the error is ErrNotFound. When
	// Post returns without an error, the message is durable. While a message with the same ID is
	// waiting, Post returns ErrPosted. If messages with the same ID are posted concurrently, one of
	// the calls succeeds.
	Post(ctx context.Context, runID string, m Message) error

	// Messages returns the run's waiting messages, ordered by time, with Record.RunID set. It does
	// not remove them.
	Messages(ctx context.Context, runID string) ([]Message, error)

	// Remove removes the messages with the given IDs and ignores unknown IDs. It is called once the
	// effect of the messages is durable.
	Remove(ctx context.Context, runID string, ids ...string) error
}

// ErrPosted is returned for a message if an earlier message with the same ID is still waiting.
var ErrPosted = errors.New("snapshot: a message with this ID is already waiting")

// A Message is sent to a run from outside: the answer to a question, a signal, an interrupt, or a
// cancel.
type Message struct {
	// Generation is the generation that an interrupt stops. It is 0 for all other messages, which
	// apply to any generation.
	Generation uint64

	// Record holds the content of the message; its Seq is 0. For an answer, its kind is answer, its
	// status is recorded, its name is that of the question, and its output is the encoded answer. A
	// signal is like an answer, but with its own name, and with its ID in Detail.Signal. For an
	// interrupt, the kind is run, the status is interrupted, and Err is a *record.InterruptedError.
	// A cancel is like an interrupt, but its status is cancelled.
	Record record.Record
}

// ID returns the message's ID, which is unique among the run's waiting messages. All answers to one
// question have the same ID, and only the first of them counts. The same is true of all signals with
// the same Detail.Signal, all interrupts of one generation, and all cancels. An ID has at most 39
// lower-case letters, digits and dashes, so it can be used as a file name.
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

// IsCancel reports whether the message cancels the run, which ends it permanently.
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
			return errors.New("the answer or signal has no name")
		case len(r.Encoded()) == 0:
			return errors.New("the answer or signal has no value")
		case m.Generation != 0:
			return errors.New("an answer or a signal must not have a generation")
		}
	case m.IsCancel():
		switch {
		case r.Interrupt() == nil:
			return errors.New("the cancel has no *record.InterruptedError")
		case m.Generation != 0:
			return errors.New("a cancel must not have a generation")
		}
	case r.Kind == record.KindRun && r.Interrupt() != nil:
		if m.Generation == 0 {
			return errors.New("the interrupt has no generation")
		}
	default:
		return fmt.Errorf("got a record of kind %v and status %v; want an answer, a signal, an interrupt or a cancel", r.Kind, r.Status)
	}
	return nil
}

// Check returns an error that names the run if m is not a valid message.
func (m *Message) Check(runID string) error {
	if err := m.check(); err != nil {
		return fmt.Errorf("snapshot: message for run %s: %w", runID, err)
	}
	return nil
}
