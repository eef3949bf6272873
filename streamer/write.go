package streamer

import (
	"bufio"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/streamer/internal/wire"
)

// The order of lines suits clients that do not conform to the standard. The data of an event comes
// first and the ID last, because some clients move their cursor as soon as they have read the ID,
// and some deliver truncated events. Only events end with an empty line, because some clients turn
// every empty line into an event.

// send moves the cursor, and sends the event if the filter selects it.
func (s *stream) send(f *frame, id cursor) error {
	if id.n > 0 {
		s.at = id
		s.moves++
		if s.created == 0 && s.run != nil {
			s.created = s.run.created.Load() // the first record of the run may have just arrived
		}
	}
	if !s.filter.picks(f) {
		return nil
	}
	if s.vocabulary != "" {
		return s.sendTranslated(f, id, 0)
	}
	if err := s.write(f.bytes()); err != nil {
		return err
	}
	if id.n > 0 {
		return s.endWithID()
	}
	return s.write([]byte("\n"))
}

// endWithID ends an event with its ID, which moves the client's cursor.
func (s *stream) endWithID() error {
	s.sent = s.at
	line := append(s.buffer().AvailableBuffer(), "id: "...)
	line = s.at.append(appendCreated(line, s.created))
	return s.write(append(line, "\n\n"...))
}

// heartbeat shows the client that the connection is alive. If events were filtered out since the
// last event was sent, heartbeat sends an event "cursor", which moves the client's cursor past
// them.
func (s *stream) heartbeat() error {
	if s.at != s.sent && s.at.n > 0 {
		s.event(eventCursor, struct{}{})
	}
	if err := s.write([]byte(":\n")); err != nil {
		return err
	}
	return s.flush()
}

// gap tells the client that events are no longer available, and moves the client's cursor past
// them.
func (s *stream) gap(missed uint64) {
	s.handler.counters.gaps.Add(1)
	s.moves++
	s.event("gap", wire.Gap{RunID: s.runID(), Missed: missed})
}

// reset tells the client to discard what it has received. The stream of a run starts again from the
// beginning.
func (s *stream) reset(reason string) {
	s.handler.counters.resets.Add(1)
	s.moves++
	if s.run != nil {
		// If the client is disconnected now, it must not resume from its old cursor.
		s.at, s.created = cursor{}, 0
	}
	s.event("reset", resetBody{RunID: s.runID(), Reason: reason})
}

func (s *stream) runID() string {
	if s.run == nil {
		return ""
	}
	return s.run.id
}

// resetBody is the data of the event "reset".
type resetBody struct {
	RunID  string `json:"run_id,omitempty"`
	Reason string `json:"reason"`
}

// eventCursor is the name of the event that moves a client's cursor past events that
// the client did not select.
const eventCursor = "cursor"

// event sends an event about the stream itself, with the cursor as its ID. If the connection is
// broken, the next flush returns the error.
func (s *stream) event(name string, body any) {
	_ = s.write(fmt.Appendf(nil, "data: %s\nevent: %s\n", mustJSON(body), name))
	_ = s.endWithID()
}

// gatherBytes is the number of bytes that are buffered before a write, and the size of the pieces
// in which a response is written. It is not larger because a client must read that much within the
// write timeout.
const gatherBytes = 16 << 10

// newBuffer makes a buffer for [Handler.buffers].
func newBuffer() any { return bufio.NewWriterSize(nil, gatherBytes) }

// buffer returns the buffer that gathers writes. A client has a buffer only while something is
// being sent to it, because most clients wait most of the time.
func (s *stream) buffer() *bufio.Writer {
	if s.out == nil {
		s.out = s.handler.buffers.Get().(*bufio.Writer)
		s.out.Reset(s.w)
	}
	return s.out
}

func (s *stream) release() {
	if s.out != nil {
		s.out.Reset(nil)
		s.handler.buffers.Put(s.out)
		s.out = nil
	}
}

func (s *stream) write(p []byte) error {
	_, err := s.buffer().Write(p)
	return writeError(err)
}

func (s *stream) flush() error {
	if s.out == nil {
		return nil
	}
	s.flushed = time.Now()
	err := s.out.Flush()
	s.release()
	if err == nil {
		err = s.control.Flush()
	}
	return writeError(err)
}

// writeError returns errSlow if a write failed because the client was too slow. Otherwise, it
// returns err.
func writeError(err error) error {
	var timeout interface{ Timeout() bool }
	if err != nil && errors.As(err, &timeout) && timeout.Timeout() {
		return errSlow
	}
	return err
}
