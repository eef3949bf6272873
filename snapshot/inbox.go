package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/core"
)

// An Inbox is a [Store] that also takes messages for its runs, from any
// process and whether or not the run is open: for whoever has it open, or the
// next one who opens it. A store need not be one; package storetest checks
// those that are.
type Inbox interface {
	// Post leaves a message for a run that is there, and is ErrNotFound for
	// any other. When it returns, the message has survived the power. While a
	// message with the same ID waits, another is ErrPosted: of those who post
	// at the same time, one is the first.
	Post(ctx context.Context, runID string, m Message) error

	// Messages returns those that wait, in the order of their times. They stay
	// until they are removed.
	Messages(ctx context.Context, runID string) ([]Message, error)

	// Remove removes the message with the ID; one that is not there is fine.
	// Whoever acted on a message removes it when its effect is durable.
	Remove(ctx context.Context, runID, id string) error

	// Watch calls changed once at the beginning, and again after messages
	// were posted or removed and after the run was closed or deleted, by
	// whichever process. Several changes may be one call, one of a message
	// that was removed at once may be none, and a call may come without a
	// change. Calls come one after the other. Watch returns when ctx ends,
	// with its cause, and calls nothing after that.
	Watch(ctx context.Context, runID string, changed func()) error
}

// ErrPosted is a message that came after another with the same ID, which still
// waits.
var ErrPosted = errors.New("snapshot: such a message waits already")

// A Message is what a run is told from outside: the answer to a question, or
// that it shall stop.
type Message struct {
	// Generation is the one that an interrupt is for; 0 for an answer, which
	// is for whoever reads it.
	Generation uint64

	// Record says it, without a Seq. An answer has the kind answer, the status
	// recorded, the name of the question, and the encoded answer as its output.
	// An interrupt has the kind run, the status interrupted, and a
	// *core.InterruptedError.
	Record core.Record
}

// ID names the message among those of its run. Answers to one question have
// the same ID, and so have interrupts of one generation: the first of them
// counts.
func (m *Message) ID() string {
	if m.Record.Kind == core.KindAnswer {
		sum := sha256.Sum256([]byte(m.Record.Name))
		return fmt.Sprintf("answer-%x", sum[:16])
	}
	return fmt.Sprintf("interrupt-%d", m.Generation)
}

// check says what keeps m from being a message.
func (m *Message) check() error {
	r := &m.Record
	switch {
	case r.Kind == core.KindAnswer && r.Status == core.StatusRecorded:
		switch {
		case r.Name == "":
			return errors.New("an answer without the name of its question")
		case len(r.Encoded()) == 0:
			return errors.New("an answer without a value")
		case m.Generation != 0:
			return errors.New("an answer for one generation")
		}
	case r.Kind == core.KindRun && r.Interrupt() != nil:
		if m.Generation == 0 {
			return errors.New("an interrupt for no generation")
		}
	default:
		return fmt.Errorf("a record of the kind %v and the status %v; allowed are answers and interrupts", r.Kind, r.Status)
	}
	return nil
}

// checkMessage is what Post does first.
func checkMessage(ctx context.Context, runID string, m *Message) error {
	if err := check(ctx, runID); err != nil {
		return err
	}
	if err := m.check(); err != nil {
		return fmt.Errorf("snapshot: message for run %s: %w", runID, err)
	}
	return nil
}

func posted(runID, id string) error {
	return &kindError{fmt.Sprintf("snapshot: run %s: %s was posted before, and waits to be read", runID, id), ErrPosted}
}
