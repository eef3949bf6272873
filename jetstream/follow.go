package jetstream

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// consume yields the messages of the records on some subjects, from a sequence
// on: those there are, and then each that is stored. It goes on where it was when
// the server was gone. It ends with the cause of ctx.
func (s *Store) consume(ctx context.Context, subjects []string, from uint64) iter.Seq2[jetstream.Msg, error] {
	return func(yield func(jetstream.Msg, error) bool) {
		pause := time.NewTimer(0)
		defer pause.Stop()
		for {
			var more bool
			from, more = s.consumeFrom(ctx, subjects, from, yield)
			if !more {
				return
			}
			pause.Reset(retryPause)
			select {
			case <-pause.C:
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
	}
}

// The server says every pullHeartbeat that it is there. If it does not say so
// twice, the consumer is made again, on another server of a cluster.
const (
	pullExpiry    = 10 * time.Second
	pullHeartbeat = time.Second
)

// consumeFrom yields messages until the consumer cannot go on. It returns where
// to begin again, and whether to.
func (s *Store) consumeFrom(ctx context.Context, subjects []string, from uint64, yield func(jetstream.Msg, error) bool) (uint64, bool) {
	making, cancel := context.WithTimeout(ctx, s.options.Lease) // the request is lost with the server that leads
	defer cancel()
	consumer, err := s.records.OrderedConsumer(making, jetstream.OrderedConsumerConfig{
		FilterSubjects: subjects, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, InactiveThreshold: consumerIdle,
		// When the consumer is made anew, the client knows nothing of ctx, and would
		// try for ever. Once takes it 10 seconds at most.
		MaxResetAttempts: 1,
	})
	if err != nil {
		return from, true
	}
	messages, err := consumer.Messages(jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(pullHeartbeat))
	if err != nil {
		return from, true
	}
	defer messages.Stop()
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		switch {
		case ctx.Err() != nil:
			yield(nil, context.Cause(ctx))
			return from, false
		case err != nil: // such as a heartbeat that did not come
			return from, true
		}
		meta, err := msg.Metadata()
		if err != nil || !yield(msg, nil) {
			return from, false
		}
		from = meta.Sequence.Stream + 1
	}
}

// messageOf reads a message of a run that was consumed.
func messageOf(msg jetstream.Msg) (*message, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, err
	}
	return decode(msg.Subject(), meta.Sequence.Stream, msg.Headers(), msg.Data())
}

// Follow implements [snapshot.Reader].
func (s *Store) Follow(ctx context.Context, runID string, after snapshot.Cursor) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		f := follower{store: s, runID: runID, after: after, last: after.Seq, yield: yield}
		from, err := f.begin(ctx)
		if err != nil {
			yield(record.Record{}, err)
			return
		}
		for msg, err := range s.consume(ctx, []string{s.names.run(runID)}, from) {
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
	stopped bool   // the caller wants no more
	born    string // the run, and no other of its ID
	last    uint64 // the number of the record that was yielded last
}

// begin returns the sequence of the stream from which on messages are read: the
// first has the record of the cursor.
func (f *follower) begin(ctx context.Context) (uint64, error) {
	if err := check(ctx, f.runID); err != nil {
		return 0, err
	}
	h, err := f.store.head(ctx, f.runID)
	if err != nil {
		return 0, err
	}
	if f.after.Seq > h.last {
		return 0, fmt.Errorf("%w: run %s: the cursor is at record %d, and the run has %d", snapshot.ErrReset, f.runID, f.after.Seq, h.last)
	}
	f.born = h.born
	return f.store.place(ctx, h, f.after.Seq)
}

// take yields the records of a message. Where some are missing, the run is read
// again: messages go silently.
func (f *follower) take(ctx context.Context, msg jetstream.Msg) error {
	m, err := messageOf(msg)
	if err != nil {
		return err
	}
	if m.kind == deleted || m.born != "" && m.born != f.born {
		return noRun(f.runID)
	}
	for rec, err := range f.store.decoded(ctx, f.runID, m) {
		if err == nil {
			err = f.pass(ctx, &rec)
		}
		if err != nil || f.stopped {
			return err
		}
	}
	return nil
}

// pass yields a record if it is the next.
func (f *follower) pass(ctx context.Context, rec *record.Record) error {
	switch {
	case rec.Seq == f.after.Seq && f.after.Generation > 0 && rec.Generation != f.after.Generation:
		return fmt.Errorf("%w: run %s: the cursor is at record %d of generation %d, and that record is of generation %d",
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

// catchUp yields what is there and was not yielded yet.
func (f *follower) catchUp(ctx context.Context) error {
	run, h, err := f.store.load(ctx, f.runID)
	if err != nil {
		return err
	} else if h.born != f.born {
		return noRun(f.runID)
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
