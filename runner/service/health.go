package service

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/reprise-go/reprise/runner"
)

// readyTimeout is how long the store may take to respond.
const readyTimeout = 2 * time.Second

// serveHealthz reports that the process is serving HTTP.
func serveHealthz(w http.ResponseWriter, _ *http.Request) { writeHealth(w, http.StatusOK, "ok") }

// serveReadyz reports whether runs can be started and executed. Probes have no credentials, so
// anyone can call it. Therefore the reason is only logged.
func serveReadyz(r *runner.Runner, log *logger) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), readyTimeout)
		defer cancel()
		if err := r.Ready(ctx); err != nil {
			log.notReady(err)
			writeHealth(w, http.StatusServiceUnavailable, "not ready")
			return
		}
		writeHealth(w, http.StatusOK, "ready")
	}
}

func writeHealth(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}
