package streamer

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"
)

// A Queue contains the numbers of runs that are waiting and running.
type Queue struct {
	Queued int `json:"queued"` // runs that are due and wait for a slot, in all processes that share the queue
	Parked int `json:"parked"` // runs that are not due yet
	Open   int `json:"open"`   // runs that this process has open
	Limit  int `json:"limit"`  // the maximum number of runs that this process may have open
}

// A Worker is a process that has runs open.
type Worker struct {
	Name string `json:"name"` // empty for the total of all workers without a name
	Runs int    `json:"runs"` // number of open runs
}

// Work describes the queue, the workers and the programs. It is the body of /api/work.
type Work struct {
	Now      time.Time `json:"now"`
	Queue    *Queue    `json:"queue,omitempty"` // nil if it is not known
	Running  int       `json:"running"`         // number of open runs in all processes
	Workers  []Worker  `json:"workers"`         // the workers of the newest 1,000 open runs, those with the most runs first
	Programs []Program `json:"programs"`        // without their input schemas
}

// serveWork sends the Work, which covers all runs. It does so only if the sender is allowed to see
// all runs.
func (h *Handler) serveWork(w http.ResponseWriter, req *http.Request, scope *Access) {
	if scope.Runs != nil {
		h.refuse(w, http.StatusForbidden, "forbidden", "the queue and the workers serve all runs, and you may not see all runs")
		return
	}
	work, err := h.work(req.Context())
	if err != nil {
		h.refuseError(w, err, "")
		return
	}
	h.sendJSON(w, work)
}

func (h *Handler) work(ctx context.Context) (Work, error) {
	work := Work{Now: time.Now().UTC(), Workers: []Worker{}, Programs: []Program{}}
	if h.options.Queue != nil {
		queue := h.options.Queue()
		work.Queue = &queue
	}
	if h.options.Starter != nil {
		for _, p := range h.options.Starter.Programs() {
			p.Input = nil
			work.Programs = append(work.Programs, p)
		}
	}
	page, err := h.running(ctx)
	if err != nil {
		return work, err
	}
	work.Running = page.Counts[statusRunning]
	runs := make(map[string]int)
	for i := range page.Runs {
		runs[page.Runs[i].Worker]++
	}
	for name, n := range runs {
		work.Workers = append(work.Workers, Worker{name, n})
	}
	slices.SortFunc(work.Workers, func(a, b Worker) int { return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Name, b.Name)) })
	return work, nil
}

// running returns the newest open runs.
func (h *Handler) running(ctx context.Context) (RunPage, error) {
	q := Query{Status: []string{statusRunning}, Limit: maxRuns}
	if h.source != nil {
		return h.source.List(ctx, q)
	}
	_, page, err := h.list(ctx, q)
	return page, err
}
