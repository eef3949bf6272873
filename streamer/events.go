package streamer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/core"
)

// serveEvents streams one run, or all that the scope may see.
func (h *Handler) serveEvents(w http.ResponseWriter, req *http.Request, scope *Scope) {
	query := req.URL.Query()
	f, err := parseFilter(query["type"], query["status"])
	if err != nil {
		h.refuse(w, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	f.scope = scope
	var r *run
	if ids := query["run"]; len(ids) > 1 {
		h.refuse(w, http.StatusBadRequest, "bad_request", "run is given more than once: allowed is one run, or none for all")
		return
	} else if len(ids) == 1 && ids[0] != "" {
		if r, err = h.find(req.Context(), ids[0], scope); err != nil {
			h.refuseError(w, err, "there is no run "+strconv.Quote(ids[0]))
			return
		}
		r = h.runs.get(r.id, true)
		defer r.clients.Add(-1)
	}
	leave, err := h.enter(scope.Principal, addressOf(req))
	if err != nil {
		h.refuseError(w, err, "")
		return
	}
	defer leave()
	if req.Method == http.MethodHead {
		w.Header().Set("Content-Type", "text/event-stream")
		return
	}
	h.counters.accepted.Add(1)

	s := &stream{handler: h, flushed: time.Now(), run: r, filter: f, w: w, control: http.NewResponseController(w), timer: time.NewTimer(h.options.Heartbeat), proto: req.ProtoMajor}
	defer s.timer.Stop()
	defer func() { _ = s.flush() }() // what was written last may be why it ends
	id := req.Header.Get("Last-Event-ID")
	if id == "" {
		id = query.Get("after")
	}
	ctx, release := s.untilClosed(req.Context())
	defer release()
	s.begin()
	if r == nil {
		err = s.serveAll(ctx, id)
	} else {
		err = s.serveRun(ctx, id)
	}
	if errors.Is(err, errSlow) {
		h.counters.slow.Add(1)
	}
}

// filter picks the events that a client wants and may have.
type filter struct {
	scope    *Scope
	kinds    []core.Kind
	statuses []core.Status
}

func parseFilter(kinds, statuses []string) (f filter, err error) {
	for _, name := range words(kinds) {
		var k core.Kind
		if k.UnmarshalText([]byte(name)) != nil {
			return f, fmt.Errorf("type %q is not known: allowed are %s", name, allowed(core.KindTool, core.KindAnswer))
		}
		f.kinds = append(f.kinds, k)
	}
	for _, name := range words(statuses) {
		var s core.Status
		if s.UnmarshalText([]byte(name)) != nil {
			return f, fmt.Errorf("status %q is not known: allowed are %s", name, allowed(core.StatusStarted, core.StatusRecorded))
		}
		f.statuses = append(f.statuses, s)
	}
	return f, nil
}

// words splits values that have commas in them.
func words(values []string) (all []string) {
	for _, v := range values {
		for word := range strings.SplitSeq(v, ",") {
			if word = strings.TrimSpace(word); word != "" {
				all = append(all, word)
			}
		}
	}
	return all
}

// allowed lists the names from first to last.
func allowed[T interface {
	~uint8
	String() string
}](first, last T) string {
	var names []string
	for v := first; v <= last; v++ {
		names = append(names, v.String())
	}
	return strings.Join(names, ", ")
}

func (f *filter) picks(e *frame) bool {
	return (len(f.kinds) == 0 || slices.Contains(f.kinds, e.kind)) &&
		(len(f.statuses) == 0 || slices.Contains(f.statuses, e.status)) &&
		f.scope.sees(e.runID)
}

// errSlow ends the stream of a client that fell behind.
var errSlow = errors.New("streamer: the client fell behind")

// stream is one client's.
type stream struct {
	handler *Handler
	run     *run // nil for all runs
	filter  filter
	w       http.ResponseWriter
	control *http.ResponseController
	timer   *time.Timer // for whatever is waited for
	proto   int         // the major version of HTTP

	at       cursor        // the newest event that the client has, or has not picked
	told     cursor        // the newest ID that was sent
	out      *bufio.Writer // what was written since the last flush; nil if nothing was
	flushed  time.Time     // the last time
	deadline time.Time     // of writing
}

// farewell is how long a client may take for what was already written to it
// when the handler is closed.
const farewell = time.Second

// untilClosed is ctx until the handler is closed, which also ends the patience
// with a client that takes no byte. The caller releases it before it returns.
func (s *stream) untilClosed(ctx context.Context) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	stop := context.AfterFunc(s.handler.open, func() {
		defer close(done)
		cancel(http.ErrServerClosed)
		_ = s.control.SetWriteDeadline(time.Now().Add(farewell))
	})
	return ctx, func() {
		if !stop() {
			<-done // the writer is not to be touched after the handler has returned
		}
		cancel(nil)
	}
}

// begin sends the head of the stream, at once, so that clients know that they
// are connected.
func (s *stream) begin() {
	header := s.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-store, no-transform")
	header.Set("X-Accel-Buffering", "no") // nginx
	if s.proto == 1 {
		// The write deadline stays with the connection, which so is not used again.
		header.Set("Connection", "close")
	}
	s.w.WriteHeader(http.StatusOK)
	// Clients that were cut off together should not come back together.
	reconnect := s.handler.options.Reconnect
	reconnect += time.Duration(rand.Int64N(int64(reconnect)/2 + 1))
	_ = s.write(fmt.Appendf(nil, "retry: %d\n\n", max(1, reconnect.Milliseconds()))) // the next write says it too
	if s.run != nil {
		_ = s.flush() // a source may take its time; that of all runs is flushed once its place is known
	}
}

// serveAll streams the runs from the cursor on, or from now.
func (s *stream) serveAll(ctx context.Context, id string) error {
	first, next := s.handler.all.span()
	pos := next
	s.at = cursor{s.handler.epoch, pos}
	if id != "" {
		c, ok := parseCursor(id)
		switch {
		case !ok || c.epoch != s.handler.epoch || c.n > next:
			s.reset("the cursor is not of this server's stream; read the runs again")
		case c.n < first:
			pos = first
			s.at = cursor{s.handler.epoch, first}
			s.gap(first - c.n)
		default:
			pos = c.n
			s.at = c
		}
	}
	return s.follow(ctx, s.handler.all, pos)
}

// serveRun streams one run from the cursor on, or from its first record.
func (s *stream) serveRun(ctx context.Context, id string) error {
	if id != "" {
		var ok bool
		if s.at, ok = parseCursor(id); !ok {
			s.reset("the cursor is not of this run; it begins anew")
		} else if s.at.n == 0 {
			s.at = cursor{} // the ID of a reset
		}
	}
	for {
		pos, where := s.run.tape.locate(s.at)
		oldest, begin, kept := s.run.tape.oldest()
		if s.at == (cursor{}) && kept && oldest.id.n == 1 {
			pos, where = begin, placeFound
		}
		if where != placeFound {
			var err error
			if pos, err = s.catchUp(ctx, where); err != nil {
				return err
			}
		}
		if err := s.follow(ctx, s.run.tape, pos); !errors.Is(err, errHole) {
			return err
		}
	}
}

// catchUp sends what the tape does not have after the cursor, and returns the
// position in the tape to go on from.
func (s *stream) catchUp(ctx context.Context, where place) (pos uint64, err error) {
	if s.handler.source == nil {
		s.check(where)
		return s.pass(), nil
	}
	for {
		before := s.at
		if err := s.replay(ctx, where == placeOlder); err != nil {
			return 0, err
		}
		// What was published meanwhile may have been in the source too, and is
		// known by its number.
		pos, oldest, kept := s.run.tape.after(s.at.n)
		switch {
		case !kept || oldest.n == s.at.n+1:
			return pos, nil
		case s.at == before:
			return s.pass(), nil // the source does not have it either
		}
	}
}

// check tells the client to begin anew if its cursor is not of what is kept.
func (s *stream) check(where place) {
	switch _, _, kept := s.run.tape.oldest(); {
	case s.at == (cursor{}):
	case !kept:
		s.reset("nothing of this run is kept; it begins anew")
	case where != placeOlder:
		s.reset("the cursor is not of what is kept of this run; it begins anew")
	}
}

// pass tells the client what is lost to it, and returns the position in the
// tape to go on from.
func (s *stream) pass() uint64 {
	pos, oldest, kept := s.run.tape.after(s.at.n)
	if !kept {
		return pos
	}
	if missed := oldest.n - 1 - s.at.n; missed > 0 {
		s.at = cursor{oldest.epoch, oldest.n - 1}
		s.gap(missed)
	}
	return pos
}

// replay sends what the source has after the cursor. A cursor that is known to
// be of this run, by the tape, is not reset where the source is behind.
func (s *stream) replay(ctx context.Context, known bool) error {
	openings, epoch, found := []cursor{{epoch: unopened}}, unopened, s.at == (cursor{})
	for rec, err := range s.handler.source.Records(ctx, s.run.id, 0) {
		select {
		case <-s.handler.closing:
			return http.ErrServerClosed
		default:
		}
		if err != nil {
			s.event("unreadable", errorBody{Code: "unreadable", Message: "the records of the run cannot be read"})
			return err
		}
		if opens(&rec) {
			if epoch == s.at.epoch && !found {
				break // it ended before the cursor
			}
			epoch = epochName(rec.Time)
			openings = append(openings, cursor{epoch, rec.Seq})
		}
		if !found && epoch == s.at.epoch && rec.Seq >= s.at.n {
			found = true
			if rec.Seq == s.at.n {
				continue
			}
		}
		if !found {
			continue
		}
		if err := s.send(newFrame(&rec), cursor{epoch, rec.Seq}); err != nil {
			return err
		}
	}
	if !found && !known {
		s.reset("the cursor is of records that this run does not have; it begins anew")
		return s.replay(ctx, false)
	}
	s.run.name(openings)
	return s.flush()
}

// errHole is that events are missing from the tape: whoever publishes left
// some out.
var errHole = errors.New("streamer: events are missing")

// follow sends what is on the tape from the position on, and what comes.
func (s *stream) follow(ctx context.Context, t *tape, pos uint64) error {
	var batch [8]entry // small: it is on the stack of every client that waits
	for {
		n, ok := t.read(pos, batch[:])
		if !ok {
			return errSlow // it comes back with its cursor
		}
		for i := range batch[:n] {
			e := &batch[i]
			if s.run != nil && e.id.n > 0 {
				switch {
				case e.id.epoch != s.at.epoch && e.id.n <= s.at.n:
					s.reset("the run was opened again without records that a crash has taken; it begins anew")
					return errHole
				case e.id.n <= s.at.n:
					continue // it came from the source
				case e.id.n > s.at.n+1:
					return errHole
				}
			}
			if err := s.send(e.frame, e.id); err != nil {
				return err
			}
		}
		clear(batch[:n])
		pos += uint64(n)
		if time.Since(s.flushed) >= s.handler.options.Heartbeat { // nothing that came was picked
			if err := s.heartbeat(); err != nil {
				return err
			}
		}
		if n == len(batch) {
			continue
		}
		if err := s.flush(); err != nil {
			return err
		}
		if err := s.wait(ctx, t, pos); err != nil {
			return err
		}
	}
}

// wait returns when there is an event at the position that clients were told
// of.
func (s *stream) wait(ctx context.Context, t *tape, pos uint64) error {
	for {
		more, due := t.more(pos)
		if more == nil {
			return nil
		}
		if due {
			s.handler.tellLater(t)
		}
		s.timer.Reset(s.handler.options.Heartbeat - time.Since(s.flushed))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.handler.closing:
			return http.ErrServerClosed
		case <-more:
			return nil
		case <-s.timer.C:
			if err := s.heartbeat(); err != nil {
				return err
			}
		}
	}
}

// send sends an event, unless it is not picked, and moves the cursor.
func (s *stream) send(f *frame, id cursor) error {
	if !s.filter.picks(f) {
		if id.n > 0 {
			s.at = id
		}
		return nil
	}
	if id.n > 0 {
		s.at = id
		if err := s.writeID(); err != nil {
			return err
		}
	}
	return s.write(f.bytes())
}

// writeID tells the client where it is.
func (s *stream) writeID() error {
	s.told = s.at
	line := append(s.buffer().AvailableBuffer(), "id: "...)
	line = s.at.append(line)
	return s.write(append(line, '\n'))
}

// heartbeat shows that the connection lives, and moves the client's cursor
// over what it has not picked: an ID without data does that alone.
func (s *stream) heartbeat() error {
	if s.at != s.told && s.at.n > 0 {
		if err := s.writeID(); err != nil {
			return err
		}
		if err := s.write([]byte("\n")); err != nil {
			return err
		}
	}
	if err := s.write([]byte(":\n\n")); err != nil {
		return err
	}
	return s.flush()
}

// gap tells the client that events are no longer to be had, and moves its
// cursor behind them.
func (s *stream) gap(missed uint64) {
	s.handler.counters.gaps.Add(1)
	_ = s.writeID() // a connection that is broken says so when it is flushed
	s.event("gap", gapBody{RunID: s.runID(), Missed: missed})
}

// reset tells the client to forget what it has, and goes back to the
// beginning.
func (s *stream) reset(reason string) {
	s.handler.counters.resets.Add(1)
	if s.run != nil {
		s.at = cursor{epoch: unopened}
	}
	_ = s.writeID() // also of the beginning: a client that is cut off now must not go on after what it had
	if s.run != nil {
		s.at = cursor{}
	}
	s.event("reset", resetBody{RunID: s.runID(), Reason: reason})
}

func (s *stream) runID() string {
	if s.run == nil {
		return ""
	}
	return s.run.id
}

// gapBody is the data of the event "gap".
type gapBody struct {
	RunID  string `json:"run_id,omitempty"` // empty in the stream of all runs
	Missed uint64 `json:"missed"`
}

// resetBody is the data of the event "reset".
type resetBody struct {
	RunID  string `json:"run_id,omitempty"`
	Reason string `json:"reason"`
}

func (s *stream) event(name string, body any) {
	_ = s.write(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, mustJSON(body)))
}

// gatherBytes is how much is gathered before it is handed to the server, which
// writes as little at a time to the connection as it is handed. A client must
// take that much within the write timeout, so that it is not more.
const gatherBytes = 16 << 10

// newBuffer is for [Handler.buffers].
func newBuffer() any { return bufio.NewWriterSize(nil, gatherBytes) }

// buffer is what gathers. A client that waits has none, for most clients wait.
func (s *stream) buffer() *bufio.Writer {
	if s.out == nil {
		s.out = s.handler.buffers.Get().(*bufio.Writer)
		s.out.Reset(timely{s})
	}
	return s.out
}

func (s *stream) release() {
	if s.out != nil {
		s.out.Reset(nil)
		s.handler.buffers.Put(s.out)
		s.out = nil
	}
}

func (s *stream) write(p []byte) error {
	_, err := s.buffer().Write(p)
	return err
}

func (s *stream) flush() error {
	if s.out == nil {
		return nil
	}
	s.flushed = time.Now()
	err := s.out.Flush()
	s.release()
	if err != nil {
		return err
	}
	return slowly(s.control.Flush())
}

// timely writes within the stream's deadline.
type timely struct{ *stream }

func (s timely) Write(p []byte) (int, error) {
	if now := time.Now(); s.deadline.Sub(now) < s.handler.options.WriteTimeout*3/4 {
		s.deadline = now.Add(s.handler.options.WriteTimeout)
		// Where the writer of a router or a test cannot, nothing is lost but that.
		_ = s.control.SetWriteDeadline(s.deadline)
		if s.handler.open.Err() != nil { // which may just have set a nearer one
			return 0, http.ErrServerClosed
		}
	}
	n, err := s.w.Write(p)
	return n, slowly(err)
}

// slowly says of an error of a write whether the client was too slow.
func slowly(err error) error {
	var timeout interface{ Timeout() bool }
	if err != nil && errors.As(err, &timeout) && timeout.Timeout() {
		return errSlow
	}
	return err
}
