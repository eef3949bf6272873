package turn

import (
	"context"
	"net/http"
	"time"
)

// A Response is an event stream to a single client. It is not safe for concurrent use. W must be
// the writer passed by [streamer.Handler.AdmitFunc], which cuts off clients that do not read.
type Response struct {
	W         http.ResponseWriter
	Proto     int           // the request's ProtoMajor
	Heartbeat time.Duration // time between comments while nothing is happening
	TTL       time.Duration // how long Follow may last; see streamer.Access

	control *http.ResponseController
	err     error // the first error of the connection
}

// Begin sends the response header.
func (r *Response) Begin() error {
	r.control = http.NewResponseController(r.W)
	header := r.W.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-store, no-transform")
	header.Set("X-Accel-Buffering", "no") // tells nginx not to buffer
	if r.Proto == 1 {
		header.Set("Connection", "close") // some clients read until the connection ends; with HTTP/2, this would end all streams
	}
	r.W.WriteHeader(http.StatusOK)
	return r.Flush()
}

// Write writes a frame or part of one. If this fails, the next Flush returns an error.
func (r *Response) Write(frame []byte) {
	if r.err == nil {
		_, r.err = r.W.Write(frame)
	}
}

// Flush sends what was written but not yet sent.
func (r *Response) Flush() error {
	if r.err == nil {
		r.err = r.control.Flush()
	}
	return r.err
}

// Follow sends a log's frames from the given index on, until a frame that ends the turn or asks the
// client for answers. After a frame in which Snapshot is set, it calls write, which must write the
// snapshot. Follow returns the last frame. If the log or the connection fails, it returns that
// error instead; if ctx ends or the TTL expires, it returns the cause.
func (r *Response) Follow(ctx context.Context, l *Log, from int, write func(*Frame)) (*Frame, error) {
	if r.TTL > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.TTL)
		defer cancel()
	}
	heartbeat := time.NewTimer(r.Heartbeat)
	defer heartbeat.Stop()
	for {
		frames, more, err := l.Frames(from)
		if err != nil {
			return nil, err
		}
		for i := range frames {
			r.Write(frames[i].Data)
			if frames[i].Snapshot {
				write(&frames[i])
			}
			if r.err != nil {
				return nil, r.err
			}
		}
		if n := len(frames); n > 0 {
			from += n
			if end := l.endAt(from); end != nil {
				return end, nil // the caller flushes the frame together with what it writes next
			}
			if err := r.Flush(); err != nil {
				return nil, err
			}
			continue
		}
		heartbeat.Reset(r.Heartbeat)
		select {
		case <-more:
			if end := l.endAt(from); end != nil { // an answer could not be stored, so the question is open again
				return end, nil
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-heartbeat.C:
			r.Write([]byte(":\n\n"))
			if err := r.Flush(); err != nil {
				return nil, err
			}
		}
	}
}
