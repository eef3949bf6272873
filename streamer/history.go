package streamer

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/reprise-go/reprise/record"
)

// historyMinutes is the number of minutes that a history covers.
const historyMinutes = 60

// A Minute summarizes what the calls of all runs did in one minute.
type Minute struct {
	At           time.Time      `json:"at"` // the beginning of the minute
	Attempts     int            `json:"attempts"`
	Retries      int            `json:"retries"`           // how many of Attempts followed a failed attempt
	Failures     int            `json:"failures"`          // calls that failed for good
	Classes      map[string]int `json:"classes,omitempty"` // number of failed attempts, by error class
	InputTokens  int            `json:"input_tokens"`
	OutputTokens int            `json:"output_tokens"`
	Cost         float64        `json:"cost"`
}

// History summarizes what was published in the last hour. It is the body of /api/history.
type History struct {
	Now     time.Time `json:"now"`
	Since   time.Time `json:"since"`   // when the server began, but at most an hour ago: earlier events are unknown
	Minutes []Minute  `json:"minutes"` // minutes in which something was published, oldest first
}

// history collects the data for a History.
type history struct {
	mu      sync.Mutex
	since   time.Time
	minutes [historyMinutes]Minute // indexed by the number of the minute, modulo historyMinutes
}

func newHistory(now time.Time) *history { return &history{since: now.UTC()} }

// take counts a published record for the minute in which the record was written, even if the record
// arrives late. now is the current time. A record from a process whose clock is ahead counts for
// the current minute.
func (h *history) take(r *record.Record, now time.Time) {
	if r.Replayed || r.Seq == 0 || !r.Kind.IsCall() || r.Kind == record.KindGroup || r.Kind == record.KindBranch {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Before(h.since) { // the clock was set back
		h.since = now.UTC()
	}
	if r.Time.Before(h.since.Add(-time.Minute)) {
		return
	}
	at := r.Time
	if at.After(now) {
		at = now
	}
	m := h.minute(at, now)
	if m == nil {
		return
	}
	switch r.Status {
	case record.StatusStarted:
		m.Attempts++
		if r.Attempt > 0 {
			m.Retries++
		}
	case record.StatusFailed:
		if m.Classes == nil {
			m.Classes = make(map[string]int)
		}
		m.Classes[r.Class.String()]++
		if !r.WillRetry {
			m.Failures++
		}
	}
	used := r.Used()
	m.InputTokens += used.InputTokens
	m.OutputTokens += used.OutputTokens
	m.Cost += used.Cost
}

// minute returns the Minute that contains t, or nil if a newer Minute has replaced it. A Minute in
// the future is from before the clock was set back, and is replaced.
func (h *history) minute(t, now time.Time) *Minute {
	at := t.UTC().Truncate(time.Minute)
	m := &h.minutes[at.Unix()/60%historyMinutes]
	switch {
	case m.At.After(at) && !m.At.After(now):
		return nil
	case !m.At.Equal(at):
		*m = Minute{At: at}
	}
	return m
}

func (h *history) read(now time.Time) History {
	h.mu.Lock()
	defer h.mu.Unlock()
	hour := now.UTC().Truncate(time.Minute).Add(-(historyMinutes - 1) * time.Minute)
	read := History{Now: now.UTC(), Since: hour, Minutes: []Minute{}}
	if h.since.After(hour) {
		read.Since = h.since
	}
	for i := range historyMinutes {
		m := h.minutes[(hour.Unix()/60+int64(i))%historyMinutes]
		if m.At.Before(hour) || m.At.After(now) {
			continue
		}
		m.Classes = maps.Clone(m.Classes)
		read.Minutes = append(read.Minutes, m)
	}
	return read
}

// serveHistory sends the history only to senders that are allowed to see all runs, because the
// history covers all runs.
func (h *Handler) serveHistory(w http.ResponseWriter, _ *http.Request, scope *Access) {
	if scope.Runs != nil {
		h.refuse(w, http.StatusForbidden, "forbidden", "the history is about all runs, and you may not see all of them")
		return
	}
	h.sendJSON(w, h.history.read(time.Now()))
}
