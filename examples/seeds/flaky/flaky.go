// Package flaky provides the service that the examples call. It runs on the local
// machine and is unavailable at first.
package flaky

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/reprise-go/reprise/core/httperror"
)

// A Service answers requests. It answers the first requests to each path with 503. It always
// answers the path /declined with 422.
type Service struct {
	*httptest.Server
	failures int

	mu     sync.Mutex
	asked  map[string]int
	tokens map[string]bool // tokens of completed requests
}

// A Request is the input of a step.
type Request struct {
	Path string `json:"path"`
}

// Start starts a service that is unavailable for the given number of requests to each path. The
// caller must close the service.
func Start(failures int) *Service {
	s := &Service{failures: failures, asked: make(map[string]int), tokens: make(map[string]bool)}
	s.Server = httptest.NewServer(s)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[r.URL.Path]++
	switch {
	case r.URL.Path == "/declined":
		http.Error(w, "card declined", http.StatusUnprocessableEntity)
	case s.asked[r.URL.Path] <= s.failures:
		http.Error(w, "try again", http.StatusServiceUnavailable)
	default:
		if token := r.Header.Get("Argyll-Receipt-Token"); token != "" {
			s.tokens[token] = true
		}
		fmt.Fprintf(w, "done %s", r.URL.Path)
	}
}

// Effects returns the number of distinct tokens in the requests that the service has completed.
func (s *Service) Effects() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tokens)
}

// Call calls the service. If the status of the response is a failure, Call returns it as an error.
// If token is not empty, it is sent with the request.
func (s *Service) Call(ctx context.Context, path, token string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, http.NoBody)
	if err != nil {
		return "", err
	}
	req.Header.Set("Argyll-Receipt-Token", token)
	resp, err := s.Client().Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if err := httperror.Check(resp); err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}
