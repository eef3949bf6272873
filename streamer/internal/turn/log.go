package turn

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/reprise-go/reprise/streamer"
)

// An Encoder encodes the events of one run, in order, as frames of a protocol.
type Encoder interface{ Encode(e *Event) Frame }

// A Frame is an event in the form in which clients receive it.
type Frame struct {
	Kind Kind
	Data []byte // the encoded event; nil if the event is not sent

	// Messages contains the turn's messages as JSON, separated by commas. It is set if Snapshot is
	// set, or if the event ends or pauses the run. Snapshot means that a snapshot of all messages
	// follows the frame. The snapshot is written by the reader, which knows the earlier messages.
	Messages []byte
	Snapshot bool

	Tail  []byte     // written after the last frame of a response
	Asked []Question // for Paused, the open questions; for Answered, the question that was answered
}

// A Log contains all of a run's frames, from the first one on, and grows while the run continues.
// Any number of readers can start at any index.
type Log struct {
	mu       sync.Mutex
	frames   []Frame
	begins   int           // see Begin
	changed  chan struct{} // closed when there are more frames; nil while no reader is waiting
	err      error         // why there will be no more frames
	prompt   string
	answered map[string]bool // questions, by ID on the wire, whose answers are in the store but not yet in a frame

	ready chan struct{} // closed when the log has caught up with the run
	stop  context.CancelFunc
	refs  int // guarded by Hub.mu
	idle  uint64
}

// A Source provides the runs that a [Hub] reads. A [streamer.Handler] implements it.
type Source interface {
	Runs
	Follow(ctx context.Context, runID string) iter.Seq2[streamer.FollowEvent, error]
}

// A Hub holds the logs of the runs that are being read. It is safe for concurrent use.
type Hub struct {
	source  Source
	encoder func(runID string) Encoder

	mu      sync.Mutex
	logs    map[string]*Log
	clock   uint64
	closed  bool
	writing sync.WaitGroup
}

// NewHub returns a hub. The caller must close it.
func NewHub(source Source, encoder func(runID string) Encoder) *Hub {
	return &Hub{source: source, encoder: encoder, logs: make(map[string]*Log)}
}

// ErrClosed is returned by a closed hub.
var ErrClosed = errors.New("turn: the server is shutting down")

// maxIdle is how many logs without a reader are kept. If a page reloads while the model is writing
// a text, the log that was kept still contains the beginning of that text.
const maxIdle = 64

// Open returns a run's log once the log has caught up with the run. The caller must call
// release.
func (h *Hub) Open(ctx context.Context, runID string) (l *Log, release func(), err error) {
	if l, err = h.acquire(ctx, runID); err != nil {
		return nil, nil, err
	}
	release = func() { h.release(runID, l) }
	select {
	case <-l.ready:
	case <-ctx.Done():
		release()
		return nil, nil, context.Cause(ctx)
	}
	return l, release, nil
}

func (h *Hub) acquire(ctx context.Context, runID string) (*Log, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	l := h.logs[runID]
	if l == nil || l.failure() != nil {
		l = &Log{ready: make(chan struct{})}
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // the log outlives the request
		l.stop = stop
		h.logs[runID] = l
		h.writing.Go(func() { l.write(ctx, h.source, h.encoder(runID), runID) })
	}
	l.refs++
	return l, nil
}

func (h *Hub) release(runID string, l *Log) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.refs--
	h.clock++
	l.idle = h.clock
	if l.refs > 0 {
		return
	}
	if h.closed || l.isOver() || h.logs[runID] != l {
		h.drop(runID, l)
		return
	}
	h.dropOldest()
}

func (h *Hub) drop(runID string, l *Log) {
	l.stop()
	if h.logs[runID] == l {
		delete(h.logs, runID)
	}
}

// dropOldest drops the least recently read idle log if there are too many.
func (h *Hub) dropOldest() {
	idle, oldest := 0, ""
	for runID, l := range h.logs {
		if l.refs > 0 {
			continue
		}
		idle++
		if oldest == "" || l.idle < h.logs[oldest].idle {
			oldest = runID
		}
	}
	if idle > maxIdle {
		h.drop(oldest, h.logs[oldest])
	}
}

// Close ends all logs and waits for their writers.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	for _, l := range h.logs {
		l.stop()
	}
	h.mu.Unlock()
	h.writing.Wait()
}

// write fills the log until ctx ends.
func (l *Log) write(ctx context.Context, source Source, encoder Encoder, runID string) {
	caughtUp := sync.OnceFunc(func() { close(l.ready) })
	err := l.fill(ctx, source, encoder, runID, caughtUp)
	l.mu.Lock()
	if l.err = err; err == nil {
		l.err = ErrClosed
	}
	l.wake()
	l.mu.Unlock()
	caughtUp()
}

// fill is like write, but returns the error that ends the log. A panic becomes an error, because it
// would end the process with all its runs.
func (l *Log) fill(ctx context.Context, source Source, encoder Encoder, runID string, caughtUp func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p, debug.Stack()}
		}
	}()
	b := NewBuilder(source, runID)
	for e, err := range source.Follow(ctx, runID) {
		if err != nil {
			return err
		}
		events, err := b.Add(ctx, e)
		if err != nil {
			return err
		}
		l.append(encoder, events, b.Prompt)
		if e.CaughtUp {
			caughtUp()
		}
	}
	return nil
}

// A panicError is the panic of a log's writer.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("turn: panic: %v\n%s", e.value, e.stack) }

func (l *Log) append(encoder Encoder, events []Event, prompt string) {
	if len(events) == 0 && prompt == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prompt = prompt
	for i := range events {
		l.frames = append(l.frames, encoder.Encode(&events[i]))
		switch events[i].Kind {
		case TurnVoid:
			l.begins = len(l.frames)
		case Answered:
			for _, q := range events[i].Asked {
				delete(l.answered, q.ID)
			}
		}
	}
	if len(events) > 0 {
		l.wake()
	}
}

// wake wakes the readers. l.mu must be held.
func (l *Log) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

func (l *Log) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// isOver reports whether there will be no more frames until the run is answered or resumed.
func (l *Log) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil || l.endLocked(len(l.frames)) != nil
}

// endAt returns the last frame if the log contains n frames and there will be no more until the run
// is answered or resumed. Otherwise it returns nil.
func (l *Log) endAt(n int) *Frame {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endLocked(n)
}

// endLocked is like endAt, but l.mu must be held. If one of the questions in the last frame has been
// answered, more frames will come, because the run is about to continue.
func (l *Log) endLocked(n int) *Frame {
	if n == 0 || n != len(l.frames) || !l.frames[n-1].Kind.IsEnd() {
		return nil
	}
	last := &l.frames[n-1]
	if slices.ContainsFunc(last.Asked, func(q Question) bool { return l.answered[q.ID] }) {
		return nil
	}
	return last
}

// Prompt returns what the user said in the turn.
func (l *Log) Prompt() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prompt
}

// Begin returns the index at which a new reader begins. It skips the frames that were withdrawn
// when the agent last started over.
func (l *Log) Begin() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begins
}

// End returns the index after the last frame.
func (l *Log) End() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.frames)
}

// Asked returns the questions for which the run is now waiting.
func (l *Log) Asked() []Question {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open()
}

// open returns the questions that have not been answered. l.mu must be held.
func (l *Log) open() (open []Question) {
	n := len(l.frames)
	if n == 0 || l.frames[n-1].Kind != Paused {
		return nil
	}
	for _, q := range l.frames[n-1].Asked {
		if !l.answered[q.ID] {
			open = append(open, q)
		}
	}
	return open
}

// beginAnswer marks a question as answered and reports whether it was open. An answer is stored
// before the run records it, and clients must not be asked again in between.
func (l *Log) beginAnswer(question string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.ContainsFunc(l.open(), func(q Question) bool { return q.ID == question }) {
		return false
	}
	if l.answered == nil {
		l.answered = make(map[string]bool)
	}
	l.answered[question] = true
	return true
}

// reopen marks a question as open again after its answer could not be stored.
func (l *Log) reopen(question string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.answered, question)
	l.wake()
}

// Frames returns the frames from the given index on. If there are none yet, it returns a
// channel that is closed when there are more. The caller must not change the frames. If the writer
// of the log has panicked, Frames panics, so that net/http logs it and breaks the connection.
func (l *Log) Frames(from int) (frames []Frame, more <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from < len(l.frames) {
		return l.frames[from:], nil, nil
	}
	if p := (*panicError)(nil); errors.As(l.err, &p) {
		panic(p)
	}
	if l.err != nil {
		return nil, nil, l.err
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return nil, l.changed, nil
}
