package turn

import (
	"bytes"
	"context"
	"net/http"
	"time"
)

// A Response is the stream of one client. It is for one goroutine.
type Response struct {
	W            http.ResponseWriter
	Heartbeat    time.Duration // between comments while nothing happens
	WriteTimeout time.Duration // for the client to take what is written

	control *http.ResponseController
	buffer  bytes.Buffer
}

// Begin sends the head.
func (r *Response) Begin() error {
	r.control = http.NewResponseController(r.W)
	header := r.W.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-store, no-transform")
	header.Set("X-Accel-Buffering", "no") // nginx
	header.Set("Connection", "close")     // the write deadline stays with the connection
	r.W.WriteHeader(http.StatusOK)
	return r.Flush()
}

// Write adds a frame to what is flushed next.
func (r *Response) Write(frame []byte) { r.buffer.Write(frame) }

// Flush sends what was written.
func (r *Response) Flush() error {
	_ = r.control.SetWriteDeadline(time.Now().Add(r.WriteTimeout)) // not every writer has one
	_, err := r.W.Write(r.buffer.Bytes())
	r.buffer.Reset()
	if err != nil {
		return err
	}
	return r.control.Flush()
}

// gather is how much is written at a time.
const gather = 64 << 10

// Follow sends the frames of a log from the place on, until one that ends the turn, or after
// which it waits for the client. Write may be nil; it writes a frame that needs more than its
// data. It returns the last frame, or why the log or the connection is broken.
func (r *Response) Follow(ctx context.Context, l *Log, from int, write func(*Frame)) (*Frame, error) {
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
			if r.buffer.Len() >= gather {
				if err := r.Flush(); err != nil {
					return nil, err
				}
			}
		}
		if n := len(frames); n > 0 {
			from += n
			if at, last := l.End(); at == from && last.IsEnd() {
				return &frames[n-1], nil // the caller flushes it with what follows
			}
			if err := r.Flush(); err != nil {
				return nil, err
			}
			continue
		}
		heartbeat.Reset(r.Heartbeat)
		select {
		case <-more:
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
