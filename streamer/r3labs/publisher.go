package r3labs

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/r3labs/sse/v2"

	"github.com/reprise-go/reprise/record"
)

// Options are the settings of a [Publisher].
type Options struct {
	// Guard is the handler that serves the server. With a guard, a run's stream is removed once the
	// run has ended and no client is connected to it. Without a guard, no stream is removed.
	Guard *Guarded

	// All is the name of the stream of all runs. Defaults to "runs"; "-" means that there
	// is no such stream.
	All string

	// Stream returns the name of a run's stream, or "" if the run has no stream of its own.
	// Defaults to the run ID. If Stream returns the same name as All, the run is only in the stream
	// of all runs. Stream is called by the goroutine that publishes a record.
	Stream func(runID string) string

	// Queue is the number of events of each stream that may wait for the server. Defaults to 1,024.
	Queue int

	// AutoReplay allows New to accept a server with AutoReplay. The package documentation describes
	// the consequences.
	AutoReplay bool

	// Redact is applied to every text in inputs, outputs and errors; see
	// record.Record.Redacted. If it is nil, texts are not redacted.
	Redact func(text string) string
}

const defaultQueue = 1024

// A Publisher publishes records on the streams of a server. It can be used as the publisher of
// runs, and is safe for concurrent use. Close ends it.
type Publisher struct {
	server  *sse.Server
	options Options
	all     *stream // nil if there is none

	mu      sync.RWMutex // guards the fields below
	streams map[string]*stream
	closed  bool
	sending sync.WaitGroup // goroutines that empty queues

	counters counters
}

type counters struct {
	sent    atomic.Uint64
	lost    atomic.Uint64
	refused atomic.Uint64
}

// New returns a publisher for the server. The caller must close the publisher before the server.
func New(server *sse.Server, options Options) (*Publisher, error) {
	switch {
	case server == nil:
		return nil, errors.New("r3labs: the server is nil")
	case server.EncodeBase64:
		return nil, errors.New("r3labs: the server's EncodeBase64 is on: only its own client could read the events; turn it off")
	case server.AutoReplay && !options.AutoReplay:
		return nil, errors.New("r3labs: the server's AutoReplay is on: it would keep all events forever, replace their IDs, and repeat events to clients that reconnect; set server.AutoReplay = false before New, or set Options.AutoReplay to accept that")
	case server.EventTTL != 0 && !server.AutoReplay:
		return nil, fmt.Errorf("r3labs: with an EventTTL of %v and AutoReplay off, the server would treat every event as expired; set EventTTL to 0", server.EventTTL)
	case options.Queue < 0:
		return nil, fmt.Errorf("r3labs: Options.Queue is %d: want 1 or more, or 0 for %d", options.Queue, defaultQueue)
	case options.Guard != nil && options.Guard.server != server:
		return nil, errors.New("r3labs: Options.Guard guards another server")
	}
	if options.Queue == 0 {
		options.Queue = defaultQueue
	}
	if options.All == "" {
		options.All = "runs"
	}
	p := &Publisher{server: server, options: options, streams: make(map[string]*stream)}
	if options.All != "-" {
		s, err := p.open(options.All)
		if err != nil {
			return nil, err
		}
		s.generation = randomGeneration()
		p.all = s
	}
	if options.Guard != nil {
		options.Guard.add(p.onEmpty)
	}
	return p, nil
}

// randomGeneration returns a number for use in IDs, which no other process uses.
func randomGeneration() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // rand.Read never fails
	return binary.LittleEndian.Uint64(b[:])
}

// open creates the stream with the given name, both here and on the server. p.mu must be held,
// unless p is not shared yet.
func (p *Publisher) open(name string) (*stream, error) {
	s := &stream{name: name, limit: p.options.Queue, own: !p.server.StreamExists(name)}
	// If the stream already exists, the server keeps its settings.
	if there := p.server.CreateStream(name); there.AutoReplay && !p.options.AutoReplay {
		return nil, fmt.Errorf("r3labs: the stream %q already exists with AutoReplay on: choose another name, or set Options.AutoReplay to accept that", name)
	}
	p.streams[name] = s
	return s, nil
}

// Publish adds the record to the queues of its run's stream and of the stream of all runs. It never
// waits. After Close, it does nothing.
func (p *Publisher) Publish(rec record.Record) {
	rec = rec.Redacted(p.options.Redact)
	name := rec.RunID
	if p.options.Stream != nil {
		name = p.options.Stream(rec.RunID)
	}
	e := &event{rec: &rec}
	p.mu.RLock()
	s := p.streams[name]
	if s == nil && name != "" && !p.closed {
		p.mu.RUnlock()
		p.create(name)
		p.mu.RLock()
		s = p.streams[name]
	}
	defer p.mu.RUnlock()
	if p.closed {
		return
	}
	if s == nil && name != "" {
		p.counters.refused.Add(1)
	}
	if s != nil && s != p.all {
		p.push(s, e)
	}
	if p.all != nil {
		p.push(p.all, e)
	}
}

// create creates the stream of a run unless it already exists. If the stream cannot be used, create
// does not try again later.
func (p *Publisher) create(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.streams[name]; there || p.closed {
		return
	}
	if _, err := p.open(name); err != nil {
		p.streams[name] = nil
	}
}

// push queues an event and, if necessary, starts the goroutine that sends events. p.mu must be
// held.
func (p *Publisher) push(s *stream, e *event) {
	starts, lost := s.push(e)
	if lost {
		p.counters.lost.Add(1)
	}
	if starts {
		p.sending.Go(func() { p.send(s) })
	}
}

// send sends the queued events until the queue is empty.
func (p *Publisher) send(s *stream) {
	for {
		q, more := s.pop()
		if !more {
			break
		}
		// Server.Publish ignores a stream that the server has removed. With AutoStream, the
		// server removes a stream when its last client leaves; Server.Close removes all streams.
		p.server.Publish(s.name, s.encode(q))
		if q.event != nil {
			p.counters.sent.Add(1)
		}
	}
	p.retire(s)
}

// onEmpty is called when the last client of a stream has left.
func (p *Publisher) onEmpty(name string) {
	p.mu.RLock()
	s := p.streams[name]
	p.mu.RUnlock()
	if s != nil {
		p.retire(s)
	}
}

// retire removes a run's stream if the run has ended, all its events have been sent, and no client
// is connected.
func (p *Publisher) retire(s *stream) {
	if p.options.Guard == nil || !s.isDone() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.streams[s.name] != s || !s.isDone() {
		return
	}
	if p.options.Guard.remove(s.name) {
		delete(p.streams, s.name)
	}
}

// Stats are the counters of a [Publisher].
type Stats struct {
	Streams int    // streams on which the publisher publishes
	Sent    uint64 // events that were passed to the server
	Lost    uint64 // events that did not fit into a stream's queue
	Refused uint64 // events of runs whose stream cannot be used
}

// Stats returns the counters.
func (p *Publisher) Stats() Stats {
	p.mu.RLock()
	defer p.mu.RUnlock()
	n := 0
	for _, s := range p.streams {
		if s != nil {
			n++
		}
	}
	return Stats{Streams: n, Sent: p.counters.sent.Load(), Lost: p.counters.lost.Load(), Refused: p.counters.refused.Load()}
}

// Close waits until the queued events have been sent. With a guard, it then removes the streams
// that this publisher created, except those with clients. If ctx ends first, Close returns the
// cause of ctx. In that case, a client that does not read blocks the server until the server is
// closed. Close may be called more than once.
func (p *Publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.sending.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("r3labs: close: %w", context.Cause(ctx))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, s := range p.streams {
		if s != nil && s.own && p.options.Guard != nil && p.options.Guard.remove(name) {
			delete(p.streams, name)
		}
	}
	return nil
}
