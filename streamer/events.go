package streamer

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// eventParameters are the parameters of /events. Clients that cannot set headers, such as
// event-source-polyfill, send the last event's ID as lastEventId.
var eventParameters = []string{"run", "type", "status", "after", "lastEventId", "watch", "others", "deltas", "vocabulary"}

// serveEvents streams one run, or all runs that the sender may see.
func (h *Handler) serveEvents(w http.ResponseWriter, req *http.Request, scope *Access) {
	query, err := parametersOf(req, eventParameters, "run", "type", "status", "watch", "others", "deltas", "vocabulary")
	if err != nil {
		h.refuse(w, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	f, err := parseFilter(query["type"], query["status"])
	if err != nil {
		h.refuse(w, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	f.scope = scope
	var r *run
	if ids := query["run"]; len(ids) > 1 {
		h.refuse(w, http.StatusBadRequest, "bad_request", "run is given more than once: want one run, or no run for the stream of all runs")
		return
	} else if len(ids) == 1 && ids[0] != "" {
		if err = h.checkAwait(req.Context(), ids[0], scope); err != nil {
			h.refuseError(w, err, noRun(ids[0]))
			return
		}
		r = h.runs.get(ids[0], true)
		defer r.clients.Add(-1)
	}
	watch, err := f.watch(query, r)
	if err != nil {
		h.refuse(w, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	words, err := h.options.Vocabularies.parse(query["vocabulary"])
	if err != nil {
		h.refuse(w, http.StatusBadRequest, "bad_request", err.Error())
		return
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

	s := &stream{handler: h, flushed: time.Now(), run: r, filter: f, w: w, control: http.NewResponseController(w), timer: time.NewTimer(h.options.Heartbeat), vocabulary: words, proto: req.ProtoMajor}
	defer s.timer.Stop()
	defer h.watch(s, watch)()
	defer func() { _ = s.flush() }() // the last event may say why the stream ends
	id := cmp.Or(req.Header.Get("Last-Event-ID"), query.Get("lastEventId"), query.Get("after"))
	ctx := req.Context()
	if scope.TTL > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, scope.TTL)
		defer cancel()
	}
	ctx, release := h.untilClosed(ctx)
	defer release()
	s.begin()
	id, part := cutPart(id)
	if r == nil {
		err = s.serveAll(ctx, id, part)
	} else {
		err = s.serveRun(ctx, id, part)
	}
	if errors.Is(err, errSlow) {
		h.counters.slow.Add(1)
	}
}

// checkAwait returns an error if the sender is not allowed to see the run, or if the run's ID is
// longer than any run's ID can be. If the run does not exist yet, there is no error: its stream
// waits until the run begins.
func (h *Handler) checkAwait(ctx context.Context, id string, scope *Access) error {
	_, err := h.find(ctx, id, scope)
	if errors.Is(err, ErrNotFound) && scope.sees(id) && len(id) <= maxRunID {
		return nil
	}
	return err
}

// maxRunID is the maximum length of a stored run's ID, in bytes.
const maxRunID = 128

// watch returns the IDs of the runs whose deltas a client requests. With others=false, it restricts
// f to the records of these runs.
func (f *filter) watch(query url.Values, r *run) ([]string, error) {
	deltas, err := parseDeltas(query["deltas"], r != nil)
	if err != nil {
		return nil, err
	}
	watch, others, err := parseWatched(query["watch"], query["others"])
	switch {
	case err != nil:
		return nil, err
	case r != nil && (len(watch) > 0 || !others):
		return nil, errors.New("watch and others are for the stream of all runs, and this is the stream of one run")
	case deltas:
		return []string{r.id}, nil
	case !others:
		f.only = make(map[string]bool, len(watch))
		for _, id := range watch {
			f.only[id] = true
		}
	}
	return watch, nil
}
