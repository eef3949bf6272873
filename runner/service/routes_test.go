package service

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// A webhook of the program is served next to the API and starts a run.
func TestRoutesAreServedNextToTheAPI(t *testing.T) {
	var programs *runner.Runner
	hook := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		text, err := io.ReadAll(req.Body)
		if err == nil {
			_, err = programs.Start(req.Context(), "echo", req.PathValue("id"), ticket{string(text)}, runner.StartOptions{})
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan string, 1)
	var serving sync.WaitGroup
	serving.Go(func() {
		o := Options{
			Store: memstore.New(), Addr: "127.0.0.1:0", Ready: func(url string) { ready <- url },
			Runner: runner.Options{Grace: -1}, Routes: map[string]http.Handler{"POST /hooks/{id}": hook},
		}
		assert.NoError(t, Serve(ctx, o, func(r *runner.Runner) error {
			programs = r
			return register(r)
		}))
	})
	defer serving.Wait()
	defer cancel()
	url := <-ready
	status, body := do(t, http.MethodPost, url+"hooks/mail-1", "printer is on fire")
	require.Equal(t, http.StatusAccepted, status, body)
	until(t, url, "mail-1", "completed")
	status, _ = do(t, http.MethodGet, url+"hooks/mail-1", "")
	require.Equal(t, http.StatusNotFound, status)
	status, _ = do(t, http.MethodGet, url+"api/runs/mail-1", "")
	require.Equal(t, http.StatusOK, status)
}

func TestRoutesThatShadowTheServiceAreRefused(t *testing.T) {
	handler := http.NotFoundHandler()
	for _, pattern := range []string{
		"/", "/{$}", "GET /api/runs", "POST /api/mine", "/debug/pprof/", "/{any}/x", "/events", "/healthz", "/readyz/x", "GET /metrics/x", "GET /health", "hooks/x", "", "GET ", "example.org/x/y",
		"GET  /api/runs", "/hooks/{id", "/hooks/{id}/{id}",
	} {
		err := Serve(t.Context(), Options{Store: memstore.New(), Addr: "127.0.0.1:0", Routes: map[string]http.Handler{pattern: handler}}, register)
		require.ErrorContains(t, err, "service: Routes: ", pattern)
	}
	err := Serve(t.Context(), Options{Store: memstore.New(), Addr: "127.0.0.1:0", Routes: map[string]http.Handler{"/hooks/x": nil}}, register)
	require.EqualError(t, err, `service: Routes: the handler of "/hooks/x" is nil`)
	err = Serve(t.Context(), Options{Store: memstore.New(), Addr: "127.0.0.1:0", Routes: map[string]http.Handler{"/hooks/{a}": handler, "/hooks/{b}": handler}}, register)
	require.ErrorContains(t, err, "conflicts with pattern")
}
