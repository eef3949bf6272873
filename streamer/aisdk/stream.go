package aisdk

import (
	"context"
	"errors"
	"net/http"

	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/internal/turn"
)

// A stream is the response to a single client.
type stream struct {
	handler *Handler
	turn.Response
	leave func()
	begun bool
}

func (h *Handler) enter(w http.ResponseWriter, req *http.Request, scope *streamer.Access) (*stream, error) {
	leave, err := h.dash.Enter(req, scope)
	if err != nil {
		return nil, err
	}
	return &stream{handler: h, leave: leave, Response: turn.Response{W: w, Proto: req.ProtoMajor, Heartbeat: h.options.Heartbeat, TTL: scope.TTL}}, nil
}

func (s *stream) begin() error {
	s.begun = true
	s.W.Header().Set("X-Vercel-AI-UI-Message-Stream", "v1")
	return s.Begin()
}

// follow sends a run's frames until the run ends or pauses. It starts at index from, or at the
// beginning if from is nil.
func (s *stream) follow(ctx context.Context, runID string, from *int) error {
	l, release, err := s.handler.hub.Open(ctx, runID)
	if err != nil {
		return err
	}
	defer release()
	if err := s.begin(); err != nil {
		return err
	}
	s.Write(appendChunk(nil, &chunk{Type: "start", MessageID: runID}))
	at := l.Begin()
	if from != nil {
		at = *from
	}
	end, err := s.Follow(ctx, l, at, nil)
	if err != nil {
		return err
	}
	s.Write(end.Tail)
	return s.Flush()
}

// end ends the response. If err is a refusal, it is sent as an "error" part. If the stream is
// broken, end aborts the connection, because a response that looked complete would keep the client
// from reconnecting.
func (s *stream) end(err error) {
	var refused *turn.Refusal
	switch {
	case err == nil:
		return
	case errors.As(err, &refused), !s.begun && !errors.Is(err, turn.ErrClosed):
		if !s.begun && s.begin() != nil {
			return
		}
		s.Write(appendChunk(nil, &chunk{Type: "error", ErrorText: turn.RefusalOf(err).Message}))
		s.Write([]byte(done))
		_ = s.Flush() // if this fails, the client has disconnected
	default:
		panic(http.ErrAbortHandler)
	}
}
