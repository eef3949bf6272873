package turn

import (
	"bytes"
	"context"
	"net/http"
	"time"
)

// A Response is an event stream to one client. It is not safe for concurrent use.
type Response struct {
	W            http.ResponseWriter
	Heartbeat    time.Duration // time between comments while nothing happens
	WriteTimeout time.Duration // how long the client may take to accept a write

	control *http.ResponseController
	buffer  bytes.Buffer
}

// Begin sends the response header.
func (r *Response) Begin() error {
	r.control = http.NewResponseController(r.W)
	header := r.W.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-store, no-transform")
	header.Set("X-Accel-Buffering", "no") // tells nginx not to buffer
	header.Set("Connection", "close")     // the write deadline would remain on a reused connection
	r.W.WriteHeader(http.StatusOK)
	return r.Flush()
}

// Write adds a frame to the buffer.
func (r *Response) Write(frame []byte) { r.buffer.Write(frame) }

// Flush sends the buffer.
func (r *Response) Flush() error {
	_ = r.control.SetWriteDeadline(time.Now().Add(r.WriteTimeout)) // not every writer supports deadlines
	_, err := r.W.Write(r.buffer.Bytes())
	r.buffer.Reset()
	if err != nil {
		return err
	}
	return r.control.Flush()
}

// gatherBytes is how many bytes are buffered before they are sent.
const gatherBytes = 64 << 10

// Follow sends a log's frames from the given index on, until a frame that ends the turn or asks the
// client for answers. After a frame with Snapshot set, it calls write, which must write the snapshot.
// Follow returns the last frame, or the error from the log or the connection.
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
			if r.buffer.Len() >= gatherBytes {
				if err := r.Flush(); err != nil {
					return nil, err
				}
			}
		}
		if n := len(frames); n > 0 {
			from += n
			if end := l.endAt(from); end != nil {
				return end, nil // the caller flushes the frame together with what follows
			}
			if err := r.Flush(); err != nil {
				return nil, err
			}
			continue
		}
		heartbeat.Reset(r.Heartbeat)
		select {
		case <-more:
			if end := l.endAt(from); end != nil { // an answer could not be stored: the question is open again
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
