package streamer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/record/redact"
)

// Options are the settings of a [Handler]. With the zero Options, it serves only clients on this
// machine, which may read but change nothing.
type Options struct {
	// Authorize returns who sent a request and what the sender is allowed to do. Requests from the
	// dashboard page carry cookies but no headers, so people sign in with a cookie or at a proxy.
	// An error is sent before any stream begins: with status 401 if it is ErrUnauthenticated, and
	// 403 otherwise. If Authorize is nil, only requests from and to a loopback address are served,
	// and only if no header indicates that a proxy forwarded them. A reverse proxy on the same
	// machine that sets no such header would admit everyone, so set Authorize in that case.
	Authorize func(*http.Request) (Access, error)

	// Control carries out requests that interrupt or cancel runs, answer questions or send signals,
	// if the sender's Access allows it. Without Authorize, all clients on this machine may send
	// such requests. If Control is nil, no one may.
	Control Control

	// Starter starts runs for senders whose Access allows control, and returns a run's
	// result to senders that may see the run. If Starter is nil, runs cannot be started.
	Starter Starter

	// Continuer makes stopped runs continue, for senders whose Access allows control. If Continuer
	// is nil, runs cannot be resumed or retried.
	Continuer Continuer

	// Forker begins new runs at calls of other runs, for senders whose Access allows control. If
	// Forker is nil, runs cannot be forked.
	Forker Forker

	// Threads provides conversations. Senders whose Access allows control may send messages, and
	// senders that are allowed to see a thread's runs may read its messages. If Threads is nil,
	// there are no threads.
	Threads Threads

	// Queue returns how many runs are waiting and how many are running. It is called by the
	// goroutine that serves a request. If Queue is nil, these numbers are unknown.
	Queue func() Queue

	// Elsewhere reports whether a run is executed by another process. If so, the run's deltas do
	// not reach this handler, and a client that requests them is told so. Elsewhere is called by
	// the goroutine that streams to such a client, each time the run is opened. If Elsewhere is
	// nil, no run is considered to be executed elsewhere.
	Elsewhere func(ctx context.Context, runID string) bool

	// Redact is applied to the texts of inputs, outputs and errors before they are shown, both in
	// published records and in records from the source; see record.Record.Redacted. A store keeps
	// texts unchanged, even those of runs with state.WithRedaction, so use the same rules for that
	// option. Names of tools, pipelines and tags are not redacted. Redact is called by the
	// goroutine that publishes. Deltas are shown as soon as they can no longer be part of a secret.
	// If Redact is nil, texts are not redacted.
	Redact redact.Redaction

	// Vocabularies translate the events into the terms of other systems. They are keyed by name:
	// /events?vocabulary=noetl uses the vocabulary named "noetl", such as vocabulary.NoETL. A
	// vocabulary is called once for each record that is streamed, by the first goroutine that
	// streams the record.
	Vocabularies Vocabularies

	History int // events in memory, for all runs together and for each run. Defaults to 16,384
	Runs    int // number of runs kept in memory. Defaults to 1,000

	// Memory is the approximate limit, in bytes, for the events kept for the stream of all runs,
	// and separately for the events kept for all streams of single runs together; most events are
	// in both. It applies regardless of the number of events. Defaults to 256 MB. Events that a
	// client has missed and that are no longer kept are read from the source.
	Memory int64

	Clients             int // number of event streams at a time. Defaults to 1,000
	ClientsPerPrincipal int // event streams for one Access.Principal; no limit if that is empty. Defaults to Clients
	ClientsPerAddress   int // event streams to one IPv4 address or IPv6 /64 network. Defaults to Clients: behind a proxy, all clients have the proxy's address

	Heartbeat    time.Duration // interval between comments on an idle stream. Defaults to 15 s
	Reconnect    time.Duration // how long clients wait before reconnecting, with jitter. Defaults to 2 s
	WriteTimeout time.Duration // how long a client may take to read 16 KB of a response, or the rest of it. Defaults to 10 s

	// Origins are other origins whose pages may read responses, such as "https://ops.example.com".
	// These pages cannot change anything, start runs or send messages. None by default.
	Origins []string
}

const (
	defaultMemory = 256 << 20
	minMemory     = 1 << 20 // room for a few of the largest events
)

// redactText returns the function that redacts texts, or nil if nothing is redacted.
func (o *Options) redactText() func(string) string {
	if o.Redact == nil {
		return nil
	}
	return o.Redact.Text
}

// withDefaults checks o and returns it with the defaults filled in.
func (o Options) withDefaults() (Options, error) {
	counts := []struct {
		name string
		n    *int
		def  int
	}{
		{"History", &o.History, 16 << 10},
		{"Runs", &o.Runs, 1000},
		{"Clients", &o.Clients, 1000},
		{"ClientsPerPrincipal", &o.ClientsPerPrincipal, cmp.Or(o.Clients, 1000)},
		{"ClientsPerAddress", &o.ClientsPerAddress, cmp.Or(o.Clients, 1000)},
	}
	for _, c := range counts {
		if *c.n < 0 {
			return o, fmt.Errorf("streamer: Options.%s is %d: want 1 or more, or 0 for %d", c.name, *c.n, c.def)
		}
		*c.n = cmp.Or(*c.n, c.def)
	}
	if o.Memory != 0 && o.Memory < minMemory {
		return o, fmt.Errorf("streamer: Options.Memory is %d: want %d bytes or more, or 0 for %d", o.Memory, minMemory, defaultMemory)
	}
	o.Memory = cmp.Or(o.Memory, defaultMemory)
	times := []struct {
		name string
		d    *time.Duration
		def  time.Duration
	}{
		{"Heartbeat", &o.Heartbeat, 15 * time.Second},
		{"Reconnect", &o.Reconnect, 2 * time.Second},
		{"WriteTimeout", &o.WriteTimeout, 10 * time.Second},
	}
	for _, t := range times {
		if *t.d < 0 {
			return o, fmt.Errorf("streamer: Options.%s is %v: want more than 0, or 0 for %v", t.name, *t.d, t.def)
		}
		*t.d = cmp.Or(*t.d, t.def)
	}
	if err := o.Vocabularies.check(); err != nil {
		return o, err
	}
	for _, origin := range o.Origins {
		if err := checkOrigin(origin); err != nil {
			return o, err
		}
	}
	return o, nil
}

// A Handler streams the records published to it, and serves a page that shows them. It is a
// publisher of runs and an http.Handler, and is safe for concurrent use. Close releases its
// resources.
type Handler struct {
	options Options
	source  Source // nil if there is none
	whole   Source // the same source without redaction
	mux     *http.ServeMux
	guard   *http.CrossOriginProtection // checks requests that change something
	readers *http.CrossOriginProtection // checks requests that read; allows Origins

	generation uint64 // first number of the IDs in the stream of all runs
	runs       *runs
	all        *tape
	history    *history
	delta      func(live.Delta) // addDelta, after redaction

	buffers sync.Pool // holds *bufio.Writer, for clients to which data is being sent

	wakeup   chan struct{}      // receives a value when due is not empty
	closing  <-chan struct{}    // closed when Close begins
	open     context.Context    // ends when Close begins
	shut     context.CancelFunc // ends open
	notified chan struct{}      // closed when the notifying goroutine has ended

	mu      sync.Mutex // guards the fields below, and the beginning of Close
	due     []notifier // notifiers with clients waiting for a notification
	clients clients
	quiet   chan struct{} // closed when the last client of a closed handler has left

	deltaClients atomic.Int64 // number of clients that request deltas

	counters counters
}

// counters are the counts since New.
type counters struct {
	events   atomic.Uint64
	accepted atomic.Uint64
	refused  atomic.Uint64
	slow     atomic.Uint64 // clients that fell behind and were disconnected
	gaps     atomic.Uint64
	resets   atomic.Uint64
}

// New returns a handler. It reads events that it does not keep from source, which may be nil. The
// caller must close the handler.
func New(source Source, options Options) (*Handler, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	whole := source
	if source != nil && o.Redact != nil {
		source = redactedSource{source, o.Redact}
	}
	h := &Handler{
		options: o, source: source, whole: whole, generation: randomGeneration(),
		runs:    &runs{byID: make(map[string]*run), limit: o.Runs, events: o.History, memory: o.Memory},
		history: newHistory(time.Now()),
		all:     newTape(o.History, o.Memory), clients: newClients(), buffers: sync.Pool{New: newBuffer},
		wakeup: make(chan struct{}, 1), notified: make(chan struct{}),
		quiet: make(chan struct{}),
		guard: http.NewCrossOriginProtection(), readers: http.NewCrossOriginProtection(),
	}
	for _, origin := range o.Origins {
		if err := h.readers.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("streamer: Options.Origins has %q: %w", origin, err)
		}
	}
	h.open, h.shut = context.WithCancel(context.Background())
	h.closing = h.open.Done()
	h.mux = h.routes()
	h.delta = h.addDelta
	if o.Redact != nil {
		h.delta = live.Redact(o.Redact, h.addDelta)
	}
	go h.notify()
	return h, nil
}

// randomGeneration returns a number that differs from that of every other handler, including
// handlers in earlier runs of this program.
func randomGeneration() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// Publish adds the next record of its run to the streams. It does not wait for clients, and encodes
// the record only if necessary. After Close, it does nothing.
func (h *Handler) Publish(rec record.Record) {
	select {
	case <-h.closing:
		return
	default:
	}
	whole := rec
	rec = rec.Redacted(h.options.redactText())
	f := h.newFrame(&rec)
	r := h.runs.get(rec.RunID, false)
	fresh, one, all := r.publish(f, &rec, h.all, h.generation)
	if fresh {
		h.history.take(&rec, time.Now())
		if !rec.Replayed {
			r.products.tell(&whole)
		}
	}
	h.counters.events.Add(1)
	h.runs.shrink()
	if r.products.take(&rec) {
		h.notifyLater(&r.products)
	}
	if one {
		h.notifyLater(r.tape)
	}
	if all {
		h.notifyLater(h.all)
	}
}

// A notifier has clients that are waiting for events.
type notifier interface{ notify() }

// notifyLater notifies the clients in the next round.
func (h *Handler) notifyLater(n notifier) {
	h.mu.Lock()
	h.due = append(h.due, n)
	h.mu.Unlock()
	select {
	case h.wakeup <- struct{}{}:
	default: // the notifying goroutine is already awake
	}
}

// While events keep arriving, clients are notified in rounds, and each client receives the events
// since the last round in a single write. A write takes five to ten microseconds, however short it
// is. A round lasts longer if there are more clients, so that all clients together use at most one
// processor, however many events there are.
const (
	shortestRound  = 5 * time.Millisecond
	longestRound   = 100 * time.Millisecond
	roundPerClient = 10 * time.Microsecond // time that each client adds to a round

	// gatherTime is how long to wait, after the first event, for other events that the run
	// publishes at the same time.
	gatherTime = time.Millisecond
)

// notify notifies clients of events until the handler is closed. It runs on its own goroutine
// because notifying a thousand clients takes longer than a run should have to wait.
func (h *Handler) notify() {
	defer close(h.notified)
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	for {
		select {
		case <-h.closing:
			return
		case <-h.wakeup:
		}
		if !h.pause(timer, gatherTime) {
			return
		}
		h.mu.Lock()
		due := h.due
		h.due = nil
		h.mu.Unlock()
		for _, n := range due {
			n.notify()
		}
		if !h.pause(timer, h.round()-gatherTime) {
			return
		}
	}
}

// round returns how long the handler collects events before sending them.
func (h *Handler) round() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return min(max(shortestRound, time.Duration(h.clients.total)*roundPerClient), longestRound)
}

// pause waits for d. It returns false if the handler is closed first.
func (h *Handler) pause(timer *time.Timer, d time.Duration) bool {
	timer.Reset(d)
	select {
	case <-h.closing:
		return false
	case <-timer.C:
		return true
	}
}

// Close refuses new requests, ends all streams, and waits until they have ended. A response that is
// being sent is cut off if the client takes longer than a second to read the rest. If ctx ends
// first, Close returns the cause. Closing twice is allowed.
func (h *Handler) Close(ctx context.Context) error {
	h.mu.Lock()
	if h.open.Err() == nil {
		h.shut()
		if h.clients.total == 0 {
			close(h.quiet)
		}
	}
	h.mu.Unlock()
	<-h.notified
	select {
	case <-h.quiet:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("streamer: close: %w", context.Cause(ctx))
	}
}

// ServeHTTP serves the dashboard, the event streams, and the JSON API.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path == "" {
		// The handler is mounted with its prefix stripped. The page's links are relative, so the
		// path must end in a slash.
		w.Header().Set("Location", pathBase(req)+"/")
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	h.mux.ServeHTTP(w, req)
}

func (h *Handler) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /events", h.withAccess(h.serveEvents))
	mux.Handle("GET /api/runs", h.withAccess(h.serveRuns))
	mux.Handle("GET /api/runs/{run}", h.api(h.serveRun, "limit"))
	mux.Handle("GET /api/runs/{run}/usage", h.api(h.serveUsage))
	mux.Handle("GET /api/runs/{run}/records", h.api(h.serveRecords, "before", "limit"))
	mux.Handle("GET /api/runs/{run}/calls/{call...}", h.api(h.servePayload, "download"))
	mux.Handle("GET /api/questions", h.withAccess(h.serveQuestions))
	mux.Handle("POST /api/questions/answer", h.api(h.serveAnswers))
	mux.Handle("GET /api/history", h.api(h.serveHistory))
	mux.Handle("GET /api/work", h.api(h.serveWork))
	mux.Handle("GET /health", h.withAccess(h.serveHealth))
	mux.Handle("GET /api/programs", h.api(h.servePrograms))
	mux.Handle("POST /api/runs", h.api(h.serveStart))
	mux.Handle("POST /api/runs/resume", h.api(h.serveResumeAll))
	mux.Handle("POST /api/runs/retry", h.api(h.serveRetryAll))
	mux.Handle("POST /api/runs/{run}/resume", h.api(h.serveResume))
	mux.Handle("POST /api/runs/{run}/retry", h.api(h.serveRetry))
	mux.Handle("POST /api/runs/{run}/fork", h.api(h.serveFork))
	mux.Handle("GET /api/runs/{run}/result", h.api(h.serveResult))
	mux.Handle("POST /api/runs/{run}/interrupt", h.api(h.serveInterrupt))
	mux.Handle("POST /api/runs/{run}/cancel", h.api(h.serveCancel))
	mux.Handle("POST /api/runs/{run}/answer", h.api(h.serveAnswer))
	mux.Handle("POST /api/runs/{run}/signal", h.api(h.serveSignal))
	mux.Handle("GET /api/runs/{run}/values", h.api(h.serveValues))
	mux.Handle("POST /api/threads/{thread}", h.api(h.serveSend))
	mux.Handle("GET /api/threads/{thread}", h.api(h.serveThread, "limit"))
	mux.Handle("GET /{$}", h.withAccess(h.servePage))
	mux.Handle("GET /{asset}", h.withAccess(h.serveAsset))
	mux.Handle("/", h.withAccess(func(w http.ResponseWriter, req *http.Request, _ *Access) {
		h.refuseMethod(w, req)
	}))
	return mux
}

// find returns a run from memory or from the source. If there is no such run, or if the sender is
// not allowed to see it, the error is ErrNotFound.
func (h *Handler) find(ctx context.Context, id string, scope *Access) (*run, error) {
	if !scope.sees(id) {
		return nil, ErrNotFound // the sender must not learn whether the run exists
	}
	if r := h.runs.find(id); r != nil && r.isKnown() {
		return r, nil
	}
	if h.source == nil {
		return nil, ErrNotFound
	}
	if _, err := h.source.Run(ctx, id); err != nil {
		if errors.Is(err, ErrNotFound) {
			return nil, ErrNotFound
		}
		return nil, err
	}
	return h.runs.get(id, false), nil
}
