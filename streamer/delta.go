package streamer

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
)

// A Delta is the data of the event "delta": a piece of what a call is producing. Attempts are
// counted from 0; the output of an attempt replaces that of earlier attempts.
type Delta struct {
	live.Delta

	// Whole means that Text is not a piece, but as much of the text so far as is still kept. It
	// replaces the text shown for the same call, part and index.
	Whole bool `json:"whole,omitempty"`
	// Cut means that the beginning of a Whole text is no longer kept.
	Cut bool `json:"cut,omitempty"`
}

// PublishDelta shows a run's clients what one of the run's calls is producing. Pass it to
// [live.Watch], in addition to using state.WithPublisher:
//
//	ctx = live.Watch(st.Context(ctx), dash.PublishDelta)
//
// It does not wait for clients. If no record of the run has been published to the handler, the
// run's deltas are dropped. With [Options.Redact], texts are redacted as described at live.Redact:
// text that may be the beginning of a secret is sent later.
func (h *Handler) PublishDelta(d live.Delta) {
	select {
	case <-h.closing:
	default:
		h.delta(d)
	}
}

// addDelta adds a delta that has already been redacted.
func (h *Handler) addDelta(d live.Delta) {
	r := h.runs.find(d.RunID)
	if r != nil && r.products.add(&d) {
		h.notifyLater(&r.products)
	}
}

const (
	maxProducts = 64      // maximum number of calls shown at a time, per run
	maxTexts    = 64      // texts per call
	maxTail     = 8 << 10 // bytes kept per call
	deltaEvery  = time.Second / 10

	// Sending a delta to a client takes the server about 45 µs. If there are many clients, each
	// receives deltas less often, so that all of them together take a twentieth of one processor's
	// time.
	deltaPerClient = time.Millisecond
	deltaEveryTop  = time.Second
)

// deltaEvery returns the interval at which a client receives deltas.
func (h *Handler) deltaEvery() time.Duration {
	return min(max(deltaEvery, time.Duration(h.deltaClients.Load())*deltaPerClient), deltaEveryTop)
}

// products contains what a run's calls have produced in their running attempts, up to the last
// maxTail bytes for each call. Clients read the parts that they do not have yet, so that a slow
// client receives fewer and longer pieces, and needs no queue.
type products struct {
	mu      sync.Mutex
	calls   map[record.Address]*product
	version uint64         // grows with each change
	due     bool           // a notification to the clients is scheduled
	queues  []*followQueue // queues of the run's followers in this process; never modified, only replaced

	watchers map[chan<- struct{}]struct{} // the clients' channels, each with a buffer for one value
}

// product is what an attempt of a call has produced so far.
type product struct {
	attempt int
	began   time.Time
	texts   []producedText
	size    int // bytes of the texts
}

type producedText struct {
	part  live.Part
	index int
	name  string
	id    string
	tail  []byte
	end   int // length of the whole text
}

// add adds a delta. If due is true, the caller must arrange for the clients to be notified.
func (ps *products) add(d *live.Delta) (due bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, q := range ps.queues {
		q.put(FollowEvent{Delta: &Delta{Delta: *d}})
	}
	if d.Part == live.PartBegin && d.Attempt > 0 {
		due = ps.dropInside(d.Address)
	}
	p := ps.calls[d.Address]
	switch {
	case p != nil && d.Attempt < p.attempt: // from an abandoned attempt
		return due
	case d.Part == live.PartEnd:
		if p == nil {
			return due
		}
		delete(ps.calls, d.Address)
		return ps.change() || due
	case p == nil && len(ps.calls) >= maxProducts:
		return due
	case p == nil, d.Part == live.PartBegin, d.Attempt > p.attempt:
		p = &product{attempt: d.Attempt, began: time.Now()}
		if ps.calls == nil {
			ps.calls = make(map[record.Address]*product)
		}
		ps.calls[d.Address] = p
	}
	p.add(d)
	return ps.change() || due
}

// dropInside drops what the calls inside another call have produced, because the outer call has
// begun a new attempt.
func (ps *products) dropInside(around record.Address) (due bool) {
	for address := range ps.calls {
		if address.IsInside(around) {
			delete(ps.calls, address)
			due = ps.change() || due
		}
	}
	return due
}

func (p *product) add(d *live.Delta) {
	if d.Part == live.PartBegin {
		return
	}
	i := slices.IndexFunc(p.texts, func(t producedText) bool { return t.part == d.Part && t.index == d.Index })
	if i < 0 {
		if len(p.texts) == maxTexts {
			return
		}
		i = len(p.texts)
		p.texts = append(p.texts, producedText{part: d.Part, index: d.Index})
	}
	t := &p.texts[i]
	if d.Name != "" {
		t.name = d.Name
	}
	t.id = cmp.Or(d.ID, t.id)
	if d.Part == live.PartProgress { // each progress report replaces the previous one
		p.size -= len(t.tail)
		t.tail = t.tail[:0]
	}
	t.tail = append(t.tail, d.Text...)
	t.end += len(d.Text)
	p.size += len(d.Text)
	p.shorten()
}

// shorten drops the beginnings of the oldest texts if all texts together are longer than maxTail.
func (p *product) shorten() {
	for i := 0; p.size > maxTail; i++ {
		t := &p.texts[i]
		cut := min(p.size-maxTail, len(t.tail))
		for cut < len(t.tail) && !utf8.RuneStart(t.tail[cut]) {
			cut++
		}
		p.size -= cut
		t.tail = append(t.tail[:0], t.tail[cut:]...)
	}
}

// take drops the products of the calls and attempts that the record ends. A record read from a
// store may arrive late, after this process has reopened the run and received its first deltas.
// These deltas are kept.
func (ps *products) take(r *record.Record) (due bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if len(ps.calls) == 0 {
		return false
	}
	switch p := ps.calls[r.Address]; {
	case r.Kind == record.KindRun:
		maps.DeleteFunc(ps.calls, func(_ record.Address, p *product) bool { return !p.began.After(r.Time) })
	case !r.Kind.IsCall(), r.Status == record.StatusStarted, r.Status == record.StatusRetrying, p == nil, p.attempt > r.Attempt,
		!r.IsOutcome() && p.began.After(r.Time):
		return false
	default:
		delete(ps.calls, r.Address)
	}
	return ps.change()
}

// change marks the products as changed. If due is true, the caller must schedule a notification.
func (ps *products) change() (due bool) {
	ps.version++
	due = len(ps.watchers) > 0 && !ps.due
	ps.due = ps.due || due
	return due
}

// watch registers a client's channel, which then receives a value after each change.
func (ps *products) watch(fresh chan<- struct{}) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.watchers == nil {
		ps.watchers = make(map[chan<- struct{}]struct{})
	}
	ps.watchers[fresh] = struct{}{}
}

func (ps *products) unwatch(fresh chan<- struct{}) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.watchers, fresh)
}

// notify wakes the clients.
func (ps *products) notify() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.due = false
	for fresh := range ps.watchers {
		select {
		case fresh <- struct{}{}:
		default: // the client has not read the previous notification
		}
	}
}

// shownProducts records which of a run's products a client has received.
type shownProducts struct {
	run     *run
	version uint64
	calls   map[record.Address]*shownProduct
	asked   uint64 // the last generation of the run for which Options.Elsewhere was called
}

type shownProduct struct {
	*product

	ends  []int // how far each text has been sent
	names []string
}

// since returns what the client has not received yet and marks it as received.
func (ps *products) since(s *shownProducts) (deltas []Delta) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if s.version == ps.version {
		return nil
	}
	s.version = ps.version
	for address, old := range s.calls {
		if ps.calls[address] != old.product {
			delete(s.calls, address)
		}
		if ps.calls[address] == nil {
			deltas = append(deltas, Delta{Delta: live.Delta{Address: address, Attempt: old.attempt, Part: live.PartEnd}})
		}
	}
	for address, p := range ps.calls {
		deltas = s.take(deltas, address, p)
	}
	return deltas
}

func (s *shownProducts) take(deltas []Delta, address record.Address, p *product) []Delta {
	had := s.calls[address]
	if had == nil {
		had = &shownProduct{product: p}
		s.calls[address] = had
		deltas = append(deltas, Delta{Delta: live.Delta{Address: address, Attempt: p.attempt, Part: live.PartBegin}})
	}
	for i := range p.texts {
		t := &p.texts[i]
		if i == len(had.ends) {
			had.ends, had.names = append(had.ends, 0), append(had.names, "")
		} else if had.ends[i] == t.end && had.names[i] == t.name {
			continue
		}
		d := Delta{Delta: live.Delta{Address: address, Attempt: p.attempt, Part: t.part, Index: t.index, Name: t.name, ID: t.id}}
		fresh := t.end - had.ends[i]
		if d.Whole = t.part == live.PartProgress || fresh > len(t.tail) || had.ends[i] == 0; d.Whole {
			fresh = len(t.tail)
		}
		d.Text = string(t.tail[len(t.tail)-fresh:])
		had.ends[i], had.names[i] = t.end, t.name
		deltas = append(deltas, d)
	}
	return deltas
}
