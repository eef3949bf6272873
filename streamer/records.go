package streamer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// recordsBody is the body of /api/runs/{run}/records.
type recordsBody struct {
	Records []json.RawMessage `json:"records"` // in order
	Omitted uint64            `json:"omitted"` // number of earlier records
}

// errBefore means that a client asked for the records before a number that the run has not reached
// yet.
var errBefore = errors.New("before is beyond the last record of the run")

// serveRecords sends a page of the records before a given number. It is for clients that read the
// newest records first.
func (h *Handler) serveRecords(w http.ResponseWriter, req *http.Request, scope *Access) {
	limit, err := limitOf(req, defaultRecords, maxRecords)
	if err != nil {
		h.refuse(w, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	before, err := beforeOf(req)
	if err != nil {
		h.refuse(w, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	id := req.PathValue("run")
	r, err := h.find(req.Context(), id, scope)
	if err != nil {
		h.refuseError(w, err, noRun(id))
		return
	}
	body, err := h.recordsBefore(req.Context(), r, before, limit)
	if errors.Is(err, errBefore) {
		h.refuse(w, http.StatusNotFound, "not_found", err.Error())
		return
	} else if err != nil {
		h.refuseError(w, err, noRun(id))
		return
	}
	h.sendJSON(w, body)
}

// beforeOf returns the parameter before, or 0 if the page is the last one of the run.
func beforeOf(req *http.Request) (uint64, error) {
	text := req.URL.Query().Get("before")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("before is %.50q: want the number of a record, 1 or more", text)
	}
	return n, nil
}

func (h *Handler) recordsBefore(ctx context.Context, r *run, before uint64, limit int) (recordsBody, error) {
	last, err := h.lastOf(ctx, r)
	switch {
	case err != nil:
		return recordsBody{}, err
	case before == 0:
		before = last + 1
	case before > last+1:
		return recordsBody{}, fmt.Errorf("%w: it is %d, and the last record is %d", errBefore, before, last)
	}
	after := before - 1 - min(before-1, uint64(limit))
	frames, err := h.between(ctx, r, after, before)
	if err != nil {
		return recordsBody{}, err
	}
	body := recordsBody{Records: []json.RawMessage{}, Omitted: after}
	for _, f := range frames {
		body.Records = append(body.Records, f.json())
	}
	if len(frames) > 0 {
		body.Omitted = frames[0].seq - 1
	}
	return body, nil
}

// lastOf returns the number of the newest record of a run.
func (h *Handler) lastOf(ctx context.Context, r *run) (uint64, error) {
	r.mu.Lock()
	last := r.view.LastSeq
	r.mu.Unlock()
	if h.source == nil {
		return last, nil
	}
	info, err := h.source.Run(ctx, r.id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return 0, err
	}
	return max(last, info.LastSeq), nil
}

// between returns the frames of a run with numbers above after and below before. If not all of them
// are in memory, it reads the source.
func (h *Handler) between(ctx context.Context, r *run, after, before uint64) (frames []*frame, err error) {
	for _, e := range r.tape.all() {
		if e.id.n > after && e.id.n < before {
			frames = append(frames, e.frame)
		}
	}
	if h.source == nil || uint64(len(frames)) == before-1-after {
		return frames, nil
	}
	stored := frames[:0:0]
	for rec, err := range h.source.Records(ctx, r.id, after) {
		if errors.Is(err, ErrNotFound) {
			return frames, nil // the run exists only in memory
		} else if err != nil {
			return nil, err
		}
		if rec.Seq >= before {
			break
		}
		stored = append(stored, h.newFrame(&rec))
	}
	return stored, nil
}
