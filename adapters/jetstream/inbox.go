package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// Post implements [snapshot.Inbox].
func (s *Store) Post(ctx context.Context, runID string, m snapshot.Message) error {
	if err := storekit.Check(ctx, runID); err != nil {
		return err
	}
	if err := m.Check(runID); err != nil {
		return err
	}
	h, err := s.head(ctx, runID)
	if err != nil {
		return err
	}
	m.Record.RunID, m.Record.Seq = "", 1 // as in stored records
	data, err := snapshot.AppendRecord(nil, &m.Record)
	if err != nil {
		return fmt.Errorf("snapshot: message for run %s: %w", runID, err)
	}
	msg := nats.NewMsg(s.names.message(runID, m.ID()))
	msg.Data = data
	msg.Header.Set(headerID, nuid.Next())
	msg.Header.Set(headerBorn, h.born)
	msg.Header.Set(headerGeneration, strconv.FormatUint(m.Generation, 10))
	_, err = s.publish(ctx, s.names.records(), msg, 0)
	if errors.Is(err, errConflict) {
		err = s.postOver(ctx, msg, h.born)
	}
	if errors.Is(err, errConflict) {
		return storekit.PostedError(runID, m.ID())
	} else if err != nil {
		return fmt.Errorf("snapshot: message for run %s: %w", runID, err)
	}
	return nil
}

// postOver replaces a message that was removed or whose run was deleted.
func (s *Store) postOver(ctx context.Context, msg *nats.Msg, born string) error {
	waiting, err := s.get(ctx, s.names.records(), query{Last: msg.Subject})
	if errors.Is(err, errNotFound) {
		_, err = s.publish(ctx, s.names.records(), msg, 0)
		return err
	} else if err != nil {
		return err
	}
	if waiting.Header.Get(headerBorn) == born {
		return errConflict
	}
	msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	_, err = s.publish(ctx, s.names.records(), msg, waiting.Seq)
	return err
}

// Messages implements [snapshot.Inbox].
func (s *Store) Messages(ctx context.Context, runID string) ([]snapshot.Message, error) {
	if err := storekit.Check(ctx, runID); err != nil {
		return nil, err
	}
	born, err := s.bornOf(ctx, runID)
	if err != nil {
		return nil, err
	}
	subject := s.names.inbox(runID)
	last, err := s.get(ctx, s.names.records(), query{Last: subject})
	if errors.Is(err, errNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var all []snapshot.Message
	for msg, err := range s.read(ctx, s.names.records(), subject, 1, last.Seq) {
		if err != nil {
			return nil, err
		}
		if msg.Header.Get(headerBorn) != born {
			continue // it belongs to a deleted run or was removed
		}
		m, err := readMessage(runID, msg)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	storekit.SortMessages(all)
	return all, nil
}

// bornOf returns the value that distinguishes the run from earlier and later runs with the same ID.
// If this process has the run open, bornOf reads nothing.
func (s *Store) bornOf(ctx context.Context, runID string) (string, error) {
	if j := s.ownJournal(runID); j != nil && !j.session.isOver() {
		return j.marker.born, nil
	}
	h, err := s.head(ctx, runID)
	if err != nil {
		return "", err
	}
	return h.born, nil
}

func readMessage(runID string, msg *storedMessage) (m snapshot.Message, err error) {
	numbers := headerReader{h: msg.Header}
	m.Generation = numbers.uint(headerGeneration)
	if m.Record, err = snapshot.DecodeRecord(msg.Data); err == nil {
		err = numbers.err
	}
	if err != nil {
		return m, fmt.Errorf("snapshot: message for run %s: %w", runID, err)
	}
	m.Record.RunID, m.Record.Seq = runID, 0
	err = m.Check(runID)
	return m, err
}

// Remove implements [snapshot.Inbox]. It replaces a message with an empty one that expires. Unlike
// a purge, the replacement is visible to those who watch the run.
func (s *Store) Remove(ctx context.Context, runID string, ids ...string) error {
	if err := storekit.Check(ctx, runID); err != nil {
		return err
	}
	var all error
	for _, id := range ids {
		all = errors.Join(all, s.removeMessage(ctx, s.names.message(runID, id)))
	}
	return all
}

func (s *Store) removeMessage(ctx context.Context, subject string) error {
	for {
		last, err := s.get(ctx, s.names.records(), query{Last: subject})
		if errors.Is(err, errNotFound) || err == nil && len(last.Data) == 0 {
			return nil
		} else if err != nil {
			return err
		}
		msg := nats.NewMsg(subject)
		msg.Header.Set(headerID, nuid.Next())
		msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
		msg.Header.Set(jetstream.MsgTTLHeader, removedTTL.String())
		if _, err = s.publish(ctx, s.names.records(), msg, last.Seq); !errors.Is(err, errConflict) {
			return err
		}
	}
}

// removedTTL is how long the empty message remains, so that watchers whose connection is broken
// still see it.
const removedTTL = time.Minute
