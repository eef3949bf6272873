package streamer

import (
	"sync"
	"sync/atomic"
)

// tape is the newest events of one stream, in order, which all its clients
// read from: it is what they have instead of queues of their own.
type tape struct {
	limit int   // how many events are kept
	room  int64 // how many bytes of them, about

	mu      sync.Mutex
	entries []entry       // entries[(p - origin) % limit] is the one at position p
	origin  uint64        // position of the first there was since they were let go of
	bytes   int64         // of them
	total   *atomic.Int64 // of this tape and others; nil if nobody counts
	first   uint64        // position of the oldest
	before  cursor        // the ID of the newest that was forgotten and had one
	next    uint64        // position of the one to come
	told    uint64        // clients were told of what is before this position
	changed chan struct{} // closed when they are told of more; nil while nobody waits
	due     bool          // to tell them is somebody's task already
}

// entry is an event in a stream.
type entry struct {
	frame *frame
	id    cursor // its number is zero for an event that has no ID
}

func newTape(limit int, room int64) *tape { return &tape{limit: limit, room: room} }

// append puts an event at the end. The caller has it told if that is due.
func (t *tape) append(f *frame, id cursor) (due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(entry{f, id})
	return t.becomesDue()
}

// number is append for a stream that numbers its events itself, from 1.
func (t *tape) number(f *frame, epoch string) (due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(entry{f, cursor{epoch, t.next + 1}})
	return t.becomesDue()
}

func (t *tape) put(e entry) {
	for t.next-t.first == uint64(t.limit) || t.next > t.first && t.bytes+e.frame.size > t.room {
		t.drop()
	}
	if len(t.entries) < t.limit {
		t.entries = append(t.entries, e)
	} else {
		*t.at(t.next) = e
	}
	t.next++
	t.count(e.frame.size)
}

// at is the entry of a position.
func (t *tape) at(pos uint64) *entry { return &t.entries[(pos-t.origin)%uint64(t.limit)] }

// drop forgets the oldest event.
func (t *tape) drop() {
	e := t.at(t.first)
	t.count(-e.frame.size)
	if e.id.n > 0 {
		t.before = e.id
	}
	*e = entry{}
	t.first++
}

// clear forgets all events.
func (t *tape) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropAll()
}

func (t *tape) dropAll() {
	for t.first < t.next {
		t.drop()
	}
	t.entries, t.origin = nil, t.next // which take memory too
}

// retire forgets all events, and counts no more of them: the run is forgotten,
// although somebody may be just about to publish one.
func (t *tape) retire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropAll()
	t.total = nil
}

func (t *tape) count(bytes int64) {
	t.bytes += bytes
	if t.total != nil {
		t.total.Add(bytes)
	}
}

// becomesDue reports whether the caller is to have clients told: somebody
// waits, there is something to tell, and nobody else was asked.
func (t *tape) becomesDue() bool {
	if t.due || t.changed == nil || t.told == t.next {
		return false
	}
	t.due = true
	return true
}

// rewind forgets the events from the number on, which a crash has taken. Those
// before it are put at the end anew: whoever reads on from an old position
// knows them by their numbers, and whoever begins finds no other.
func (t *tape) rewind(number uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var rest []entry
	for p := t.first; p < t.next; p++ {
		e := *t.at(p)
		if e.id.n >= number {
			break
		}
		rest = append(rest, e)
	}
	before := t.before
	t.dropAll()
	if t.before = before; before.n >= number {
		t.before = cursor{}
	}
	for _, e := range rest {
		t.put(e)
	}
}

// read copies events from the position on. It is not ok where they are no
// longer kept.
func (t *tape) read(pos uint64, into []entry) (n int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if pos < t.first {
		return 0, false
	}
	for n < len(into) && pos+uint64(n) < t.next {
		into[n] = *t.at(pos + uint64(n))
		n++
	}
	return n, true
}

// all copies the events that are kept.
func (t *tape) all() []entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]entry, 0, t.next-t.first)
	for p := t.first; p < t.next; p++ {
		all = append(all, *t.at(p))
	}
	return all
}

// more returns a channel that is closed when clients are told of an event at
// the position; nil if they have been. The caller has it told if that is due.
func (t *tape) more(pos uint64) (changed <-chan struct{}, due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if pos < t.told {
		return nil, false
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed, pos < t.next && t.becomesDue()
}

// tell tells those who wait of all there is.
func (t *tape) tell() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told, t.due = t.next, false
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// span is the positions that are kept: from first, before next.
func (t *tape) span() (first, next uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first, t.next
}

// place is where a cursor stands in a tape.
type place uint8

const (
	placeFound   place = iota // the event after it is at the position
	placeOlder                // what comes after it is no longer kept, or not all of it
	placeBeyond               // its epoch ended, or stands, before it
	placeUnknown              // its epoch is not kept
)

// locate finds the position after a cursor. Events without an ID that follow
// the cursor's are passed over: whoever has it may have had them.
func (t *tape) locate(c cursor) (pos uint64, where place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	where, pos = placeUnknown, t.next
	for p := t.next; p > t.first; {
		p--
		e := t.at(p)
		switch {
		case e.id.n == 0 || e.id.epoch != c.epoch:
			continue
		case e.id.n > c.n:
			pos, where = p, placeOlder
			if e.id.n == c.n+1 {
				where = placeFound
			}
			continue
		case e.id.n < c.n && where == placeUnknown:
			return pos, placeBeyond
		case e.id.n == c.n && where == placeUnknown:
			return t.following(p+1, c.n)
		}
		return pos, where
	}
	if where == placeUnknown && c.epoch != "" && c.epoch == t.before.epoch && c.n <= t.before.n {
		if c.n == t.before.n {
			return t.following(t.first, c.n)
		}
		return t.first, placeOlder
	}
	return pos, where
}

// forgotten is the ID of the newest event that is no longer kept and had one.
func (t *tape) forgotten() cursor {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.before
}

// following is where a cursor stands whose event is kept, before the position.
// The event after it may never have been published, and the next be of another
// opening: somebody answered a question while nobody had the run open.
func (t *tape) following(pos, n uint64) (uint64, place) {
	pos = t.afterUnnumbered(pos)
	if pos < t.next && t.at(pos).id.n > n+1 {
		return pos, placeOlder
	}
	return pos, placeFound
}

func (t *tape) afterUnnumbered(pos uint64) uint64 {
	for pos < t.next && t.at(pos).id.n == 0 {
		pos++
	}
	return pos
}

// after finds the first event with a number above n, which rises from event to
// event. If none is kept, the position is that of the one to come.
func (t *tape) after(n uint64) (pos uint64, id cursor, kept bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	pos = t.next
	for p := t.next; p > t.first; {
		p--
		switch e := t.at(p); {
		case e.id.n > n:
			pos, id, kept = p, e.id, true
		case e.id.n > 0:
			return pos, id, kept
		}
	}
	return pos, id, kept
}

// oldest is the first event with an ID.
func (t *tape) oldest() (e entry, pos uint64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	pos = t.afterUnnumbered(t.first)
	if pos == t.next {
		return entry{}, pos, false
	}
	return *t.at(pos), pos, true
}
