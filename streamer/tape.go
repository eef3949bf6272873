package streamer

import (
	"slices"
	"sync"
	"sync/atomic"
)

// tape holds the newest events of one stream, in order. All clients of the stream read from the
// tape and have no queues of their own.
type tape struct {
	limit int   // maximum number of events that are kept
	room  int64 // approximate maximum number of bytes of memory that the events may take

	mu      sync.Mutex
	entries []entry       // entries[(p - origin) % limit] is the entry at position p
	origin  uint64        // position of the first entry since the entries were last cleared
	bytes   int64         // size of the entries
	total   *atomic.Int64 // size of this and other tapes; nil if it is not counted
	first   uint64        // position of the oldest event
	before  cursor        // the ID of the newest dropped event that had an ID
	next    uint64        // position of the next event

	// begun holds the first ID of each known generation.
	begun []cursor
	last  cursor // the newest ID

	notified uint64        // clients were notified of the events before this position
	changed  chan struct{} // closed when there are new events; nil if no client is waiting
	due      bool          // a notification is scheduled
}

// entry is an event in a stream.
type entry struct {
	frame *frame
	id    cursor // its number is zero if the event has no ID
}

func newTape(limit int, room int64) *tape { return &tape{limit: limit, room: room} }

// append adds an event at the end. If due is true, the caller must schedule a notification of the
// clients.
func (t *tape) append(f *frame, id cursor) (due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(entry{f, id})
	return t.becomesDue()
}

// appendNumbered is like append, but for a tape that numbers its own events, starting at 1.
func (t *tape) appendNumbered(f *frame, generation uint64) (due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(entry{f, cursor{generation, t.next + 1}})
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
	if e.id.n == 0 {
		return
	}
	t.last = e.id
	if i := len(t.begun); i == 0 || t.begun[i-1].generation != e.id.generation {
		t.begun = append(t.begun, e.id)
	}
}

// at returns the entry at a position.
func (t *tape) at(pos uint64) *entry { return &t.entries[(pos-t.origin)%uint64(t.limit)] }

// drop removes the oldest event.
func (t *tape) drop() {
	e := t.at(t.first)
	t.count(-e.frame.size)
	if e.id.n > 0 {
		t.before = e.id
	}
	*e = entry{}
	t.first++
}

// clear removes all events.
func (t *tape) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropAll()
}

func (t *tape) dropAll() {
	for t.first < t.next {
		t.drop()
	}
	t.entries, t.origin = nil, t.next // free the array, too
}

// retire removes all events, and stops counting the size of later ones. It is called when the run
// is removed. One of the run's records may still be about to be published.
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

// becomesDue reports whether the caller must schedule a notification. It must if a client is
// waiting, there is a new event, and no notification is scheduled.
func (t *tape) becomesDue() bool {
	if t.due || t.changed == nil || t.notified == t.next {
		return false
	}
	t.due = true
	return true
}

// rewind removes the events from the given number on, because their records were lost in a crash.
// The earlier events are appended again: a client that continues from an old position recognizes
// them by their numbers, and a new client receives only these.
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
	t.begun = slices.DeleteFunc(t.begun, func(c cursor) bool { return c.n >= number })
	t.last = t.before
	for _, e := range rest {
		t.put(e)
	}
}

// restart removes all events, because another run with the same ID has begun. It ends the streams
// of clients that have read them.
func (t *tape) restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(restartedFrame)
}

// find returns the frame of the event at the cursor, or nil if the event is not kept.
func (t *tape) find(c cursor) *frame {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := t.next; p > t.first; {
		p--
		if e := t.at(p); e.id == c && c.n > 0 {
			return e.frame
		}
	}
	return nil
}

// read copies the events from position pos on. If the first of them is no longer kept, ok is false.
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

// all returns a copy of the events.
func (t *tape) all() []entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]entry, 0, t.next-t.first)
	for p := t.first; p < t.next; p++ {
		all = append(all, *t.at(p))
	}
	return all
}

// more returns a channel that is closed when clients are notified of an event at the position. The
// channel is nil if they have already been notified of it. If due is true, the caller must schedule
// a notification.
func (t *tape) more(pos uint64) (changed <-chan struct{}, due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if pos < t.notified {
		return nil, false
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed, pos < t.next && t.becomesDue()
}

// notify wakes the waiting clients.
func (t *tape) notify() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notified, t.due = t.next, false
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// span returns the range of positions that hold events. It includes first, but not next.
func (t *tape) span() (first, next uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first, t.next
}

// place describes how a cursor relates to the events on a tape.
type place uint8

const (
	placeFound   place = iota // the event after the cursor is at the returned position
	placeOlder                // some of the events after the cursor are no longer kept
	placeUnknown              // the tape has never contained the cursor's event
)

// locate returns the position after a cursor. It skips the events without an ID that follow the
// cursor's event, because the client may already have received them.
func (t *tape) locate(c cursor) (pos uint64, where place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.had(c) {
		return t.next, placeUnknown
	}
	pos, next, kept := t.afterLocked(c)
	if kept && next.n > c.n+1 || !kept && c != t.last {
		return pos, placeOlder
	}
	return pos, placeFound
}

// had reports whether the cursor's event was on the tape at some time, or preceded the events on
// it. The event may have been lost in a crash since.
func (t *tape) had(c cursor) bool {
	for i, begun := range t.begun {
		if begun.generation != c.generation {
			continue
		}
		end := t.last.n
		if i+1 < len(t.begun) {
			end = t.begun[i+1].n - 1
		}
		return c.n <= end
	}
	return false
}

// lastForgotten returns the newest ID among the events that are no longer kept.
func (t *tape) lastForgotten() cursor {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.before
}

// after returns the first kept event after the cursor. If there is none, kept is false, and pos is
// the position of the next event that will be published.
func (t *tape) after(c cursor) (pos uint64, id cursor, kept bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.afterLocked(c)
}

// afterLocked is like after, but t.mu must be held. The numbers of the events increase. Events of
// an older generation than the cursor's are about to be removed by rewind.
func (t *tape) afterLocked(c cursor) (pos uint64, id cursor, kept bool) {
	pos = t.next
	for p := t.next; p > t.first; {
		p--
		e := t.at(p)
		if e.id.n == 0 {
			continue
		}
		if e.id.n <= c.n || e.id.generation < c.generation {
			break
		}
		pos, id, kept = p, e.id, true
	}
	return pos, id, kept
}

// oldest returns the first kept event with an ID.
func (t *tape) oldest() (e entry, pos uint64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for pos = t.first; pos < t.next; pos++ {
		if e := *t.at(pos); e.id.n > 0 {
			return e, pos, true
		}
	}
	return entry{}, pos, false
}
