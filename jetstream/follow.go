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

// Records implements [snapshot.Reader]. It reads the whole run.
func (s *Store) Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		run, err := s.Load(ctx, runID)
		if err != nil {
			yield(record.Record{}, err)
			return
		}
		run.RecordsAfter(after)(yield)
	}
}

// Follow implements [snapshot.Reader].
func (s *Store) Follow(ctx context.Context, runID string, after snapshot.Cursor) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		f := follower{store: s, runID: runID, yield: yield}
		if err := f.begin(ctx, after); err != nil {
			yield(record.Record{}, err)
			return
		} else if f.stopped {
			return
		}
		for msg, err := range s.consume(ctx, []string{s.names.run(runID)}, f.at+1) {
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
	yield   func(record.Record, error) bool
	stopped bool   // the caller wants no more
	born    string // the run, and no other of its ID
	at      uint64 // the sequence of the message that was read last
	last    uint64 // the number of the record that was yielded last
}

// begin yields what is there.
func (f *follower) begin(ctx context.Context, after snapshot.Cursor) error {
	if err := check(ctx, f.runID); err != nil {
		return err
	}
	run, h, err := f.store.load(ctx, f.runID)
	if err != nil {
		return err
	}
	if f.last, err = run.After(after); err != nil {
		return err
	}
	f.born, f.at = h.born, h.seq
	return f.rest(run)
}

// rest yields the records of a run that were not yielded yet.
func (f *follower) rest(run *snapshot.Run) error {
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
	data, err := f.store.recordsOf(ctx, m)
	if err != nil {
		return err
	}
	for rec, err := range snapshot.DecodeRecords(data) {
		switch {
		case err != nil:
			return fmt.Errorf("snapshot: run %s: %w", f.runID, err)
		case rec.Seq <= f.last:
			continue
		case rec.Seq > f.last+1:
			return f.catchUp(ctx)
		}
		rec.RunID = f.runID
		if f.stopped = !f.yield(rec, nil); f.stopped {
			return nil
		}
		f.last = rec.Seq
	}
	return nil
}

func (f *follower) catchUp(ctx context.Context) error {
	run, h, err := f.store.load(ctx, f.runID)
	if err != nil {
		return err
	} else if h.born != f.born {
		return noRun(f.runID)
	}
	return f.rest(run)
}
