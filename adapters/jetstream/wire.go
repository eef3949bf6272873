package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/snapshot"
)

// Errors of the server and of the connection.
var (
	errNone     = errors.New("jetstream: there is no such message")
	errConflict = errors.New("jetstream: another message came first")
)

// unavailable marks the error of a request that the server did not fulfil as ErrUnavailable.
func unavailable(err error) error {
	if errors.Is(err, snapshot.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w%s", snapshot.ErrUnavailable, err, advice(err))
}

// isPassing reports whether a retry may help, because no server has answered.
func isPassing(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode == codeInFlight || api.Code == 503 && !slices.Contains(lasting, api.ErrorCode)
	}
	return !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrMaxPayload) && !errors.Is(err, nats.ErrBadSubject) &&
		!errors.Is(err, nats.ErrPermissionViolation)
}

const (
	codeNotFound  = 10037
	codeWrongLast = 10071
	codeInFlight  = 10164 // a message on the subject waits for a majority, such as an earlier attempt to send this one
)

// lasting are the errors of a server that is unavailable for a lasting reason: it has no
// JetStream, no resources or no storage, or the stream is full.
var lasting = []jetstream.ErrorCode{10076, 10039, 10023, 10047, 10077}

// retry calls f until it succeeds, fails for good, or time is up: at the end of ctx, or
// after the length of a lease if ctx has no deadline.
//
// subject is the subject that f publishes to, or a prefix of it: if the permission for it is
// missing, retry returns an error at once.
func (s *Store) retry(ctx context.Context, subject string, f func(context.Context) error) error {
	return retryFor(ctx, s.conn, subject, s.options.Lease, s.options.patience(), f)
}

// setUp is like retry, for the calls that set up the store: while a cluster elects a
// leader, no server answers.
func setUp(ctx context.Context, conn *nats.Conn, f func(context.Context) error) error {
	return retryFor(ctx, conn, "", 30*time.Second, 3*time.Second, f)
}

func retryFor(ctx context.Context, conn *nats.Conn, subject string, limit, patience time.Duration, f func(context.Context) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errNoAnswer)
		defer cancel()
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		denied := deniedSince(conn)
		once, cancel := context.WithTimeout(ctx, patience)
		err := f(once)
		cancel()
		if err == nil || !isPassing(err) {
			return err
		}
		if err := denied(subject); err != nil {
			return err
		}
		pause.Reset(retryPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
	}
}

const retryPause = 20 * time.Millisecond

var errNoAnswer = errors.New("jetstream: the server does not answer")

// stored is a message as the leader of its stream returns it.
type stored struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Header  []byte    `json:"hdrs"`
	Data    []byte    `json:"data"`
	Time    time.Time `json:"time"`
}

func (m *stored) header() (nats.Header, error) {
	if len(m.Header) == 0 {
		return nats.Header{}, nil
	}
	h, err := nats.DecodeHeadersMsg(m.Header)
	if err != nil {
		return nil, fmt.Errorf("%w: the header of message %d on %s: %w", snapshot.ErrCorrupt, m.Seq, m.Subject, err)
	}
	return h, nil
}

// query selects a message.
type query struct {
	Seq      uint64 `json:"seq,omitempty"`
	Last     string `json:"last_by_subj,omitempty"`
	Next     string `json:"next_by_subj,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// get asks the leader of a stream, which never lags, for one message. If there is none, the
// error is errNone.
func (s *Store) get(ctx context.Context, stream string, q query) (*stored, error) {
	request, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	var response struct {
		Error   *jetstream.APIError `json:"error"`
		Message *stored             `json:"message"`
	}
	subject := s.api + "STREAM.MSG.GET." + stream
	err = s.retry(ctx, subject, func(ctx context.Context) error {
		msg, err := s.conn.RequestWithContext(ctx, subject, request)
		if err != nil {
			return err
		}
		response.Error, response.Message = nil, nil
		if err := json.Unmarshal(msg.Data, &response); err != nil {
			return fmt.Errorf("jetstream: the answer of the server: %w", err)
		}
		if response.Error != nil {
			return response.Error
		}
		return nil
	})
	switch {
	case response.Error != nil && response.Error.ErrorCode == codeNotFound:
		return nil, errNone
	case err != nil && context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, unavailable(err)
	}
	return response.Message, nil
}

// readBatch and readBytes bound what one request for many messages returns.
const (
	readBatch = 500
	readBytes = 8 << 20
)

// read yields the messages on a subject, which may have wildcards, from one sequence up to
// another, which was that of a message.
func (s *Store) read(ctx context.Context, stream, subject string, from, to uint64) iter.Seq2[*nats.Msg, error] {
	return func(yield func(*nats.Msg, error) bool) {
		pause := time.NewTimer(0)
		defer pause.Stop()
		for at := from; at <= to; {
			before := at
			batch, err := s.readBatch(ctx, stream, subject, at)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, msg := range batch {
				seq, _ := sequenceOf(msg)
				if seq > to {
					return
				}
				if !yield(msg, nil) {
					return
				}
				at = seq + 1
			}
			if at > before {
				continue
			}
			if _, err := s.get(ctx, stream, query{Seq: to}); errors.Is(err, errNone) {
				return // the last message was removed meanwhile, with all earlier ones
			}
			pause.Reset(retryPause) // a replica that lags behind has answered
			select {
			case <-pause.C:
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
	}
}

// readBatch asks any replica for the next messages.
func (s *Store) readBatch(ctx context.Context, stream, subject string, from uint64) ([]*nats.Msg, error) {
	return s.readNext(ctx, stream, subject, from, readBatch)
}

// countOn returns the number of messages on a subject, which may have wildcards.
func (s *Store) countOn(ctx context.Context, stream, subject string) (int, error) {
	first, err := s.readNext(ctx, stream, subject, 1, 1)
	if err != nil || len(first) == 0 {
		return 0, err
	}
	after, err := strconv.Atoi(first[0].Header.Get(headerPending))
	if err != nil {
		return 0, fmt.Errorf("jetstream: the answer of the server has no number of messages: %w", err)
	}
	return 1 + after, nil
}

// headerPending is the header with the number of later messages on the subject.
const headerPending = "Nats-Num-Pending"

// readNext asks any replica for the next n messages.
func (s *Store) readNext(ctx context.Context, stream, subject string, from uint64, n int) (batch []*nats.Msg, err error) {
	request, err := json.Marshal(query{Seq: from, Next: subject, Batch: n, MaxBytes: readBytes})
	if err != nil {
		return nil, err
	}
	to := s.api + "DIRECT.GET." + stream
	err = s.retry(ctx, to, func(ctx context.Context) error {
		batch = batch[:0]
		inbox, err := s.conn.SubscribeSync(s.conn.NewInbox())
		if err != nil {
			return err
		}
		defer inbox.Unsubscribe() //nolint:errcheck // the connection is closed, and so is the subscription
		if err := inbox.SetPendingLimits(-1, -1); err != nil {
			return err
		}
		if err := s.conn.PublishRequest(to, inbox.Subject, request); err != nil {
			return err
		}
		for {
			msg, err := inbox.NextMsgWithContext(ctx)
			if err != nil {
				return err
			}
			switch status := msg.Header.Get("Status"); status {
			case "":
				batch = append(batch, msg)
			case "204", "404": // there are no more messages, or none at all
				return nil
			default:
				return fmt.Errorf("jetstream: the server answered %s %s", status, msg.Header.Get("Description"))
			}
		}
	})
	if err != nil && context.Cause(ctx) != nil {
		return nil, context.Cause(ctx)
	} else if err != nil {
		return nil, unavailable(err)
	}
	return batch, nil
}

// sequenceOf returns the sequence of a message that was read directly.
func sequenceOf(msg *nats.Msg) (uint64, error) {
	return strconv.ParseUint(msg.Header.Get(jetstream.SequenceHeader), 10, 64)
}

// publish appends a message to a stream if the last message on its subject still has the
// sequence expected; 0 means none. Otherwise the error is errConflict. A lost
// acknowledgement does no harm: the ID of the message shows whether it was stored.
func (s *Store) publish(ctx context.Context, stream string, msg *nats.Msg, expected uint64) (seq uint64, err error) {
	return s.publishAfter(ctx, stream, msg, expected, jetstream.WithExpectLastSequencePerSubject(expected))
}

// publishAfter is like publish, with another condition that implies that no later message
// than expected is on the subject.
func (s *Store) publishAfter(ctx context.Context, stream string, msg *nats.Msg, expected uint64, condition jetstream.PublishOpt) (seq uint64, err error) {
	err = s.retry(ctx, msg.Subject, func(ctx context.Context) error {
		seq, err = s.publishOnce(ctx, stream, msg, condition)
		return err
	})
	var api *jetstream.APIError
	switch {
	case err == nil:
		return seq, nil
	case errors.As(err, &api) && api.ErrorCode == codeWrongLast:
		return s.published(ctx, stream, msg, expected)
	case context.Cause(ctx) != nil:
		return 0, context.Cause(ctx)
	}
	return 0, unavailable(err)
}

// publishAny publishes a message to a stream, whatever the last message is, and returns its
// sequence. A message whose acknowledgement is lost may be stored twice.
func (s *Store) publishAny(ctx context.Context, stream string, msg *nats.Msg) (seq uint64, err error) {
	err = s.retry(ctx, msg.Subject, func(ctx context.Context) error {
		seq, err = s.publishOnce(ctx, stream, msg)
		return err
	})
	if err != nil && context.Cause(ctx) != nil {
		return 0, context.Cause(ctx)
	} else if err != nil {
		return 0, unavailable(err)
	}
	return seq, nil
}

// publishOnce publishes a message to a stream, and returns its sequence.
func (s *Store) publishOnce(ctx context.Context, stream string, msg *nats.Msg, o ...jetstream.PublishOpt) (seq uint64, err error) {
	before := s.newest.Load()
	ack, err := s.js.PublishMsg(ctx, msg, append(o, jetstream.WithRetryAttempts(0), jetstream.WithExpectStream(stream))...)
	if errors.Is(err, jetstream.ErrNoStreamResponse) { // the stream has no leader now, or does not exist
		if _, infoErr := s.js.Stream(ctx, stream); errors.Is(infoErr, jetstream.ErrStreamNotFound) {
			return 0, infoErr
		}
	}
	if err != nil {
		return 0, err
	}
	if stream == s.names.records() {
		s.stored(before, ack.Sequence)
	}
	return ack.Sequence, nil
}

// stored notes the sequence of a message of the records. before is the newest sequence that was
// known when the message was sent: if the new one is not higher, the stream has lost messages,
// and the open runs of this process may be lost.
func (s *Store) stored(before, seq uint64) {
	for newest := s.newest.Load(); newest < seq && !s.newest.CompareAndSwap(newest, seq); {
		newest = s.newest.Load()
	}
	if seq <= before {
		s.noteDamage()
	}
}

// published reports whether a refused message was stored by an earlier attempt: then it is
// the first message after expected.
func (s *Store) published(ctx context.Context, stream string, msg *nats.Msg, expected uint64) (uint64, error) {
	first, err := s.get(ctx, stream, query{Next: msg.Subject, Seq: expected + 1})
	if errors.Is(err, errNone) {
		return 0, errConflict
	} else if err != nil {
		return 0, err
	}
	h, err := first.header()
	if err != nil {
		return 0, err
	}
	if id := msg.Header.Get(headerID); id == "" || h.Get(headerID) != id {
		return 0, errConflict
	}
	return first.Seq, nil
}

// purge removes the messages on a subject below a sequence; 0 means all of them.
func (s *Store) purge(ctx context.Context, stream jetstream.Stream, subject string, below uint64) error {
	err := s.retry(ctx, s.api+"STREAM.PURGE.", func(ctx context.Context) error {
		return stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(below))
	})
	if err != nil && context.Cause(ctx) != nil {
		return context.Cause(ctx)
	} else if err != nil {
		return unavailable(err)
	}
	return nil
}
