package streamer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/reprise-go/reprise/record"
)

// eventDelta is the name of the event that shows what a call produces.
const eventDelta = "delta"

// eventElsewhere is the name of the event that says that no deltas are available.
const eventElsewhere = "elsewhere"

// watchedRuns are the runs whose deltas a client has asked for.
type watchedRuns struct {
	runs  []*shownProducts
	at    time.Time     // when the last deltas were sent
	fresh chan struct{} // holds a value when there may be more deltas
}

// maxWatched is how many runs a client may watch on the stream of all runs.
const maxWatched = 100

// parseDeltas reports whether a client sets the parameter deltas, which only the
// stream of one run has.
func parseDeltas(values []string, one bool) (bool, error) {
	if len(values) == 0 {
		return false, nil
	}
	wanted, err := strconv.ParseBool(values[0])
	switch {
	case err != nil || len(values) > 1:
		return false, fmt.Errorf("deltas is %q: want one true or false", values)
	case wanted && !one:
		return false, errors.New("deltas are available for one run only: name it, as run=ID, or as watch=ID on the stream of all runs")
	}
	return wanted, nil
}

// parseWatched returns the runs that a client of the stream of all runs watches, and whether
// it also gets the records of other runs.
func parseWatched(watch, others []string) (ids []string, all bool, err error) {
	all = true
	if len(others) > 0 {
		if all, err = strconv.ParseBool(others[0]); err != nil || len(others) > 1 {
			return nil, false, fmt.Errorf("others is %q: want one true or false", others)
		}
	}
	if len(watch) > maxWatched {
		return nil, false, fmt.Errorf("watch names %d runs: want at most %d", len(watch), maxWatched)
	}
	for _, id := range watch {
		if id == "" || len(id) > maxRunID {
			return nil, false, fmt.Errorf("watch is %q: want the ID of a run", record.Truncate(id, maxName))
		}
	}
	return watch, all, nil
}

// watch notes that the client of s wants the deltas of runs that its sender may see. The
// caller releases them.
func (h *Handler) watch(s *stream, ids []string) (release func()) {
	if len(ids) == 0 {
		return func() {}
	}
	w := &watchedRuns{fresh: make(chan struct{}, 1)}
	for _, id := range ids {
		if !s.filter.scope.sees(id) {
			continue // ignore runs that the sender may not see
		}
		r := h.runs.get(id, true)
		r.products.watch(w.fresh)
		w.runs = append(w.runs, &shownProducts{run: r, calls: make(map[record.Address]*shownProduct)})
	}
	s.watched = w
	h.deltaClients.Add(1)
	return func() {
		h.deltaClients.Add(-1)
		for _, shown := range w.runs {
			shown.run.products.unwatch(w.fresh)
			shown.run.clients.Add(-1)
		}
	}
}

// sendDeltas sends what the calls of watched runs have produced since the previous call, at
// most ten times a second. If there is nothing to send now, it returns what to wait for: a
// channel that receives a value when there are more deltas, and a pause.
func (s *stream) sendDeltas() (more <-chan struct{}, pause time.Duration, err error) {
	w := s.watched
	if w == nil {
		return nil, math.MaxInt64, nil
	}
	every := s.handler.deltaEvery()
	if rest := every - time.Since(w.at); rest > 0 {
		return nil, rest, nil
	}
	select {
	case <-w.fresh:
	default:
	}
	sent := false
	for _, shown := range w.runs {
		for _, d := range shown.run.products.since(shown) {
			d.RunID = shown.run.id
			_ = s.write(fmt.Appendf(nil, "data: %s\nevent: %s\n\n", mustJSON(&d), eventDelta)) // flush returns its error too
			sent = true
		}
	}
	if !sent {
		return w.fresh, math.MaxInt64, nil
	}
	w.at = time.Now()
	return nil, every, s.flush()
}

// sayElsewhere tells a client that asks for deltas that there are none here, once for each
// opening of a run by another process.
func (s *stream) sayElsewhere(ctx context.Context) error {
	if s.watched == nil || s.handler.options.Elsewhere == nil {
		return nil
	}
	for _, shown := range s.watched.runs {
		generation := s.at.generation
		if s.run == nil {
			generation = shown.run.generation()
		}
		if generation <= shown.asked {
			continue
		}
		shown.asked = generation
		if !s.handler.isElsewhere(ctx, shown.run.id) {
			continue
		}
		s.event(eventElsewhere, elsewhereBody{RunID: shown.run.id, Message: "What the calls of this run produce is not available here: another process executes it."})
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}

// elsewhereTimeout is how long a store may take to say who executes a run.
const elsewhereTimeout = 2 * time.Second

func (h *Handler) isElsewhere(ctx context.Context, runID string) bool {
	ctx, cancel := context.WithTimeout(ctx, elsewhereTimeout)
	defer cancel()
	return h.options.Elsewhere(ctx, runID)
}

// elsewhereBody is the data of the event "elsewhere".
type elsewhereBody struct {
	RunID   string `json:"run_id"`
	Message string `json:"message"`
}
