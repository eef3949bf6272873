package jetstream

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/snapshot"
)

// kind specifies what a run's message means.
type kind string

const (
	kindOpened   kind = "open"    // a generation begins
	kindAppended kind = "records" // records of the open generation
	kindSettled  kind = "set"     // no process has the run open: it was created, closed or updated
	kindDeleted  kind = "deleted"
)

// A message is a message on a run's subject. The last message on the subject contains the run's
// current state. To append a message, a process must know the last one, so it has read all earlier
// messages.
type message struct {
	seq  uint64 // sequence in the stream
	kind kind
	id   string // unique ID of this message

	generation uint64
	last       uint64 // the number of the newest record, including those in this message

	session string // opened, appended: the session that has the run open
	opening uint64 // appended: the sequence of the message that opened the run
	born    string // all kinds but appended: distinguishes the run from a deleted one with the same ID

	info     []byte // all kinds but appended: the run's info
	records  []byte // encoded, one after the other
	artifact string // reference of the artifact that holds the records, if they are too large for a message
}

// The headers of messages.
const (
	headerKind       = "Rp-Kind"
	headerID         = "Rp-Id"
	headerGeneration = "Rp-Generation"
	headerLast       = "Rp-Last"
	headerSession    = "Rp-Session"
	headerOpening    = "Rp-Opening"
	headerBorn       = "Rp-Born"
	headerInfo       = "Rp-Info" // number of bytes of info at the start of the payload
	headerArtifact   = "Rp-Artifact"
	headerVersion    = "Rp-Version" // index: the sequence of the message from which the entry was derived
	headerVersionID  = "Rp-Version-Id"
	headerLease      = "Rp-Lease" // heartbeat: how long the heartbeat is valid
)

// deletedTTL is how long the message about a run's deletion is kept, so that the run's followers
// can see it.
const deletedTTL = time.Hour

// headerRoom is an upper bound on the size of a message's headers.
const headerRoom = 2048

func (m *message) encode(subject string) *nats.Msg {
	msg := nats.NewMsg(subject)
	h := msg.Header
	h.Set(headerKind, string(m.kind))
	h.Set(headerID, m.id)
	h.Set(headerGeneration, strconv.FormatUint(m.generation, 10))
	h.Set(headerLast, strconv.FormatUint(m.last, 10))
	for name, value := range map[string]string{headerSession: m.session, headerBorn: m.born, headerArtifact: m.artifact} {
		if value != "" {
			h.Set(name, value)
		}
	}
	if m.kind == kindDeleted {
		h.Set(jetstream.MsgTTLHeader, deletedTTL.String())
	}
	if m.opening > 0 {
		h.Set(headerOpening, strconv.FormatUint(m.opening, 10))
	}
	if len(m.info) > 0 {
		h.Set(headerInfo, strconv.Itoa(len(m.info)))
	}
	msg.Data = append(append(make([]byte, 0, len(m.info)+len(m.records)), m.info...), m.records...)
	return msg
}

// decode decodes a message on a run's subject. If the message was not written by this package, the
// error is snapshot.ErrCorrupt.
func decode(from *storedMessage) (*message, error) {
	h, data := from.Header, from.Data
	m := &message{
		seq: from.Seq, kind: kind(h.Get(headerKind)), id: h.Get(headerID), session: h.Get(headerSession),
		born: h.Get(headerBorn), artifact: h.Get(headerArtifact),
	}
	numbers := headerReader{h: h}
	m.generation, m.last = numbers.uint(headerGeneration), numbers.uint(headerLast)
	if m.kind == kindAppended {
		m.opening = numbers.uint(headerOpening)
	}
	info := 0
	if h.Get(headerInfo) != "" {
		info = int(min(numbers.uint(headerInfo), 1<<31-1))
	}
	switch {
	case m.kind != kindOpened && m.kind != kindAppended && m.kind != kindSettled && m.kind != kindDeleted:
		numbers.err = fmt.Errorf("its kind is %q", m.kind)
	case info > len(data):
		numbers.err = fmt.Errorf("it has %d bytes, fewer than the %d bytes of its info", len(data), info)
	case info == 0 && m.kind != kindAppended:
		numbers.err = errors.New("it has no info")
	case m.kind == kindAppended && m.opening == 0 && numbers.err == nil:
		numbers.err = fmt.Errorf("the header %s is %q; want the sequence of a message", headerOpening, h.Get(headerOpening))
	}
	if numbers.err != nil {
		return nil, fmt.Errorf("%w: message %d on %s was not written by Reprise: %w", snapshot.ErrCorrupt, from.Seq, from.Subject, numbers.err)
	}
	m.info, m.records = data[:info:info], data[info:]
	return m, nil
}

// headerReader reads numbers from headers. It keeps the error for the first invalid number.
type headerReader struct {
	h   nats.Header
	err error
}

func (r *headerReader) uint(name string) uint64 {
	n, err := strconv.ParseUint(r.h.Get(name), 10, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("the header %s is %q", name, r.h.Get(name))
	}
	return n
}

// isOpen reports whether the message leaves the run open.
func (m *message) isOpen() bool { return m.kind == kindOpened || m.kind == kindAppended }
