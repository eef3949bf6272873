package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/snapshot"
)

// Errors from the server and the connection.
var (
	errNotFound = errors.New("jetstream: there is no such message")
	errConflict = errors.New("jetstream: another message came first")
)

// unavailable returns the error for a request that the server did not fulfill. It marks err as
// ErrUnavailable, unless the server has answered with damaged data.
func unavailable(err error) error {
	if errors.Is(err, snapshot.ErrUnavailable) || errors.Is(err, snapshot.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w%s", snapshot.ErrUnavailable, err, advice(err))
}

// isTemporary reports whether a retry may help, because no server has answered.
func isTemporary(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode == codeInFlight || api.Code == 503 && !slices.Contains(lastingCodes, api.ErrorCode)
	}
	return !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrMaxPayload) && !errors.Is(err, nats.ErrBadSubject) &&
		!errors.Is(err, nats.ErrPermissionViolation) && !errors.Is(err, snapshot.ErrCorrupt)
}

const (
	codeNotFound  = 10037
	codeWrongLast = 10071
	codeInFlight  = 10164 // a message on the subject waits for a majority, such as an earlier attempt to send this one
)

// lastingCodes are the error codes for lasting problems: the server has no JetStream, no resources or
// no storage, or the stream is full.
var lastingCodes = []jetstream.ErrorCode{10076, 10039, 10023, 10047, 10077}

// retry calls f until f succeeds, f returns an error that is not temporary, or time is up. Time is
// up when ctx ends or, if ctx has no deadline, after the length of a lease.
//
// subject is the subject to which f publishes, or a prefix of that subject. If publishing to it is
// not permitted, retry returns an error at once.
//
// The error is the cause of ctx if ctx has ended, snapshot.ErrCorrupt if f returned that, and
// snapshot.ErrUnavailable otherwise.
func (s *Store) retry(ctx context.Context, subject string, f func(context.Context) error) error {
	return s.retryWithin(ctx, subject, s.options.Lease, s.options.answerTimeout(), f)
}

// retryWithin is like retry, but with the given time limit, and with patience as the time limit for
// each call to f.
func (s *Store) retryWithin(ctx context.Context, subject string, limit, patience time.Duration, f func(context.Context) error) error {
	err := retryFor(ctx, s.conn, subject, limit, patience, f)
	if err != nil && context.Cause(ctx) != nil {
		return context.Cause(ctx)
	} else if err != nil {
		return unavailable(err)
	}
	return nil
}

// setUp is like retry, but it returns errors from f unchanged and waits longer. It is for the calls
// that set up the store: while a cluster elects a leader, no server answers.
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
	for {
		denied := deniedSince(conn)
		once, cancel := context.WithTimeout(ctx, patience)
		err := f(once)
		cancel()
		if err == nil || !isTemporary(err) {
			return err
		}
		if err := denied(subject); err != nil {
			return err
		}
		if ended := pause(ctx, retryPause); ended != nil {
			return fmt.Errorf("%w (%w)", ended, err)
		}
	}
}

const retryPause = 20 * time.Millisecond

// pause waits for d. If ctx ends before that, it returns the cause.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errNoAnswer = errors.New("jetstream: the server does not answer")

// storedMessage is a message in a stream.
type storedMessage struct {
	Subject string      `json:"subject"`
	Seq     uint64      `json:"seq"`
	Header  nats.Header `json:"-"`
	Data    []byte      `json:"data"`
	Time    time.Time   `json:"time"`

	RawHeader []byte `json:"hdrs"` // the encoded header, in an answer from the stream's leader
}

// readDirectly returns the stored message in a replica's answer.
func readDirectly(msg *nats.Msg) (*storedMessage, error) {
	h := msg.Header
	seq, err := strconv.ParseUint(h.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("jetstream: the server's answer has no sequence: %w", err)
	}
	at, _ := time.Parse(time.RFC3339Nano, h.Get(jetstream.TimeStampHeaer))
	return &storedMessage{Subject: h.Get(jetstream.SubjectHeader), Seq: seq, Header: h, Data: msg.Data, Time: at}, nil
}

// readDelivered returns the stored message that a consumer has delivered.
func readDelivered(msg jetstream.Msg) (*storedMessage, *jetstream.MsgMetadata, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, nil, err
	}
	return &storedMessage{Subject: msg.Subject(), Seq: meta.Sequence.Stream, Header: msg.Headers(), Data: msg.Data(), Time: meta.Timestamp}, meta, nil
}

// query selects a message.
type query struct {
	Seq      uint64 `json:"seq,omitempty"`
	Last     string `json:"last_by_subj,omitempty"`
	Next     string `json:"next_by_subj,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// get asks the leader of a stream, which never lags behind, for one message. If there is none, the
// error is errNotFound.
func (s *Store) get(ctx context.Context, stream string, q query) (*storedMessage, error) {
	request, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	var response struct {
		Error   *jetstream.APIError `json:"error"`
		Message *storedMessage      `json:"message"`
	}
	subject := s.api + "STREAM.MSG.GET." + stream
	err = s.retry(ctx, subject, func(ctx context.Context) error {
		msg, err := s.conn.RequestWithContext(ctx, subject, request)
		if err != nil {
			return err
		}
		response.Error, response.Message = nil, nil
		if err := json.Unmarshal(msg.Data, &response); err != nil {
			return fmt.Errorf("jetstream: decode the server's answer: %w", err)
		}
		if response.Error != nil {
			return response.Error
		}
		return nil
	})
	switch m := response.Message; {
	case response.Error != nil && response.Error.ErrorCode == codeNotFound:
		return nil, errNotFound
	case err != nil:
		return nil, err
	case len(m.RawHeader) == 0:
		return m, nil
	default:
		if m.Header, err = nats.DecodeHeadersMsg(m.RawHeader); err != nil {
			return nil, fmt.Errorf("%w: the header of message %d on %s: %w", snapshot.ErrCorrupt, m.Seq, m.Subject, err)
		}
		return m, nil
	}
}

// readBatch and readBytes limit the number and the total size of the messages that one request
// returns.
const (
	readBatch = 500
	readBytes = 8 << 20
)

// read yields the messages on a subject with sequence numbers in the closed interval [from, to].
// The subject may contain wildcards. The last number must be that of a message on the subject.
func (s *Store) read(ctx context.Context, stream, subject string, from, to uint64) iter.Seq2[*storedMessage, error] {
	return func(yield func(*storedMessage, error) bool) {
		for from <= to {
			before := from
			for m, err := range s.readThere(ctx, stream, subject, from, to) {
				if !yield(m, err) || err != nil {
					return
				}
				from = m.Seq + 1
			}
			if from > before {
				continue
			}
			if _, err := s.get(ctx, stream, query{Seq: to}); errors.Is(err, errNotFound) {
				return // the last message was removed, with all earlier ones
			}
			if err := pause(ctx, retryPause); err != nil { // the replica that answered lags behind
				yield(nil, err)
				return
			}
		}
	}
}

// readThere yields the messages on a subject, which may have wildcards, with sequence numbers in
// the closed interval [from, to]. It reads from any replica. If that replica lags behind, the last
// messages may be missing.
func (s *Store) readThere(ctx context.Context, stream, subject string, from, to uint64) iter.Seq2[*storedMessage, error] {
	return func(yield func(*storedMessage, error) bool) {
		for from <= to {
			batch, err := s.readNext(ctx, stream, subject, from, readBatch)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range batch {
				if m.Seq > to || !yield(m, nil) {
					return
				}
				from = m.Seq + 1
			}
			if len(batch) == 0 {
				return
			}
		}
	}
}

// endOfStream is a sequence number higher than that of any message in a stream.
const endOfStream = math.MaxUint64

// countOn returns the number of messages on a subject, which may have wildcards.
func (s *Store) countOn(ctx context.Context, stream, subject string) (int, error) {
	first, err := s.readNext(ctx, stream, subject, 1, 1)
	if err != nil || len(first) == 0 {
		return 0, err
	}
	after, err := strconv.Atoi(first[0].Header.Get(headerPending))
	if err != nil {
		return 0, fmt.Errorf("jetstream: the server's answer has no number of messages: %w", err)
	}
	return 1 + after, nil
}

// headerPending is the header that contains the number of later messages on the subject.
const headerPending = "Nats-Num-Pending"

// readNext asks any replica for the next n messages. If the answer breaks off, it returns fewer.
func (s *Store) readNext(ctx context.Context, stream, subject string, from uint64, n int) (batch []*storedMessage, err error) {
	request, err := json.Marshal(query{Seq: from, Next: subject, Batch: n, MaxBytes: readBytes})
	if err != nil {
		return nil, err
	}
	to := s.api + "DIRECT.GET." + stream
	// The time limit applies to each message, because a batch may be large. The limit grows after
	// each timeout. Otherwise, a slow server would be asked again and again before it could answer,
	// and would become even slower.
	wait := s.options.answerTimeout()
	longest := max(wait, s.options.Lease/2)
	err = s.retryWithin(ctx, to, s.options.Lease, math.MaxInt64, func(ctx context.Context) error {
		batch = batch[:0]
		inbox, err := s.conn.SubscribeSync(s.conn.NewInbox())
		if err != nil {
			return err
		}
		defer inbox.Unsubscribe() //nolint:errcheck // if this fails, connection and subscription are closed
		if err := inbox.SetPendingLimits(-1, -1); err != nil {
			return err
		}
		if err := s.conn.PublishRequest(to, inbox.Subject, request); err != nil {
			return err
		}
		for {
			msg, err := nextWithin(ctx, inbox, wait)
			switch {
			case err == nil:
			case len(batch) > 0:
				return nil // the caller will ask for the rest
			case errors.Is(err, context.DeadlineExceeded): // other errors occur immediately
				wait = min(2*wait, longest)
				return err
			default:
				return err
			}
			switch status := msg.Header.Get("Status"); status {
			case "":
				m, err := readDirectly(msg)
				if err != nil {
					return err
				}
				batch = append(batch, m)
			case "204", "404": // there are no more messages, or none at all
				return nil
			default:
				return fmt.Errorf("jetstream: the server answered %s %s", status, msg.Header.Get("Description"))
			}
		}
	})
	return batch, err
}

// nextWithin waits for the next message on a subscription.
func nextWithin(ctx context.Context, inbox *nats.Subscription, wait time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return inbox.NextMsgWithContext(ctx)
}

// publish appends a message to a stream if the last message on its subject still has the expected
// sequence number, or if expected is 0 and the subject has no message. Otherwise, the error is
// errConflict. A lost acknowledgement does no harm, because the message's ID shows whether the
// message was stored.
func (s *Store) publish(ctx context.Context, stream string, msg *nats.Msg, expected uint64) (seq uint64, err error) {
	return s.publishAfter(ctx, stream, msg, expected, jetstream.WithExpectLastSequencePerSubject(expected))
}

// publishAfter is like publish, but with the given condition, which must imply that the subject
// has no message after expected.
func (s *Store) publishAfter(ctx context.Context, stream string, msg *nats.Msg, expected uint64, condition jetstream.PublishOpt) (seq uint64, err error) {
	err = s.retry(ctx, msg.Subject, func(ctx context.Context) error {
		seq, err = s.publishOnce(ctx, stream, msg, condition)
		return err
	})
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == codeWrongLast {
		return s.findPublished(ctx, stream, msg, expected)
	}
	return seq, err
}

// publishAny publishes a message to a stream, regardless of the last message on its subject, and
// returns the new message's sequence. If the acknowledgement is lost, the message may be stored
// twice.
func (s *Store) publishAny(ctx context.Context, stream string, msg *nats.Msg) (seq uint64, err error) {
	err = s.retry(ctx, msg.Subject, func(ctx context.Context) error {
		seq, err = s.publishOnce(ctx, stream, msg)
		return err
	})
	return seq, err
}

// publishOnce makes one attempt to publish a message to a stream, and returns the message's sequence.
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
		s.noteStored(before, ack.Sequence)
	}
	return ack.Sequence, nil
}

// noteStored records the sequence of a message in the stream of records. before is the newest
// sequence that was known when the message was sent. If the new sequence is not higher, the stream
// has lost messages, and this process's open runs may be lost.
func (s *Store) noteStored(before, seq uint64) {
	for newest := s.newest.Load(); newest < seq && !s.newest.CompareAndSwap(newest, seq); {
		newest = s.newest.Load()
	}
	if seq <= before {
		s.noteDamage()
	}
}

// findPublished is called when the server has refused a message. An earlier attempt may have stored
// the message, which would then be the first one after expected. findPublished returns the
// message's sequence, or errConflict if no earlier attempt stored it.
func (s *Store) findPublished(ctx context.Context, stream string, msg *nats.Msg, expected uint64) (uint64, error) {
	first, err := s.get(ctx, stream, query{Next: msg.Subject, Seq: expected + 1})
	if errors.Is(err, errNotFound) {
		return 0, errConflict
	} else if err != nil {
		return 0, err
	}
	if id := msg.Header.Get(headerID); id == "" || first.Header.Get(headerID) != id {
		return 0, errConflict
	}
	return first.Seq, nil
}

// purge removes all messages on a subject whose sequence is lower than below. If below is 0, it
// removes all messages on the subject.
func (s *Store) purge(ctx context.Context, stream jetstream.Stream, subject string, below uint64) error {
	return s.retry(ctx, s.api+"STREAM.PURGE.", func(ctx context.Context) error {
		return stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(below))
	})
}
