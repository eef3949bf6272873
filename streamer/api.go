package streamer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RunList holds the states of the runs of a [Handler]. It is the body of /api/runs, and
// the result of [Client.Runs].
type RunList struct {
	Cursor string     `json:"cursor"`         // position in the stream of all runs; the runs may have newer records by now
	Now    time.Time  `json:"now"`            // time on the server's clock, like next_attempt_at
	Runs   []RunState `json:"runs"`           // one page, most recently updated first unless the query says otherwise
	Next   string     `json:"next,omitempty"` // the parameter "after" for the next page; empty on the last page
	Total  int        `json:"total"`          // number of runs on all pages

	// Counts holds the number of runs on all pages by status. It ignores the query's own status
	// filter.
	Counts map[string]int `json:"counts"`
	Can    Permissions    `json:"can"`
}

// Permissions are what the sender of a request is allowed to do.
type Permissions struct {
	As        string `json:"as,omitempty"` // who the sender is; empty if there is no sign-in
	Interrupt bool   `json:"interrupt"`
	Cancel    bool   `json:"cancel"`
	Answer    bool   `json:"answer"`
	Resume    bool   `json:"resume"` // resume and retry runs
	Fork      bool   `json:"fork"`
	Start     bool   `json:"start"`   // start runs of programs
	History   bool   `json:"history"` // may read what all runs did in the last hour
}

// runBody is the body of /api/runs/{run}.
type runBody struct {
	Cursor  string            `json:"cursor"` // position in the run's stream, after the last record; empty if there are no records
	All     string            `json:"all"`    // position in the stream of all runs; may be older or newer than the last record
	Now     time.Time         `json:"now"`
	Run     RunState          `json:"run"`
	Records []json.RawMessage `json:"records"` // the newest, in order
	Omitted uint64            `json:"omitted"` // number of earlier records
	Can     Permissions       `json:"can"`
}

const (
	defaultRuns    = 100
	maxRuns        = 1000
	defaultRecords = 2000
	maxRecords     = 10_000
)

func (h *Handler) serveRuns(w http.ResponseWriter, req *http.Request, scope *Access) {
	q, err := queryOf(req, scope)
	if err != nil {
		h.refuse(w, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	// The cursor is read before the states. Events published while the states are being read are
	// streamed again, and clients recognize them by their numbers.
	_, next := h.all.span()
	body := RunList{Cursor: cursor{h.generation, next}.String(), Now: time.Now().UTC(), Runs: []RunState{}, Can: h.permissions(scope)}
	states, page, err := h.list(req.Context(), q)
	if err != nil {
		h.refuseError(w, err, "")
		return
	}
	body.Runs, body.Next, body.Counts = append(body.Runs, states...), page.Next, page.Counts
	body.Total = page.total(q.Status)
	h.sendJSON(w, body)
}

// markAnswered marks the questions whose answers are in the store. The run picks up these answers
// when it is next opened. If the answers cannot be read, no question is marked. This is harmless,
// because a second answer is refused anyway. If the run was cancelled, only the questions of
// compensations remain.
func (h *Handler) markAnswered(ctx context.Context, s *RunState) {
	if s.isCancelled() {
		s.Questions = slices.DeleteFunc(slices.Clone(s.Questions), func(q QuestionState) bool { return !strings.Contains(q.ID, "@undo/") })
	}
	if h.source == nil || len(s.Questions) == 0 {
		return
	}
	answered, err := h.source.Answered(ctx, s.RunID)
	if err != nil {
		return
	}
	for i := range s.Questions {
		s.Questions[i].Answered = slices.Contains(answered, s.Questions[i].ID)
	}
}

// adopt adds to s the information that only the source has.
func (s *RunState) adopt(info RunInfo) {
	s.ParentID, s.CalledBy, s.Tags, s.Program, s.Version, s.Due, s.Worker = info.ParentID, info.CalledBy, info.Tags, info.Program, info.Version, info.Due, info.Worker
	s.Description, s.Pipeline = cmp.Or(s.Description, info.Description), cmp.Or(s.Pipeline, info.Pipeline)
	if !info.Created.IsZero() {
		s.Created = info.Created
	}
	if s.Updated.Before(info.Updated) {
		s.Updated = info.Updated
	}
	if info.isClosedAt(s.LastSeq) || info.Status != "" && info.LastSeq > s.LastSeq {
		s.LastSeq, s.Status, s.Stop = info.LastSeq, info.Status, info.Stop
		if s.Partial && info.Status != statusRunning {
			s.Usage = info.Usage
		}
	}
	s.Stopping = nil
	if s.Status == statusRunning || s.Status == info.Status { // an interrupted run may still have calls to compensate
		s.Stopping = info.Stopping
	}
}

// isClosedAt reports whether no process has had the run open since the run's record with the number
// last. The source knows this even if the process was killed. But if that record ends or pauses the
// run, the source reports "running" until the run is closed a moment later.
func (i *RunInfo) isClosedAt(last uint64) bool {
	return i.Status != "" && i.Status != statusRunning && i.LastSeq >= last
}

func (h *Handler) serveRun(w http.ResponseWriter, req *http.Request, scope *Access) {
	limit, err := limitOf(req, defaultRecords, maxRecords)
	if err != nil {
		h.refuse(w, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	id := req.PathValue("run")
	r, err := h.find(req.Context(), id, scope)
	if err == nil {
		var body runBody
		if body, err = h.runBody(req.Context(), r, limit); err == nil {
			body.Can = h.permissions(scope)
			h.sendJSON(w, body)
			return
		}
	}
	h.refuseError(w, err, noRun(id))
}

func (h *Handler) runBody(ctx context.Context, r *run, limit int) (runBody, error) {
	_, next := h.all.span() // first: see serveRuns
	var info RunInfo
	if h.source != nil {
		var err error
		if info, err = h.source.Run(ctx, r.id); err != nil && !errors.Is(err, ErrNotFound) {
			return runBody{}, err
		}
	}
	if err := r.readMissing(ctx, h.source, info.LastSeq); err != nil {
		return runBody{}, err
	}
	body := runBody{All: cursor{h.generation, next}.String(), Now: time.Now().UTC(), Run: r.state(&info), Records: []json.RawMessage{}}
	body.Run.adopt(info)
	h.markAnswered(ctx, &body.Run)
	frames, ids, before, err := h.newest(ctx, r, limit, info.LastSeq)
	if err != nil {
		return runBody{}, err
	}
	for _, f := range frames {
		body.Records = append(body.Records, f.json())
	}
	body.Omitted = before
	created := r.knownCreated()
	if len(ids) > 0 {
		body.Cursor = string(ids[len(ids)-1].append(appendCreated(nil, created)))
	} else if last := r.tape.lastForgotten(); last.n > 0 { // the tape has dropped all records, and no source has them
		body.Cursor, body.Omitted = string(last.append(appendCreated(nil, created))), last.n
	}
	return body, nil
}

// newest returns the newest of a run's frames that have an ID, and the number of earlier frames.
func (h *Handler) newest(ctx context.Context, r *run, limit int, last uint64) (frames []*frame, ids []cursor, before uint64, err error) {
	for _, e := range r.tape.all() {
		if e.id.n > 0 {
			frames, ids = append(frames, e.frame), append(ids, e.id)
		}
	}
	extra := max(0, len(frames)-limit)
	frames, ids = frames[extra:], ids[extra:]
	if h.source != nil && !isNewest(ids, limit) {
		if frames, ids, err = h.newestStored(ctx, r.id, limit, last); err != nil {
			return nil, nil, 0, err
		}
		extra = max(0, len(frames)-limit)
		frames, ids = frames[extra:], ids[extra:]
	}
	if len(ids) > 0 {
		before = ids[0].n - 1
	}
	return frames, ids, before, nil
}

// isNewest reports whether ids has no gap and contains either limit IDs or all IDs from the first
// one on. There may be a gap if another process has written records.
func isNewest(ids []cursor, limit int) bool {
	if len(ids) == 0 {
		return false
	}
	first, last := ids[0].n, ids[len(ids)-1].n
	return (len(ids) == limit || first == 1) && last-first == uint64(len(ids)-1)
}

// newestStored returns the newest frames of a run from the source. last is the number of
// the newest known record; the run may have newer records by now.
func (h *Handler) newestStored(ctx context.Context, runID string, limit int, last uint64) (frames []*frame, ids []cursor, err error) {
	after := uint64(0)
	if last > uint64(limit) {
		after = last - uint64(limit)
	}
	for rec, err := range h.source.Records(ctx, runID, after) {
		if err != nil {
			return nil, nil, err
		}
		frames, ids = append(frames, h.newFrame(&rec)), append(ids, cursorOf(&rec))
	}
	return frames, ids, nil
}

func limitOf(req *http.Request, def, most int) (int, error) {
	text := req.URL.Query().Get("limit")
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, errors.New("limit is " + strconv.Quote(text) + ": want 1 to " + strconv.Itoa(most))
	}
	return n, nil
}

// Stats holds the counters of a [Handler], as reported by /health.
type Stats struct {
	Status          string `json:"status"` // always "ok": a closed handler responds with 503
	Clients         int    `json:"clients"`
	Runs            int    `json:"runs"`         // runs in memory
	HistoryKept     uint64 `json:"history_kept"` // events of all runs that are in memory
	HistoryLimit    int    `json:"history_limit"`
	HistoryBytes    int64  `json:"history_bytes"` // approximate memory of the events of single runs
	Events          uint64 `json:"events"`        // published since New; the counts below also start at New
	Accepted        uint64 `json:"accepted"`
	Refused         uint64 `json:"refused"` // requests of every kind
	SlowDisconnects uint64 `json:"slow_disconnects"`
	Gaps            uint64 `json:"gaps"`
	Resets          uint64 `json:"resets"`
}

func (h *Handler) serveHealth(w http.ResponseWriter, _ *http.Request, _ *Access) {
	h.sendJSON(w, h.Stats())
}

// Stats returns the counters.
func (h *Handler) Stats() Stats {
	first, next := h.all.span()
	h.mu.Lock()
	clients := h.clients.total
	h.mu.Unlock()
	return Stats{
		Status: "ok", Clients: clients, Runs: len(h.runs.all()),
		HistoryKept: next - first, HistoryLimit: h.options.History, HistoryBytes: h.runs.bytes.Load(),
		Events: h.counters.events.Load(), Accepted: h.counters.accepted.Load(), Refused: h.counters.refused.Load(),
		SlowDisconnects: h.counters.slow.Load(), Gaps: h.counters.gaps.Load(), Resets: h.counters.resets.Load(),
	}
}
