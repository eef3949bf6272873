package agui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/reprise-go/reprise/streamer/internal/turn"
)

// protocolVersion is the version of AG-UI that this package implements.
const protocolVersion = "1.0"

func (s *stream) begin() error {
	s.begun = true
	if err := s.Begin(); err != nil {
		return err
	}
	s.Write(appendEvent(nil, &event{Type: "RUN_STARTED", ThreadID: s.input.ThreadID, RunID: s.input.RunID, ProtocolVersion: protocolVersion}))
	return nil
}

// follow sends a run's frames, starting at index at, until the run ends or pauses. If the client
// attaches, follow first sends it a snapshot that contains the earlier messages and the result of
// stream.withdrawal.
func (s *stream) follow(ctx context.Context, runID string, at int, withdrawal []byte) error {
	l, release, err := s.handler.hub.Open(ctx, runID)
	if err != nil {
		return err
	}
	defer release()
	if err := s.begin(); err != nil {
		return err
	}
	if s.attaches {
		s.snapshot(withdrawal)
	}
	s.input = &input{ThreadID: s.input.ThreadID, RunID: s.input.RunID} // the messages may be large, and the stream may last for days
	end, err := s.Follow(ctx, l, at, func(f *turn.Frame) { s.snapshot(f.Messages) })
	if err != nil {
		return err
	}
	if len(withdrawal) > 0 && !end.Snapshot { // makes the client drop the withdrawal if the turn has thoughts
		s.snapshot(end.Messages)
	}
	s.finish(end.Tail)
	return s.Flush()
}

// snapshot sends a snapshot of the messages before the turn and the given messages. The client
// drops messages that a snapshot omits.
func (s *stream) snapshot(messages []byte) {
	s.Write([]byte(`data: {"type":"MESSAGES_SNAPSHOT","messages":[`))
	for i, m := range s.base {
		if i > 0 {
			s.Write([]byte(","))
		}
		s.Write(m)
	}
	if len(s.base) > 0 && len(messages) > 0 {
		s.Write([]byte(","))
	}
	s.Write(messages)
	s.Write([]byte("]}\n\n"))
}

// finish writes the last event, with the thread and run IDs of the request.
func (s *stream) finish(tail []byte) {
	const finished = `data: {"type":"RUN_FINISHED"`
	rest, ok := bytes.CutPrefix(tail, []byte(finished))
	if !ok {
		s.Write(tail)
		return
	}
	s.Write([]byte(finished + `,"threadId":`))
	s.Write(quote(s.input.ThreadID))
	s.Write([]byte(`,"runId":`))
	s.Write(quote(s.input.RunID))
	s.Write(rest)
}

// quote returns a string as JSON.
func quote(text string) []byte {
	quoted, _ := json.Marshal(text) // a string can always be encoded
	return quoted
}

// end ends the response. If err is a refusal, it is sent as a RUN_ERROR. If the stream is broken,
// end aborts the connection, because a response that looked complete would keep the client from
// reconnecting.
func (s *stream) end(err error) {
	var refused *turn.Refusal
	switch {
	case err == nil:
		return
	case errors.As(err, &refused), !s.begun && !errors.Is(err, turn.ErrClosed):
		if !s.begun && s.Begin() != nil {
			return
		}
		r := turn.RefusalOf(err)
		s.Write(appendEvent(nil, &event{Type: "RUN_ERROR", Message: r.Message, Code: r.Code}))
		_ = s.Flush() // if this fails, the client has disconnected
	default:
		panic(http.ErrAbortHandler)
	}
}
