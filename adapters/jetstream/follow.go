package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// consume yields messages on the given subjects from the stream of records, beginning at the given
// sequence: first the existing messages, and then each new one. If the server is unavailable for a
// while, consume continues afterwards. It ends with the cause of ctx, or with an error if the
// stream was deleted or replaced by a newer one, or if the process is not allowed to read it.
func (s *Store) consume(ctx context.Context, created time.Time, subjects []string, from uint64) iter.Seq2[*storedMessage, error] {
	return func(yield func(*storedMessage, error) bool) {
		for {
			next, err := s.consumeFrom(ctx, created, subjects, from, yield)
			if err == nil {
				err = s.verify(ctx, created, next)
			}
			switch {
			case errors.Is(err, errEnough):
				return
			case ctx.Err() != nil:
				yield(nil, context.Cause(ctx))
				return
			case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, snapshot.ErrReset):
				yield(nil, err)
				return
			case errors.Is(err, nats.ErrPermissionViolation):
				yield(nil, unavailable(err))
				return
			}
			from = next
			_ = pause(ctx, retryPause) // the loop then notices the end of ctx
		}
	}
}

// errEnough is returned when the caller has stopped the iteration.
var errEnough = errors.New("jetstream: enough")

// The server sends a heartbeat every pullHeartbeat. If two are missing, the consumer is created
// again. In a cluster, this happens on another server.
const (
	pullExpiry    = 10 * time.Second
	pullHeartbeat = time.Second
)

// consumeFrom yields messages until the consumer cannot continue. It returns the sequence from
// which another consumer has to continue. The error is nil if another consumer may be created.
func (s *Store) consumeFrom(ctx context.Context, created time.Time, subjects []string, from uint64, yield func(*storedMessage, error) bool) (uint64, error) {
	denied := deniedSince(s.conn)
	creating, cancel := context.WithTimeout(ctx, s.options.Lease) // the request is lost if the leader fails
	defer cancel()
	consumer, err := s.records.OrderedConsumer(creating, jetstream.OrderedConsumerConfig{
		FilterSubjects: subjects, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, InactiveThreshold: consumerIdle,
		// When the client creates the consumer again, it ignores ctx and by default tries forever.
		// One attempt takes at most 10 seconds.
		MaxResetAttempts: 1,
	})
	if err != nil {
		return from, denied(s.api + "CONSUMER.")
	}
	messages, err := consumer.Messages(jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(pullHeartbeat))
	if err != nil {
		return from, denied(s.api + "CONSUMER.")
	}
	defer messages.Stop()
	verified := "" // the consumer that is known to read the right stream
	for {
		msg, err := s.nextOf(ctx, messages)
		switch {
		case ctx.Err() != nil:
			return from, context.Cause(ctx)
		case errors.Is(err, context.DeadlineExceeded): // the client may have silently created a consumer on another stream
			if err := cmp.Or(denied(s.api+"CONSUMER."), s.verify(ctx, created, from)); err != nil {
				return from, err
			}
			continue
		case err != nil: // such as a missing heartbeat
			return from, denied(s.api + "CONSUMER.")
		}
		m, meta, err := readDelivered(msg)
		if err != nil {
			return from, err
		}
		if meta.Consumer != verified {
			if err := s.verify(ctx, created, from); err != nil {
				return from, err
			}
			verified = meta.Consumer
		}
		if !yield(m, nil) {
			return from, errEnough
		}
		from = m.Seq + 1
	}
}

// nextOf waits for the next message, but not longer than a lease lasts.
func (s *Store) nextOf(ctx context.Context, messages jetstream.MessagesContext) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Lease)
	defer cancel()
	return messages.Next(jetstream.NextContext(ctx))
}

// verify returns an error if the stream of records was not created at the given time, or no longer
// contains the message before next.
func (s *Store) verify(ctx context.Context, created time.Time, next uint64) error {
	info, err := s.streamInfo(ctx)
	if err != nil {
		return err
	}
	if !info.Created.Equal(created) {
		return fmt.Errorf("%w: the stream %s was deleted and created again", snapshot.ErrReset, s.names.records())
	}
	if info.State.LastSeq+1 < next {
		s.noteDamage()
		return fmt.Errorf("%w: the stream %s has lost messages: it ends at %d, but contained message %d", snapshot.ErrReset, s.names.records(), info.State.LastSeq, next-1)
	}
	return nil
}

// Follow implements [snapshot.Reader].
func (s *Store) Follow(ctx context.Context, runID string, after snapshot.Cursor) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		f := follower{store: s, runID: runID, after: after, last: after.Seq, yield: yield}
		created, from, err := f.begin(ctx)
		if err != nil {
			yield(record.Record{}, err)
			return
		}
		for msg, err := range s.consume(ctx, created, []string{s.names.run(runID)}, from) {
			if err == nil {
				err = f.take(ctx, msg)
			}
			if f.stopped {
				return
			} else if err != nil {
				yield(record.Record{}, err)
				return
			}
		}
	}
}

// A follower yields the records of one run.
type follower struct {
	store   *Store
	runID   string
	after   snapshot.Cursor
	yield   func(record.Record, error) bool
	stopped bool   // the caller left the loop
	born    string // distinguishes the run from other runs with the same ID
	last    uint64 // the number of the last record that was yielded
}

// begin returns the time when the stream was created, and the sequence at which reading begins. The
// message at that sequence contains the cursor's record.
func (f *follower) begin(ctx context.Context) (created time.Time, from uint64, err error) {
	if err := storekit.Check(ctx, f.runID); err != nil {
		return created, 0, err
	}
	stream, err := f.store.streamInfo(ctx)
	if err != nil {
		return created, 0, err
	}
	h, err := f.store.head(ctx, f.runID)
	if err != nil {
		return created, 0, err
	}
	if f.after.Seq > h.last {
		return created, 0, fmt.Errorf("%w: run %s: the cursor is at record %d, but the run has %d", snapshot.ErrReset, f.runID, f.after.Seq, h.last)
	}
	f.born = h.born
	from, err = f.store.place(ctx, h, f.after.Seq)
	return stream.Created, from, err
}

// take yields the records in a message. If records before the message are missing, the run is read
// again, because messages can disappear without notice.
func (f *follower) take(ctx context.Context, msg *storedMessage) error {
	m, err := decode(msg)
	if err != nil {
		return err
	}
	if m.kind == kindDeleted || m.born != "" && m.born != f.born {
		return storekit.NotFoundError(f.runID)
	}
	for rec, err := range f.store.decodeRecords(ctx, f.runID, m) {
		if err == nil {
			err = f.pass(ctx, &rec)
		}
		if err != nil || f.stopped {
			return err
		}
	}
	return nil
}

// pass yields a record if it is the next one.
func (f *follower) pass(ctx context.Context, rec *record.Record) error {
	switch {
	case rec.Seq == f.after.Seq && f.after.Generation > 0 && rec.Generation != f.after.Generation:
		return fmt.Errorf("%w: run %s: the cursor is at record %d of generation %d, but that record has generation %d",
			snapshot.ErrReset, f.runID, rec.Seq, f.after.Generation, rec.Generation)
	case rec.Seq <= f.last:
		return nil
	case rec.Seq > f.last+1:
		return f.catchUp(ctx)
	}
	f.stopped = !f.yield(*rec, nil)
	f.last = rec.Seq
	return nil
}

// catchUp yields the existing records that have not been yielded yet.
func (f *follower) catchUp(ctx context.Context) error {
	run, h, err := f.store.load(ctx, f.runID)
	if err != nil {
		return err
	} else if h.born != f.born {
		return storekit.NotFoundError(f.runID)
	}
	for rec, err := range run.RecordsAfter(f.last) {
		if err != nil {
			return err
		}
		if f.stopped = !f.yield(rec, nil); f.stopped {
			return nil
		}
		f.last = rec.Seq
	}
	return nil
}
