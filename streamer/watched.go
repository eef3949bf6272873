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

// eventDelta is the name of the event that contains what a call produces.
const eventDelta = "delta"

// eventElsewhere is the name of the event that reports that no deltas are available.
const eventElsewhere = "elsewhere"

// watchedRuns are the runs whose deltas a client has asked for.
type watchedRuns struct {
	runs  []*shownProducts
	at    time.Time     // when the last deltas were sent
	fresh chan struct{} // holds a value if there may be new deltas
}

// maxWatched is the maximum number of runs that a client may watch on the stream of all runs.
const maxWatched = 100

// parseDeltas reads the parameter deltas, which is allowed only in the stream of a single run. one
// is true for such a stream.
func parseDeltas(values []string, one bool) (bool, error) {
	if len(values) == 0 {
		return false, nil
	}
	wanted, err := strconv.ParseBool(values[0])
	switch {
	case err != nil || len(values) > 1:
		return false, fmt.Errorf("deltas is %q: want a single value, true or false", values)
	case wanted && !one:
		return false, errors.New("deltas are sent only for named runs: use run=ID, or watch=ID in the stream of all runs")
	}
	return wanted, nil
}

// parseWatched reads the parameters watch and others of the stream of all runs. They are the runs
// whose deltas the client wants, and whether the client also wants the records of other runs.
func parseWatched(watch, others []string) (ids []string, all bool, err error) {
	all = true
	if len(others) > 0 {
		if all, err = strconv.ParseBool(others[0]); err != nil || len(others) > 1 {
			return nil, false, fmt.Errorf("others is %q: want a single value, true or false", others)
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

// watch subscribes the client of s to the deltas of those runs that the client is allowed to see.
// The caller must call release when the stream ends.
func (h *Handler) watch(s *stream, ids []string) (release func()) {
	if len(ids) == 0 {
		return func() {}
	}
	w := &watchedRuns{fresh: make(chan struct{}, 1)}
	for _, id := range ids {
		if !s.filter.scope.sees(id) {
			continue // the client must not learn whether such a run exists
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

// sendDeltas sends what the calls of watched runs have produced since deltas were last sent. It
// does so at most ten times a second. It returns what to wait for before calling it again: either a
// channel that receives a value when there are more deltas, or, if the channel is nil, the end of a
// pause.
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

// sayElsewhere tells a client that has asked for deltas that there are none here. It does so once
// each time another process opens a run.
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
		s.event(eventElsewhere, elsewhereBody{RunID: shown.run.id, Message: "Another process executes this run, so what its calls are producing is not available here."})
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}

// elsewhereTimeout is the maximum time that Options.Elsewhere may take.
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
