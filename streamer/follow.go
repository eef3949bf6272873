package streamer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
)

// A FollowEvent contains a record, a delta or a stop. If it contains none of these, CaughtUp is
// true, which means that the records that existed when Follow began have all been yielded.
type FollowEvent struct {
	Record *record.Record // as it is stored, not redacted
	Delta  *Delta

	// Stop tells why the source lists the run as interrupted, if the run does not continue by
	// itself. It is not redacted. The newest record may contain the same stop, but need not: a
	// crash loop, for example, has no record.
	Stop *Stop

	CaughtUp bool
}

// Follow yields a run's records, beginning with the first, until ctx ends or the handler is closed.
// Between the records, it yields deltas that show what the run's calls are producing. If the run is
// set aside, Follow yields the reason and continues, because the run may be resumed. Without a
// source, it yields only records published after the call to Follow. If the run does not exist,
// Follow waits until it begins.
//
// The deltas of a text are yielded in order, and are joined if they arrive faster than the caller
// takes them. If a text began before Follow was called, its first delta is Whole and contains the
// last 8 KB. Deltas are redacted, but records are not; see [Handler.RedactText].
//
// Follow always ends with an error, even when ctx ends or the handler is closed. Other errors
// report that the source cannot be read, that the run was deleted, or that the run was reopened
// without records that were lost in a crash. In the last two cases, call Follow again to follow the
// new run, or the run without those records.
func (h *Handler) Follow(ctx context.Context, runID string) iter.Seq2[FollowEvent, error] {
	return func(yield func(FollowEvent, error) bool) {
		r := h.runs.get(runID, true)
		defer r.clients.Add(-1)
		q := &followQueue{news: make(chan struct{}, 1)}
		whole := r.attach(q)
		defer r.detach(q)
		f := &followState{handler: h, run: r, queue: q, ends: r.ends.Load(), yield: yield}
		if err := f.follow(ctx, whole); err != nil {
			yield(FollowEvent{}, err)
		}
	}
}

// Reread makes a run's followers read the source again. It is for records that were stored but not
// published, such as the end of a run that was cancelled while no process had it open.
func (h *Handler) Reread(runID string) {
	if r := h.runs.find(runID); r != nil {
		r.products.tell(nil)
	}
}

// RedactText returns the text after redaction by [Options.Redact].
func (h *Handler) RedactText(text string) string {
	if h.options.Redact == nil {
		return text
	}
	return h.options.Redact.Text(text)
}

// RecordOutput returns a record's encoded output without redaction, or nil if it has none. If the
// output is an artifact, it is read from the source.
func (h *Handler) RecordOutput(ctx context.Context, rec *record.Record) ([]byte, error) {
	if reference := rec.Artifact(); reference != "" && h.whole != nil {
		return h.whole.Artifact(ctx, reference)
	}
	return rec.Encoded(), nil
}

// RecordJSON returns a record's output as redacted JSON, or null if the record has none.
func (h *Handler) RecordJSON(ctx context.Context, rec *record.Record) ([]byte, error) {
	encoded, err := h.RecordOutput(ctx, rec)
	if err != nil || encoded == nil {
		return []byte("null"), err
	}
	text, err := record.JSON(encoded, h.options.redactText())
	return []byte(text), err
}

// followState holds the state of one call to Follow.
type followState struct {
	handler *Handler
	run     *run
	queue   *followQueue
	ends    int64  // run.ends when Follow began; if run.ends differs, the run was deleted or replaced
	at      cursor // position of the newest record that was yielded
	ended   bool   // that record ends the run
	yield   func(FollowEvent, error) bool
}

// errStop reports that the caller broke out of the loop over Follow.
var errStop = errors.New("streamer: the loop was left")

func (f *followState) follow(ctx context.Context, whole []Delta) error {
	err := f.read(ctx)
	for i := range whole {
		if err == nil && !f.yield(FollowEvent{Delta: &whole[i]}, nil) {
			return nil
		}
	}
	if err == nil {
		err = f.readStop(ctx)
	}
	if err == nil && !f.yield(FollowEvent{CaughtUp: true}, nil) {
		return nil
	}
	timer := time.NewTimer(shortestRound)
	defer timer.Stop()
	for err == nil {
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
			continue
		case <-f.handler.closing:
			err = http.ErrServerClosed
			continue
		case <-f.queue.news:
		}
		for _, e := range f.queue.take() {
			if err = f.yieldArrived(ctx, e); err != nil {
				break
			}
		}
		f.handler.pause(timer, f.handler.round()) // texts are joined during the pause
	}
	if err == errStop { //nolint:errorlint // errStop is never wrapped
		return nil
	}
	return err
}

// yieldArrived yields an event that has arrived. If records before that event are missing,
// yieldArrived first reads them from the source. For an empty event, it only reads the source.
func (f *followState) yieldArrived(ctx context.Context, e FollowEvent) error {
	if f.run.ends.Load() != f.ends {
		return fmt.Errorf("streamer: run %s was deleted: %w", f.run.id, ErrNotFound)
	}
	if e == (FollowEvent{}) {
		if err := f.read(ctx); err != nil {
			return err
		}
		return f.readStop(ctx)
	}
	if e.Record != nil {
		id := cursorOf(e.Record)
		switch {
		case id.n <= f.at.n && id.generation > f.at.generation:
			return fmt.Errorf("streamer: run %s was opened again without records that a crash has lost", f.run.id)
		case id.n <= f.at.n:
			return nil
		case id.n > f.at.n+1 && f.handler.whole != nil:
			if err := f.read(ctx); err != nil || id.n <= f.at.n {
				return err
			}
		}
		f.advance(e.Record)
	}
	if !f.yield(e, nil) {
		return errStop
	}
	return nil
}

// read yields the source's records that follow the newest record yielded.
func (f *followState) read(ctx context.Context) error {
	if f.handler.whole == nil {
		return nil
	}
	for rec, err := range f.handler.whole.Records(ctx, f.run.id, f.at.n) {
		if err != nil && f.at == (cursor{}) && errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		f.advance(&rec)
		if !f.yield(FollowEvent{Record: &rec}, nil) {
			return errStop
		}
	}
	return nil
}

func (f *followState) advance(rec *record.Record) {
	f.at, f.ended = cursorOf(rec), rec.Kind == record.KindRun && isEnd(rec.Status)
}

func isEnd(s record.Status) bool {
	return s == record.StatusCompleted || s == record.StatusFailed || s == record.StatusCancelled
}

// readStop yields the stop of a run that was set aside after the newest record yielded.
func (f *followState) readStop(ctx context.Context) error {
	if f.handler.whole == nil || f.ended {
		return nil
	}
	info, err := f.handler.whole.Run(ctx, f.run.id)
	switch {
	case f.at == (cursor{}) && errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	case info.Status != statusInterrupted || info.Stop == nil || info.LastSeq > f.at.n:
		return nil
	case record.InterruptReason(info.Stop.Reason).ContinuesByItself():
		return nil
	}
	if !f.yield(FollowEvent{Stop: info.Stop}, nil) {
		return errStop
	}
	return nil
}

// followQueue holds the events that a follower has not read yet. It has no limit, because followers
// in this process read it promptly.
type followQueue struct {
	news chan struct{} // holds a token while there is something to take

	mu     sync.Mutex
	events []FollowEvent
}

func (q *followQueue) put(e FollowEvent) {
	q.mu.Lock()
	if n := len(q.events); e.Delta == nil || n == 0 || !q.events[n-1].join(e.Delta) {
		q.events = append(q.events, e)
	}
	q.mu.Unlock()
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// maxJoined is the length, in bytes, above which a text is no longer joined with later ones.
const maxJoined = 4 << 10

// join appends d to the delta of e if d continues the same text, and reports whether it did.
func (e *FollowEvent) join(d *Delta) bool {
	last := e.Delta
	if last == nil || last.Part != d.Part || d.Part != live.PartText && d.Part != live.PartReasoning ||
		last.Address != d.Address || last.Attempt != d.Attempt || last.Index != d.Index || len(last.Text) > maxJoined {
		return false
	}
	last.Text += d.Text
	return true
}

func (q *followQueue) take() []FollowEvent {
	q.mu.Lock()
	defer q.mu.Unlock()
	events := q.events
	q.events = nil
	return events
}

// attach adds a queue. From then on, the queue receives what is published about the run. attach
// returns what the run's calls have produced so far.
func (r *run) attach(q *followQueue) (whole []Delta) {
	ps := &r.products
	ps.mu.Lock()
	ps.queues = append(ps.queues, q)
	s := &shownProducts{calls: make(map[record.Address]*shownProduct)}
	for address, p := range ps.calls {
		whole = s.take(whole, address, p)
	}
	for i := range whole {
		whole[i].RunID = r.id
		if p := ps.calls[whole[i].Address]; p != nil && whole[i].Whole {
			whole[i].Cut = p.isCut(&whole[i])
		}
	}
	ps.mu.Unlock()
	return whole
}

// isCut reports whether the beginning of a Whole delta's text is no longer kept.
func (p *product) isCut(d *Delta) bool {
	for i := range p.texts {
		if t := &p.texts[i]; t.part == d.Part && t.index == d.Index {
			return t.end > len(t.tail)
		}
	}
	return false
}

func (r *run) detach(q *followQueue) {
	ps := &r.products
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for i := range ps.queues {
		if ps.queues[i] == q {
			ps.queues = append(ps.queues[:i:i], ps.queues[i+1:]...)
			return
		}
	}
}

// tell passes a copy of the record to the run's followers in this process. If rec is nil, tell
// passes an empty event, which makes the followers read the source.
func (ps *products) tell(rec *record.Record) {
	ps.mu.Lock()
	queues := ps.queues
	ps.mu.Unlock()
	if len(queues) == 0 {
		return
	}
	var e FollowEvent
	if rec != nil {
		kept := *rec
		e.Record = &kept
	}
	for _, q := range queues {
		q.put(e)
	}
}
