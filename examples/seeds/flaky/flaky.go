// Package flaky is the service that the examples call: on this machine, and
// unavailable at first.
package flaky

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/reprise-go/reprise/httperror"
)

// A Service answers requests, the first of each path with 503. A path that ends
// in /declined is answered with 422, always.
type Service struct {
	*httptest.Server
	failures int

	mu     sync.Mutex
	asked  map[string]int
	tokens map[string]bool // of what was done
}

// A Request is what a step asks the service for.
type Request struct {
	Path string `json:"path"`
}

// Start starts a service that is unavailable for the first requests of each
// path. Close it.
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

// Effects is how many receipts the service has given.
func (s *Service) Effects() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tokens)
}

// Call asks the service. A response without success is an error with its status
// code. A token that is not empty is sent with it.
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
