package service

import (
	"expvar"
	"fmt"
	"io"
	"net/http"
	"runtime"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/streamer"
)

// vars serves the variables of package expvar together with the runner's stats.
func vars(r *runner.Runner) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprintf(w, "{\n%q: %s", "reprise", expvar.Func(func() any { return r.Stats() }))
		expvar.Do(func(kv expvar.KeyValue) {
			if kv.Key != "reprise" {
				fmt.Fprintf(w, ",\n%q: %s", kv.Key, kv.Value)
			}
		})
		fmt.Fprint(w, "\n}\n")
	}
}

// metrics serves the stats of the runner and the dashboard in the Prometheus text format.
func metrics(r *runner.Runner, dashboard *streamer.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		writeMetrics(w, r.Stats(), dashboard.Stats())
	}
}

// A metric is a line of the text format, with the help text for its name.
type metric struct {
	name, labels, kind, help string
	value                    float64
}

func writeMetrics(w io.Writer, s runner.Stats, d streamer.Stats) {
	last := ""
	for _, m := range append(metricsOf(&s, &d), processMetrics()...) {
		if m.name != last {
			fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
			last = m.name
		}
		fmt.Fprintf(w, "%s%s %g\n", m.name, m.labels, m.value)
	}
}

const (
	gauge   = "gauge"
	counter = "counter"
)

func metricsOf(s *runner.Stats, d *streamer.Stats) []metric {
	ended := func(status string, n int64) metric {
		return metric{"reprise_runs_closed_total", `{status="` + status + `"}`, counter, "Runs that were closed, by their status at that time.", float64(n)}
	}
	return []metric{
		{"reprise_runs_queued", "", gauge, "Runs that wait for a slot, in all processes that share the queue.", float64(s.Queued)},
		{"reprise_runs_parked", "", gauge, "Runs that wait for their time, of all processes that share the queue.", float64(s.Parked)},
		{"reprise_runs_open", "", gauge, "Runs that are open.", float64(s.Open)},
		{"reprise_runs_limit", "", gauge, "How many runs may be open at once.", float64(s.Limit)},
		{"reprise_runs_started_total", "", counter, "Runs that were stored and queued.", float64(s.Started)},
		{"reprise_runs_opened_total", "", counter, "Runs that were opened, for the first time or again.", float64(s.Opened)},
		ended("completed", s.Completed), ended("failed", s.Failed), ended("cancelled", s.Cancelled),
		ended("interrupted", s.Interrupted), ended("paused", s.Paused),
		{"reprise_runs_crashed_total", "", counter, "Runs whose process ended without closing them.", float64(s.Crashed)},
		{"reprise_crash_loops_total", "", counter, "Runs that were set aside after crashes.", float64(s.CrashLoops)},
		{"reprise_runs_removed_total", "", counter, "Runs that retention has removed.", float64(s.Removed)},
		{"reprise_troubles_total", "", counter, "Errors of the store and the queue, and runs that cannot continue.", float64(s.Troubles)},
		{"reprise_attempts_total", "", counter, "Attempts of calls that began.", float64(s.Attempts)},
		{"reprise_retries_total", "", counter, "Attempts of calls after a failed attempt.", float64(s.Retries)},
		{"reprise_exhausted_total", "", counter, "Calls that failed because no attempt, no time or no retry budget was left.", float64(s.Exhausted)},
		{"reprise_stream_clients", "", gauge, "Clients with an open event stream.", float64(d.Clients)},
		{"reprise_stream_events_total", "", counter, "Records that were published.", float64(d.Events)},
		{"reprise_requests_refused_total", "", counter, "Requests that were refused, for any reason.", float64(d.Refused)},
		{"reprise_stream_slow_disconnects_total", "", counter, "Event streams that ended because their client was slow.", float64(d.SlowDisconnects)},
	}
}

func processMetrics() []metric {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return []metric{
		{"go_goroutines", "", gauge, "Goroutines.", float64(runtime.NumGoroutine())},
		{"go_memstats_heap_inuse_bytes", "", gauge, "Bytes of the heap in use.", float64(m.HeapInuse)},
	}
}
