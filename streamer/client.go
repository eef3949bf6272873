package streamer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/record"
)

// A Client follows the runs of a [Handler] from another program, answers their questions, and
// starts runs if the handler has a [Starter]. Its fields must not be changed while the client is in
// use. It is safe for concurrent use; each call to Events has its own cursor.
type Client struct {
	URL        string       // the handler's URL, such as "http://localhost:8080/runs/"
	HTTPClient *http.Client // must not have a Timeout. Defaults to http.DefaultClient
	Header     http.Header  // header fields to send with every request, such as Authorization

	Run      string          // the run to follow from its first record on; if empty, all runs are followed from now on
	Types    []record.Kind   // kinds of records to receive; empty for all
	Statuses []record.Status // statuses of records to receive; empty for all
	After    string          // the ID of the event after which to continue; empty to begin

	// Deltas also requests the events "delta", which show what the calls of Run produce: see
	// [Event.Delta]. They do not move the cursor: a later delta includes any that was missed. If a
	// process other than the server executes the run, an event "elsewhere" arrives instead of
	// deltas.
	Deltas bool

	// UntilEnd ends the events of Run when the run has completed, failed or been cancelled; the
	// event that reports this is the last. The events do not end when the run is interrupted or
	// paused, because it may continue.
	UntilEnd bool

	// Silence is how long a connection may receive nothing before it is considered lost. The server
	// sends a heartbeat every 15 s. Defaults to 45 s.
	Silence time.Duration

	// MaxDelay limits the delay between two connections. The delay starts at the value that the
	// server asks for and doubles as long as no event arrives. Defaults to 30 s. The Retry-After of
	// a refusal is always obeyed, up to a day.
	MaxDelay time.Duration

	// MaxEvent is the maximum size of an event in bytes. Defaults to 4 MB.
	MaxEvent int

	// Absence is how long the client keeps asking for a run while the server responds that there is
	// no such run. After that, the events end. Defaults to 0: the client asks once. A [Handler]
	// does not refuse an unknown run: the connection waits until the run begins.
	Absence time.Duration

	// Disconnected, if not nil, is called when a connection has ended or could not be made,
	// with the reason and the delay before the next attempt.
	Disconnected func(err error, wait time.Duration)

	// Connected, if not nil, is called when a connection is made.
	Connected func()
}

// An Event is one event of a stream.
type Event struct {
	ID   string // the cursor after the event; see Client.After
	Name string // "started", "retrying", "run_completed", …, or "gap", "reset", "deleted", "stopping" or "delta"
	Data []byte // JSON
}

// Decode decodes the data of the event.
func (e Event) Decode(into any) error { return json.Unmarshal(e.Data, into) }

// IsRecord reports whether the event contains a record. The events "gap", "reset", "unreadable",
// "deleted", "stopping", "delta" and "elsewhere" do not.
func (e Event) IsRecord() bool {
	switch e.Name {
	case "gap", "reset", "unreadable", eventDeleted, eventStopping, eventDelta, eventElsewhere:
		return false
	}
	return true
}

// Delta decodes the data of an event "delta".
func (e Event) Delta() (Delta, error) {
	var d Delta
	if e.Name != eventDelta {
		return d, fmt.Errorf("streamer: an event %q has no delta", e.Name)
	}
	err := e.Decode(&d)
	return d, err
}

// Record returns the event's record, decoded by record.Record.UnmarshalJSON.
func (e Event) Record() (record.Record, error) {
	if !e.IsRecord() {
		return record.Record{}, fmt.Errorf("streamer: event %q has no record", e.Name)
	}
	var r record.Record
	err := r.UnmarshalJSON(e.Data)
	return r, err
}

// A StatusError is a response from the server that reports anything other than success.
type StatusError struct {
	Code    int
	Message string // the message in the response
}

// Error returns the response's status and message.
func (e *StatusError) Error() string {
	return fmt.Sprintf("streamer: %d %s: %s", e.Code, http.StatusText(e.Code), e.Message)
}

// StatusCode returns the response's HTTP status code.
func (e *StatusError) StatusCode() int { return e.Code }

// Events yields each event of the stream after the cursor once, over any number of connections. It
// ends with an error when ctx ends, when the server refuses the stream for good (a *StatusError),
// or when an event is too long. It ends without an error when the run has ended and UntilEnd is
// set, or when the server responds with 204, which means that there are no more events. If the
// server cannot be reached, the client keeps trying.
func (c *Client) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f, err := c.follower()
		if err != nil {
			yield(Event{}, err)
			return
		}
		for {
			err := f.connect(ctx, yield)
			switch {
			case errors.Is(err, errStopped):
				return
			case ctx.Err() != nil:
				yield(Event{}, context.Cause(ctx))
				return
			case errors.Is(err, errFinal):
				yield(Event{}, errors.Unwrap(err))
				return
			}
			wait := f.delay(err)
			if c.Disconnected != nil {
				c.Disconnected(err, wait)
			}
			if !sleep(ctx, wait) {
				yield(Event{}, context.Cause(ctx))
				return
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

var (
	errStopped = errors.New("streamer: the end")               // the stream, or the loop that reads it, has ended
	errFinal   = errors.New("streamer: a retry does not help") // matches a finalError
	errSilent  = errors.New("streamer: nothing arrived")       // the cause if nothing arrives within Client.Silence
)

// finalError is an error that a retry cannot resolve.
type finalError struct{ error }

func (e finalError) Unwrap() error        { return e.error }
func (e finalError) Is(target error) bool { return target == errFinal }

// follower holds the state of one call to Events.
type follower struct {
	client  *Client
	url     string
	http    *http.Client
	silence time.Duration
	maxWait time.Duration // maximum wait between two attempts
	max     int
	cursor  string
	base    time.Duration // the wait after a successful connection
	failed  int           // number of attempts since the last event
	absent  time.Time     // when the server first reported that there is no such run
}

func (c *Client) follower() (*follower, error) {
	address, err := c.events()
	if err != nil {
		return nil, err
	}
	f := &follower{client: c, url: address, http: c.http(), silence: c.Silence, maxWait: c.MaxDelay, max: c.MaxEvent, cursor: c.After, base: 2 * time.Second}
	if f.silence <= 0 {
		f.silence = 45 * time.Second
	}
	if f.maxWait <= 0 {
		f.maxWait = 30 * time.Second
	}
	if f.max <= 0 {
		f.max = 4 << 20
	}
	return f, nil
}

// maxRetryAfter is the longest Retry-After that is obeyed.
const maxRetryAfter = 24 * time.Hour

// delay returns how long to wait after err. If the response asks for a delay, that is the delay;
// otherwise the delay doubles after each failure.
func (f *follower) delay(err error) time.Duration {
	if after, ok := core.RetryAfter(err); ok {
		return min(after, maxRetryAfter)
	}
	d := min(f.base, f.maxWait)
	for range min(f.failed, 30) {
		d = min(2*d, f.maxWait)
	}
	f.failed++
	return d + time.Duration(rand.Int64N(int64(d)/4+1))
}

// connect makes one connection and yields its events.
func (f *follower) connect(ctx context.Context, yield func(Event, error) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(f.silence, func() { cancel(errSilent) })
	defer silence.Stop()
	resp, err := f.request(ctx)
	if err != nil {
		return f.causeOf(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := f.check(resp); err != nil {
		return err
	}
	if f.client.Connected != nil {
		f.client.Connected()
	}
	d := newDecoder(&timeoutReader{resp.Body, silence, f.silence}, f.max, f.cursor)
	for {
		e, err := d.next()
		f.cursor = d.lastID
		if d.retry > 0 {
			f.base = d.retry
		}
		switch {
		case errors.Is(err, errTooLong):
			return finalError{err}
		case err != nil:
			return f.causeOf(ctx, err)
		}
		f.failed = 0
		if e.Name == eventCursor {
			continue
		}
		silence.Stop() // the caller may take any amount of time
		if f.client.picks(e) && !yield(e, nil) || f.client.ends(e) {
			return errStopped
		}
		silence.Reset(f.silence)
	}
}

// causeOf returns the cause of ctx if ctx has ended, and err otherwise.
func (f *follower) causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (f *follower) request(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return nil, finalError{err}
	}
	for name, values := range f.client.Header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Cache-Control", "no-store")
	if f.cursor != "" {
		if strings.ContainsFunc(f.cursor, unicode.IsControl) {
			return nil, finalError{fmt.Errorf("streamer: the cursor %.100q cannot be sent: it contains control characters", f.cursor)}
		}
		req.Header.Set("Last-Event-ID", f.cursor)
	}
	return f.http.Do(req)
}

// check returns an error if the response is not a stream.
func (f *follower) check(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusOK:
		if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
			return finalError{&StatusError{resp.StatusCode, fmt.Sprintf("%s sends %q, not text/event-stream", f.url, resp.Header.Get("Content-Type"))}}
		}
		f.absent = time.Time{}
		return nil
	case http.StatusNoContent:
		return errStopped
	}
	err := statusError(resp)
	if resp.StatusCode == http.StatusNotFound && f.mayBeAbsent(time.Now()) {
		return err
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if after, ok := httperror.RetryAfter(resp.Header, time.Now()); ok {
			return core.WithRetryAfter(err, after)
		}
		return err
	}
	return finalError{err}
}

// mayBeAbsent reports whether to keep asking for a run that the server does not know, which is the
// case until Client.Absence has passed.
func (f *follower) mayBeAbsent(now time.Time) bool {
	if f.absent.IsZero() {
		f.absent = now
	}
	return now.Sub(f.absent) < f.client.Absence
}

// messageOf returns the message in a refusal's body.
func messageOf(body io.Reader) string {
	data, _ := io.ReadAll(io.LimitReader(body, 4<<10))
	var refusal struct {
		Error errorBody `json:"error"`
	}
	if json.Unmarshal(data, &refusal) == nil && refusal.Error.Message != "" {
		return refusal.Error.Message
	}
	return strings.TrimSpace(string(valid(data)))
}

// timeoutReader resets the timer of a connection whenever bytes arrive.
type timeoutReader struct {
	r       io.Reader
	timer   *time.Timer
	silence time.Duration
}

func (h *timeoutReader) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if n > 0 {
		h.timer.Reset(h.silence)
	}
	return n, err
}
