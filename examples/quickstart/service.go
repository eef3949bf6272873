package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A weatherService is a small HTTP service on the loopback interface that is overloaded
// at first: it answers the first requests with 503 and Retry-After.
type weatherService struct {
	URL    string
	server *http.Server
	served chan struct{}

	mu       sync.Mutex
	requests int
}

// refusedRequests is the number of requests that the service refuses at first.
const refusedRequests = 2

func startWeatherService() (*weatherService, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &weatherService{URL: "http://" + listener.Addr().String(), served: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /weather", s.weather)
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		defer close(s.served)
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // a listener on the loopback interface is not expected to fail
		}
	}()
	return s, nil
}

func (s *weatherService) Close() {
	_ = s.server.Shutdown(context.Background())
	<-s.served
}

func (s *weatherService) weather(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests++
	busy := s.requests <= refusedRequests
	s.mu.Unlock()
	if busy {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
		return
	}
	city := r.URL.Query().Get("city")
	temperatures := map[string]float64{"oslo": 4.5, "lisbon": 19, "nairobi": 23.5}
	t, ok := temperatures[strings.ToLower(city)]
	if !ok {
		http.Error(w, "no such city", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(Weather{City: city, TempC: t})
}
