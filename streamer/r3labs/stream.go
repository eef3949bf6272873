package r3labs

import (
	"encoding/json"
	"strconv"
	"sync"

	"github.com/r3labs/sse/v2"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer/internal/wire"
)

// maxData is the maximum length of the data of an event. It keeps an event, including its name and
// ID, below the 64 KB that the client of r3labs/sse can read.
const maxData = 60 << 10

// An event is a record that is encoded only once for all its streams, by the first goroutine that
// sends it.
type event struct {
	once sync.Once
	rec  *record.Record
	data []byte
}

func (e *event) bytes() []byte {
	e.once.Do(func() { e.data = wire.JSON(e.rec, maxData) })
	return e.data
}

// stream is one stream with its queue.
type stream struct {
	name       string
	limit      int
	own        bool   // whether the publisher created the stream on the server
	generation uint64 // first number of the IDs in the stream of all runs; 0 in the stream of a run

	mu      sync.Mutex // guards the fields below
	queue   []queuedEvent
	lost    uint64 // events lost after the last event in the queue
	sending bool
	ended   bool // the newest record ends the run

	// The fields below belong to the goroutine that sends events. There is only one at a time.
	n      uint64 // number of events so far in the stream of all runs
	lastID []byte
}

// queuedEvent holds an event and the number of events that were lost before it. If event is nil, it
// holds only a gap.
type queuedEvent struct {
	event *event
	lost  uint64
}

// push queues an event. If starts is true, the caller must start the goroutine that sends events.
func (s *stream) push(e *event) (starts, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.rec.Kind == record.KindRun {
		s.ended = e.rec.Status != record.StatusStarted
	}
	if len(s.queue) >= s.limit {
		s.lost++
		return false, true // the goroutine that sends events is already running
	}
	s.queue = append(s.queue, queuedEvent{event: e, lost: s.lost})
	s.lost = 0
	starts, s.sending = !s.sending, true
	return starts, false
}

// pop takes the next event from the queue. If there is none, the goroutine that sends events must
// end.
func (s *stream) pop() (q queuedEvent, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.queue) > 0 && s.queue[0].lost > 0:
		q = queuedEvent{lost: s.queue[0].lost}
		s.queue[0].lost = 0
	case len(s.queue) > 0:
		q = s.queue[0]
		s.queue[0] = queuedEvent{}
		s.queue = s.queue[1:]
	case s.lost > 0:
		q = queuedEvent{lost: s.lost}
		s.lost = 0
	default:
		s.queue, s.sending = nil, false
		return queuedEvent{}, false
	}
	return q, true
}

// isDone reports whether the run has ended and all its events were sent.
func (s *stream) isDone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own && s.generation == 0 && s.ended && !s.sending
}

// encode returns a new event each time, because the server changes the events that it is given.
func (s *stream) encode(q queuedEvent) *sse.Event {
	if q.event == nil {
		gap := wire.Gap{Missed: q.lost}
		if s.generation == 0 {
			gap.RunID = s.name
		}
		data, _ := json.Marshal(gap) // encoding strings and numbers never fails
		s.n += q.lost
		if s.generation != 0 {
			s.lastID = s.id(s.generation, s.n)
		}
		return &sse.Event{ID: s.lastID, Event: []byte("gap"), Data: data}
	}
	r := q.event.rec
	switch {
	case s.generation != 0:
		s.n++
		s.lastID = s.id(s.generation, s.n)
	case !r.Replayed && r.Seq > 0:
		s.lastID = s.id(r.Generation, r.Seq)
	}
	return &sse.Event{ID: s.lastID, Event: []byte(wire.Name(r)), Data: q.event.bytes()}
}

func (s *stream) id(generation, n uint64) []byte {
	b := strconv.AppendUint(nil, generation, 10)
	return strconv.AppendUint(append(b, '-'), n, 10)
}
